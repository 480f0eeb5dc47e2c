//go:build unix

package cli

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ui/cli/base"
)

// hostile has one of everything that a terminal acts on, hides or turns around,
// and a line of its own.
const hostile = "evil\x1b]0;PWN\x07\x1b]52;c;cm0=\x07\x1b]8;;http://x\x1b\\\x1b[31m\x9b31m\x9d0;\u009b31m\u009d\b\r\x7f\u202e\u2066\u200b\u200d\ufeff\U000e0041\xff\xc3\nFORGED"

// unsafeBytes names what in the output of a terminal is more than plain lines.
func unsafeBytes(out string) string {
	for i, r := range out {
		switch {
		case r == utf8.RuneError && strings.HasPrefix(out[i:], "\xef\xbf\xbd"), r == '\n', r == '\t':
		case r == '\r' && strings.HasPrefix(out[i:], "\r\n"):
		case r == utf8.RuneError:
			return fmt.Sprintf("the byte %#x, which is no UTF-8", out[i])
		case r < ' ', r >= 0x7f && r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xe0000 && r <= 0xe0fff:
			return fmt.Sprintf("%U", r)
		}
	}
	if strings.HasPrefix(out, "FORGED") || strings.Contains(out, "\nFORGED") {
		return "a line that the ledger made"
	}
	return ""
}

// ids are the columns that name operations, attempts, permissions and outages.
var ids = strings.Fields(`op.id outage.id`)

// ofAnotherForm are the text columns that hold one of a few words, or by which the
// ledger knows what is its own.
var ofAnotherForm = map[string]bool{}

func init() {
	for _, c := range strings.Fields(`
		op.state op.verdict op.conflict op.change_id op.receipts op.facts op.payload
		ev.id ev.about ev.facts ev.payload ev.outcome ev.verb
		outage.kinds outage.pipelines outage.classes hold.kinds hold.change_id total.what meta.name meta.value op.policy`) {
		ofAnotherForm[c] = true
	}
}

// spoil puts hostile text into every text column of a ledger, as one could who has
// the rights of its owner: the guards are away meanwhile.
func (b *bench) spoil() {
	b.Helper()
	db := need.Get(sql.Open("sqlite", "file:"+strings.ReplaceAll(b.ledger, "?", "%3f")))(b)
	defer db.Close()
	do := func(query string, args ...any) (int64, error) {
		res, err := db.Exec(query, args...)
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		return n, err
	}
	must := func(query string, args ...any) {
		b.Helper()
		if _, err := do(query, args...); err != nil {
			b.Fatalf("%s: %v", query, err)
		}
	}
	guards := pairs(b, db, `SELECT name, sql FROM sqlite_master WHERE type = 'trigger'`)
	for _, g := range guards {
		must("DROP TRIGGER " + g[0])
	}
	columns := pairs(b, db, `SELECT m.name, c.name FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND upper(c.type) LIKE 'TEXT%' AND c.hidden = 0`)
	object, _ := json.Marshal(map[string]any{"customer": hostile, hostile: []string{hostile}, "argv": []string{hostile}, "amount": 4200})
	object = append(object[:len(object)-1], (",\"raw\":\"\xff\x9b31m\u202e\"}")...)
	list, _ := json.Marshal([]string{hostile})
	for _, c := range columns {
		table, column := c[0], c[1]
		if name := table + "." + column; ofAnotherForm[name] || slices.Contains(ids, name) {
			continue
		}
		where, before := "", ""
		switch {
		case column == "kind": // the policy knows the others
			where = " WHERE kind <> 'stripe.charge'"
		case column == "scope" && (table == "hold" || table == "outage"):
			before = "kind:"
		}
		changed := int64(0)
		for _, value := range []string{before + hostile, string(object), string(list)} {
			for _, expression := range []string{"? || hex(randomblob(4))", "?"} {
				if n, err := do("UPDATE "+table+" SET "+column+" = "+expression+where, value); err == nil && changed == 0 {
					changed = n
				}
			}
		}
		need.That(b, changed != 0, "%s.%s holds no hostile text: a row lacks, or the column has a form of its own", table, column)
	}
	for _, column := range []string{"facts", "payload"} {
		for _, row := range pairs(b, db, "SELECT seq, "+column+" FROM ev WHERE "+column+" IS NOT NULL") {
			var v any
			need.OK(b, json.Unmarshal([]byte(row[1]), &v))
			must("UPDATE ev SET "+column+" = ? WHERE seq = ?", string(need.Get(json.Marshal(spoilt("", v)))(b)), row[0])
		}
	}
	for _, c := range ids { // which hold the rows together
		table, column, _ := strings.Cut(c, ".")
		must("UPDATE "+table+" SET "+column+" = substr("+column+", 1, 13) || ? || substr("+column+", 14) WHERE "+column+" <> ''", hostile)
	}
	for _, g := range guards {
		must(g[1])
	}
	member := func(n string) map[string]any {
		return map[string]any{"operation": pairs(b, db, "SELECT id, '' FROM op WHERE seq = "+n)[0][0], "change": n + hostile, "kind": hostile, "basis": hostile, "request": hostile}
	}
	run, _ := json.Marshal(map[string]any{"run": map[string]any{"verb": hostile, "state": hostile, "put_off": member("3")["operation"]}, "set": []any{member("2"), member("3")},
		"reason": hostile, "why": hostile, "reference": hostile, "receipts": []string{hostile}, "outage": hostile, "policy": hostile})
	must("INSERT INTO ev (id, about, verb, actor, reason, version, facts) VALUES (?1, 'run:' || ?1, 'run', ?2, ?2, 2, json_object('detail', json(?3)))", "019808a1-run"+hostile, hostile, string(run))
	must("INSERT INTO ev (id, about, verb, actor, reason, version, facts) VALUES (?2 || '-2', 'run:' || ?1, 'run', ?2, ?2, 2, json_object('detail', json(?3)))", "019808a1-run"+hostile, hostile, string(run))
	must("INSERT INTO ev (id, verb, actor, reason, facts) VALUES (?1, 'left_out', ?2, ?2, json_object('detail', json(?3)))", "2"+hostile, hostile, `{"came":"skipped","by":`+string(need.Get(json.Marshal(hostile))(b))+`}`)
}

// spoilt has hostile text in the place of every text in JSON, but for what has a form of its own.
func spoilt(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = spoilt(name, member)
		}
	case []any:
		for i, one := range v {
			v[i] = spoilt(name, one)
		}
	case string:
		_, err := time.Parse(time.RFC3339Nano, v)
		if err == nil || strings.HasSuffix(name, "id") || slices.Contains(strings.Fields("outcome late_outcome proof basis verdict cause tree gone scope attempt allow"), name) {
			return v
		}
		return hostile
	}
	return v
}

func pairs(b *bench, db *sql.DB, query string) (out [][2]string) {
	b.Helper()
	rows := need.Get(db.Query(query))(b)
	defer rows.Close()
	for rows.Next() {
		var one [2]string
		need.OK(b, rows.Scan(&one[0], &one[1]))
		out = append(out, one)
	}
	need.OK(b, rows.Err())
	return out
}

// hostilePolicy is a policy whose every text is hostile, with a check that answers so.
func (b *bench) hostilePolicy(url string) {
	b.Helper()
	evil := strings.Trim(strconv.QuoteToASCII(hostile), `"`)
	text := `version: 1
currency: USD
words: { "` + evil + `": 7 }
downstreams:
  "down` + evil + `": { base: "` + url + `" }
kinds:
  stripe.charge:
    downstream: "down` + evil + `"
    title: "` + evil + ` ${input.customer}"
    target: "` + evil + ` ${input.customer}"
    cost: { duplicate: 5, miss: "` + evil + `" }
    token: { into: metadata.indoubt }
    lands_within: 1m
    visible_within: 0s
    read:
      http: { get: "/find", query: { q: "${token}" } }
      valid: status == 200
      list: body.data
      mark: it.mark
      complete: "true"
      receipt: it.id
    resend: here
    link: "https://x/` + evil + `${receipt}"
    tests:
      - { name: "` + evil + `", answer: { status: 200, body: { data: [{ id: "` + evil + `" }] } }, want: landed }
`
	b.policy = b.file("hostile.yaml", text)
	b.want(0, "policy", "check")
}

// hostileLedger has an operation in every state and a row in every table.
func (b *bench) hostileLedger() {
	b.Helper()
	for n := 1; n <= 12; n++ {
		kind := "stripe.charge"
		if n%2 == 0 {
			kind = "legacy.charge"
		}
		b.doubt(n, kind, strings.Replace(charge, "INV-1042", fmt.Sprint("INV-", n%4), 1))
	}
	b.want(0, "confirm", b.at(1), "--receipt", "a", "--receipt", "b")
	b.want(0, "confirm", b.at(2), "--receipt", "a", "--reason", "seen", "--idempotency-key", "k")
	b.want(0, "deny", b.at(3), "--reason", "no")
	b.want(0, "abandon", b.at(4), "--reason", "late")
	b.want(0, "park", b.at(5), "--until", "2h")
	b.want(0, "note", id(3), id(4), "--reason", "r")
	b.want(0, "hold", "stripe.charge", "--reason", "r")
	b.want(0, "release", "stripe.charge", "--reason", "over")
	b.want(0, "hold", "legacy.charge", "--reason", "r")
	b.begin(13, "stripe.charge", charge)
	b.begin(14, "other.charge", `{"customer":"cus_14"}`)
	b.settle(14, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 200, Receipt: "pi_14"})
	b.now = b.now.Add(time.Second)
	b.begin(15, "other.charge", `{"customer":"cus_15"}`) // the newest control stays
	b.settle(15, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 200, Receipt: "pi_15"})
	execSQL(b.T, b.ledger, `UPDATE op SET mark = char(10) || 'm' || char(10) WHERE id = '`+id(6)+`'`)
	execSQL(b.T, b.ledger, fmt.Sprintf(`INSERT INTO lead VALUES ('ledger', 'engine', 2, %[1]d, %[1]d)`, b.now.UnixMilli()))
	b.read(7, ledger.Read{Verdict: ledger.CannotTell, Reason: "why"})
	need.Get(ledger.Allow(b.Context(), b.open(), ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: id(9),
		Version: b.rec(9).Operation.Version, Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Reason: "r", ExpiresAt: b.now.Add(time.Hour),
		Actor: ledger.Actor{Name: "eve", Terminal: true}}))(b)
	b.store.Close()
	b.store = nil
	b.spoil()
}

// TestI11_NoHostileByteReachesATerminal runs every command on a terminal, over a
// ledger, a policy and answers whose every text is hostile. A command that is new
// needs a line here.
func TestI11_NoHostileByteReachesATerminal(t *testing.T) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		quoted, _ := json.Marshal(hostile)
		fmt.Fprintf(w, `{"data":[{"id":%s,"mark":%[1]s}],"error":%[1]s}`, quoted)
	}))
	defer answers.Close()
	b := newBenchAlone(t)
	b.hostileLedger()
	b.hostilePolicy(answers.URL)
	evil, _ := json.Marshal(hostile)
	rows := b.file("rows"+hostile[:20]+".jsonl", fmt.Sprintf(`{"kind":"stripe.charge","at":1750000000,"source":%[1]s,"run":%[1]s,"key":%[1]s,"input":{"a":%[1]s},"error":%[1]s}
{"kind":%[1]s,"at":1750000000}
{"kind":"k","at":%[1]s}
{"kind":"k","at":1750000000,"outcome":%[1]s}
%[2]s
`, evil, hostile))
	port := freePort(t)
	t.Chdir(b.dir)
	client := b.file("client"+strings.Split(hostile, "/")[0]+".json", fmt.Sprintf(`{"mcpServers":{%s:{"command":%[1]s,"args":[%[1]s]},"r":{"type":%[1]s,"url":%[1]s}}}`, evil))
	one, other := "019808a1-0001", "019808a1-0006"
	known := func(query string) string {
		db := need.Get(sql.Open("sqlite", b.ledger))(t)
		defer db.Close()
		return pairs(b, db, query)[0][0]
	}
	at := func(n int) string {
		return known(fmt.Sprintf("SELECT id || '@' || version, '' FROM op WHERE seq = %d", n))
	}
	why := []string{"--reason", hostile}
	outage, ran := known("SELECT id, '' FROM outage"), known("SELECT id, '' FROM ev WHERE about = 'run:' || id")
	with := func(args ...string) []string { return append(args, why...) }
	cases := map[string][][]string{
		"":        {{"--json"}, {"state:uncertain", "--json"}, {one, "--json"}, {hostile, "--json"}, {"lst" + hostile}, {"--" + hostile}, {"--policy", "/none/" + hostile, "list"}, {"--ledger", "/none/" + hostile, "list"}},
		"list":    {{}, {"--json"}, {"--all", "-o", hostile}, {"kind:a OR", "(" + hostile}, {"--limit", "3"}, {"kind:" + hostile}, {"state:" + hostile}, {"--all", "-o", "jsonl"}, {"--all", hostile}},
		"show":    {{one}, {"019808a1-0002"}, {"019808a1-0003"}, {"019808a1-0004"}, {"019808a1-0005"}, {other}, {"019808a1-0007"}, {"019808a1-0008"}, {"019808a1-0009"}, {"019808a1-000d"}, {"019808a1-000e"}, {"019808a1"}, {hostile}, {}},
		"report":  {{}, {"--since", "9d"}, {outage}},
		"log":     {{}, {"--json", "--follow"}, {"--all", "-o", "jsonl"}, {one}, {hostile}, {"--follow"}},
		"doctor":  {{}},
		"confirm": {with(at(6), "--dry-run"), with(at(6)), with(at(1)), with(hostile + "@1"), {at(7), "--receipt", hostile}},
		"deny":    {with(at(9)), with(at(9)), with(other)},
		"retry":   {{at(11), "--dry-run"}, with(at(11), "--dry-run"), with(at(11)), with(at(12)), with(at(3))},
		"abandon": {with(at(10), "--dry-run"), with(at(10))},
		"redact":  {with(at(4), "--dry-run", "--key"), with(at(4)), with(at(3), "--yes"), with(at(8), "--yes"), with(hostile)},
		"ack":     {with(at(1), "--truth", "taken_back", "--reference", hostile)},
		"park":    {with(at(8), "--until", "2h"), {at(8), "--until", hostile}},
		"undo":    {with(at(2)), with(at(13))},
		"note":    {with(at(2))},
		"hold":    {with("stripe.charge"), with("--downstream", hostile), with("kind"+hostile, "--dry-run")},
		"release": {{"stripe.charge"}, {hostile}},
		"check":   {{other}, {at(11)}, {}, {hostile}},
		"engine":  {{hostile}, {"--metrics", ":0"}},
		"run": {{"--kind", "k", "--key", hostile, "--input", "{}", "--", "/none/" + hostile}, {"--kind", "k", "--key", hostile, "--input", "[]", "--", "true"},
			{"--kind", "k" + hostile, "--key", "a", "--dry-run", "--", "false", hostile}, {"--kind", "k", "--key", "a" + hostile, "--", "false", hostile}, {"--kind", "k", "--expand", hostile, "--", "true"}},
		"begin":         {{"--kind", "k" + hostile, "--key", hostile}, {"--kind", "k" + hostile, "--key", hostile}, {"--kind", "k", "--input", hostile}, {"--kind", "k", "--key", hostile + "2"}, {"--kind", hostile, "--dry-run"}},
		"settle":        {{hostile, "--outcome", "committed"}, {strings.Replace(id(13), "-00", "-aa", 1) + hostile, "--outcome", "uncertain", "--error", hostile}, {"x", "--outcome", hostile}},
		"mcp":           {{"--", "/none/" + hostile}, {"--server", hostile, "--", "false", hostile}, {"--url", "http://127.0.0.1:1/" + hostile}},
		"mcp install":   {{client}, {client, "--yes"}, {client, "--server", hostile}, {hostile}},
		"mcp uninstall": {{client, "--yes"}, {hostile}},
		"http":          {{"--listen", port, "--upstream", answers.URL}, {"--listen", hostile, "--upstream", answers.URL}, {"--upstream", "http://x/" + hostile}},
		"demo":          {{"--seed", "x" + hostile}, {"--at", hostile}},
		"init":          {{}, {"--group", hostile, "--dry-run"}},
		"adopt":         {{}, {"--dry-run"}},
		"copy":          {{b.ledger, filepath.Join(b.dir, "moved"+hostile), "--dry-run"}, {filepath.Join(b.dir, "none"+hostile), filepath.Join(b.dir, "moved"+hostile)}, {hostile, hostile}},
		"backup":        {{filepath.Join(b.dir, "copy"+hostile)}, {"/none/" + hostile}, {"/none/" + hostile, "--keep", "1"}},
		"prune":         {{"--before", "1s", "--to", hostile}, {"--before", "1s", "--to", b.dir, "--dry-run"}, {"--before", hostile}},
		"help":          {{}, {"list"}, {hostile}},
		"completion":    {{"bash"}, {"zsh"}, {"fish"}, {"powershell"}, {hostile}},
		"__complete":    {{"show", ""}, {"hold", "--downstream", ""}, {"policy", "try", ""}},
		"import":        {{rows}, {"--dry-run", rows}, {"--skip-bad", rows}, {"--from", hostile}, {"--from", "/none/" + hostile}, {"--map", hostile}, {"--map", "kind=" + hostile, rows}, {"/none/" + hostile}},

		"runs":        {{}, {ran}, {hostile}},
		"runs resume": {{ran, "--yes"}, {hostile}},
		"runs stop":   {{ran, "--reason", hostile}, {hostile}},
		"outage":      {{}},
		"outage list": {{}},
		"outage show": {{outage}, {hostile}},
		"outage take": {{outage}, with(outage), {outage, "--until", hostile}},

		"policy":        {{}},
		"policy check":  {{}, {"--policy", b.file("broken.yaml", "version: 1\nkinds: { \"a"+strings.Trim(strconv.QuoteToASCII(hostile), `"`)+"\": { nope: 1 } }\n")}},
		"policy show":   {{}, {"stripe.charge"}, {hostile}},
		"policy test":   {{}, {"stripe.charge"}, {hostile}},
		"policy try":    {{"stripe.charge", "--op", other}, {"stripe.charge", "--op", at(11)}, {"stripe.charge", "--input", `{"customer":"\u001b[31m"}`}, {hostile, "--input", "{}"}},
		"policy apply":  {{"--reason", hostile}, {hostile, "--dry-run"}},
		"policy init":   {{"example", filepath.Join(b.dir, "new"+hostile)}, {hostile}, {"--list"}},
		"policy schema": {{}},
	}
	root := newRootCommand(base.NewApp(strings.NewReader(""), io.Discard, io.Discard), nil)
	root.InitDefaultHelpCmd()
	for _, path := range commandPaths(root, "") {
		need.That(t, len(cases[path]) != 0, "indoubt %s has no case", path)
	}
	for path, all := range cases {
		for _, args := range all {
			for _, more := range [][]string{nil, {"--json"}} {
				line := append(append(strings.Fields(path), more...), args...)
				out := strings.ReplaceAll(b.onTerminal(port, line), "\r\x1b[K", "") // a slow command takes its progress away by that
				if unsafeBytes(out) != "" {
					t.Errorf("indoubt %q prints %s:\n%q", line, unsafeBytes(out), out)
				}
			}
		}
	}
}

// commandPaths are all commands below one, itself included.
func commandPaths(cmd *cobra.Command, path string) []string {
	out := []string{path}
	for _, sub := range cmd.Commands() {
		out = append(out, commandPaths(sub, strings.TrimSpace(path+" "+sub.Name()))...)
	}
	return out
}

// onTerminal runs one command line with a terminal for its output and its errors,
// and gives what came there. What would go on for ever is ended.
func (b *bench) onTerminal(port string, args []string) string {
	b.Helper()
	screen, tty, err := pty.Open()
	need.OK(b, err)
	defer screen.Close()
	_ = pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 100})
	seen, more := make(chan string), make(chan struct{}, 1)
	go func() {
		var all, part = []byte{}, make([]byte, 4096)
		for n, err := 0, error(nil); err == nil; all = append(all, part[:n]...) { // EIO, when the other end is closed
			n, err = screen.Read(part)
			select {
			case more <- struct{}{}:
			default:
			}
		}
		seen <- string(all)
	}()
	a := base.NewApp(strings.NewReader("y\nbecause "+hostile+"\ny\n"), tty, tty)
	a.Clock, a.Steady = b.clock, hostclock.With(b.clock)
	a.Terminal = func() bool { return len(args) > 0 && !slices.Contains(args, "--json") && args[0] != "demo" }
	a.Env = func(name string) string {
		return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy, "INDOUBT_ACTOR": "maya"}[name]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	switch {
	case slices.Contains(args, "--follow"):
		time.AfterFunc(100*time.Millisecond, cancel)
	case slices.Contains(args, ":0"): // the engine goes on, and says no more than at its first look
		go func() {
			defer cancel()
			for patience := time.Minute; ; patience = 200 * time.Millisecond {
				select {
				case <-more:
				case <-time.After(patience):
					return
				}
			}
		}()
	case slices.Contains(args, port):
		go func() {
			defer cancel()
			for range 200 {
				req, _ := http.NewRequest("POST", "http://"+port+"/a%1b%5b31m%c2%9b?b=%0aFORGED", strings.NewReader("{}"))
				req.Header.Set("Idempotency-Key", "k\u009b\u202e")
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	run(ctx, a, args)
	tty.Close()
	return <-seen
}

func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", need.Get(pgtest.Port())(t))
}

// TestI11_ACopyTellsItsHomeSafely: the home of a copy is whatever its ledger says.
func TestI11_ACopyTellsItsHomeSafely(t *testing.T) {
	b := newBenchAlone(t)
	b.doubt(1, "stripe.charge", charge)
	b.store.Close()
	b.store = nil
	db := need.Get(sql.Open("sqlite", b.ledger))(t)
	for _, table := range []string{"meta"} {
		for _, g := range pairs(b, db, "SELECT name, '' FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '"+table+"'") {
			need.Get(db.Exec("DROP TRIGGER " + g[0]))(t)
		}
	}
	need.Get(db.Exec("UPDATE meta SET value = ? WHERE name IN ('host', 'home', 'boot', 'machine')", hostile))(t)
	db.Close()
	for _, args := range [][]string{{"adopt", "--dry-run"}, {"doctor"}, {"list"}, {"hold", "--all", "--reason", "r"}, {"begin", "--kind", "k"}, {"init"}, {"adopt"}} {
		for _, more := range [][]string{nil, {"--json"}} {
			if out := b.onTerminal("-", append(args, more...)); unsafeBytes(out) != "" {
				t.Errorf("indoubt %q prints %s:\n%q", args, unsafeBytes(out), out)
			}
		}
	}
}
