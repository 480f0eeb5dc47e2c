//go:build soak

package cli_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
)

// killKinds are those of a night, and what comes by a command, the HTTP proxy and
// the MCP proxy: posts that are found by their token.
const killKinds = nightKinds + `
  post:
    token: argument` + foundByToken + `
  note:
    match: [POST /posts]
    token: { into: ref }` + foundByToken + `
  mcp.shop.post:
    token: { into: ref }` + foundByToken

const foundByToken = `
    downstream: plain
    lands_within: 10s
    visible_within: 0s
` + searchByToken + `      consistent: true
`

// arena is a site whose processes die.
type arena struct {
	*site
	over context.Context
	all  sync.WaitGroup

	mu    sync.Mutex
	live  map[*os.Process]string // its role
	kills map[string]int
	told  map[string]string // by key: what was acknowledged, begun or committed
	luck  *rand.Rand
}

// lives has a process in reach of the killer until it has ended.
func (a *arena) lives(role string, cmd *exec.Cmd) (ended func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live[cmd.Process] = role
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.live, cmd.Process)
	}
}

// kill ends a process of a role taken at random, wherever it stands.
func (a *arena) kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var roles []string
	of := map[string][]*os.Process{}
	for p, role := range a.live {
		if of[role] == nil {
			roles = append(roles, role)
		}
		of[role] = append(of[role], p)
	}
	if len(roles) == 0 {
		return
	}
	role := roles[a.luck.IntN(len(roles))]
	if of[role][a.luck.IntN(len(of[role]))].Kill() == nil {
		a.kills[role]++
	}
}

// pause is a random time below a bound.
func (a *arena) pause(below time.Duration) time.Duration {
	return time.Duration(a.luck.Int64N(int64(below)))
}

// heard notes what was acknowledged.
func (a *arena) heard(key, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told[key] = what
}

func (a *arena) doomed(role string, args ...string) result {
	p := a.start(args...)
	defer a.lives(role, p.cmd)()
	return p.finish()
}

// again runs one turn of a role after the other until the end.
func (a *arena) again(role string, turn func(key string)) {
	a.all.Go(func() {
		for n := 0; a.over.Err() == nil; n++ {
			turn(fmt.Sprintf("%s-%d-", role, n))
		}
	})
}

func (a *arena) command(key string) {
	if a.doomed("run", append([]string{"run", "--kind", "post", "--key", key}, a.curl(key)...)...).Exit == 0 {
		a.heard(key, "committed")
	}
}

// pipeline sends by itself, between a begin and a settle.
func (a *arena) pipeline(key string) {
	request := fmt.Sprintf(`"customer":"c","currency":"usd","amount":700,"note":%q`, key)
	r := a.doomed("begin", "begin", "--json", "--kind", "charge", "--key", key, "--input", "{"+request+"}", "--token-sent")
	var begun struct{ Handle, Token string }
	if r.Exit != 0 || json.Unmarshal(r.Status.Data, &begun) != nil {
		return
	}
	a.heard(key, "begun")
	id := a.send(a.down.URL()+"/v1/payment_intents", key, fmt.Sprintf(`{%s,"metadata":{"indoubt":%q}}`, request, begun.Token))
	settle := []string{"settle", begun.Handle, "--outcome", "uncertain", "--error", "no answer"}
	if id != "" {
		settle = []string{"settle", begun.Handle, "--outcome", "committed", "--receipt", id}
	}
	if a.doomed("settle", settle...).Exit == 0 && id != "" {
		a.heard(key, "committed")
	}
}

// send posts once and gives the id of the effect, "" where no clear answer came.
func (a *arena) send(url, key, body string) string {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		a.Error(err)
		return ""
	}
	req.Header.Set("Authorization", "Bearer "+ownKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := (&http.Client{Timeout: 1500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var answer struct{ ID string }
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 || json.Unmarshal(text, &answer) != nil {
		return ""
	}
	return answer.ID
}

// agent speaks to a new MCP proxy until it dies, and repeats what had no answer.
func (a *arena) agent(key string) {
	p := a.site.agent("--server", "shop", "--", "python3", "kills.py", "server", a.down.URL())
	defer a.lives("mcp", p.cmd)()
	for n := 0; a.over.Err() == nil; n++ {
		request := fmt.Sprint(key, n)
		fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"post","arguments":{"text":%q}}}`+"\n", n, request)
		for {
			line, open := <-p.lines
			if !open {
				p.cmd.Wait()
				return
			}
			var answer struct {
				ID     *int
				Result *struct{ IsError bool }
			}
			if json.Unmarshal([]byte(line), &answer) == nil && answer.ID != nil && *answer.ID == n {
				if answer.Result != nil && !answer.Result.IsError {
					a.heard("text "+request, "committed")
				}
				break
			}
		}
	}
	p.in.Close()
	p.cmd.Wait()
}

// backup copies the ledger. A copy that has a name is whole, whoever was killed, and one that is acknowledged has
// left no more than were to stay.
func (a *arena) backup(string) {
	in := filepath.Join(a.dir, "copies")
	need.OK(a, os.MkdirAll(in, 0o700))
	exit := a.doomed("backup", "backup", in, "--keep", "2").Exit
	made := need.Get(filepath.Glob(filepath.Join(in, "*.db")))(a)
	if len(made) > 0 {
		copied := &site{T: a.T, ledger: made[len(made)-1]}
		copied.sound()
	}
	need.That(a, exit != 0 || len(made) <= 2, "more stay than 2: %v", made)
}

// redact empties what plain SQL has written, which is known by its key alone.
func (a *arena) redact(string) {
	time.Sleep(500 * time.Millisecond) // each writes the whole file anew
	for _, row := range a.rows(`SELECT id || '@' || version FROM op WHERE kind = 'payout' AND state = 'committed' AND verb <> 'redact' LIMIT 1`) {
		a.doomed("redact", "redact", row[0], "--reason", "asked for", "--yes")
	}
}

func (a *arena) check(string) {
	a.doomed("check", "check")
}

func (a *arena) plainSQL(string) {
	cmd := exec.Command("python3", "kills.py", "writer", a.down.URL())
	cmd.Env, cmd.Dir = a.env, a.dir
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		a.Error(err)
		return
	}
	defer a.lives("sql", cmd)()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if what, key, ok := strings.Cut(lines.Text(), " "); ok && len(key) == 36 {
			a.heard(key, what)
		}
	}
	cmd.Wait()
}

// Every role is killed again and again while all of them work: nothing that was
// acknowledged is missing, nothing is recorded against what really happened, nothing
// happened twice, and in the end all that can be known is.
func TestI10_E2E_KilledInEveryRole(t *testing.T) {
	need.Program(t, "curl", "python3")
	var long time.Duration // without one, until every role has shown something
	if text := os.Getenv("INDOUBT_TEST_KILLS"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t)
	s.writePolicy(killKinds)
	script, err := os.ReadFile("testdata/kills.py")
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "kills.py"), script, 0o600)
	}
	need.OK(t, err)
	began := time.Now()
	s.must(0, "init")
	start := time.Since(began) // which takes long where the machine is busy
	s.down.Meet(faults.Trouble{Fault: faults.CommitAndCut, Rate: 0.05}, faults.Trouble{Fault: faults.CutBefore, Rate: 0.1})
	over, end := context.WithTimeout(t.Context(), cmp.Or(long, 2*patience))
	defer end()
	a := &arena{site: s, over: over, live: map[*os.Process]string{}, kills: map[string]int{}, told: map[string]string{}, luck: rand.New(rand.NewPCG(9, 9))}
	proxy := freeAddress(t)
	a.again("http", func(string) { a.doomed("http", "http", "--listen", proxy, "--upstream", s.down.URL()) })
	a.again("engine", func(string) { a.doomed("engine", "engine") })
	a.again("console", func(string) {
		c := s.console()
		defer a.lives("console", c.cmd)()
		c.cmd.Wait()
	})
	a.again("run", a.command)
	a.again("pipeline", a.pipeline)
	a.again("client", func(key string) {
		for range 5 { // a client repeats its key
			if a.send("http://"+proxy+"/posts", key, fmt.Sprintf(`{"text":%q}`, key)) != "" {
				a.heard(key, "committed")
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	a.again("mcp", a.agent)
	a.again("sql", a.plainSQL)
	a.again("check", a.check)
	a.again("backup", a.backup)
	a.again("redact", a.redact)
	for kills, spared := 0, time.Now().Add(cmp.Or(long, patience)); over.Err() == nil; kills++ {
		time.Sleep(40*time.Millisecond + a.pause(max(200*time.Millisecond, 3*start)))
		if time.Now().Before(spared) { // a machine may be so slow that what works is killed before it has shown anything
			a.kill()
		}
		if long == 0 && kills >= 25 && kills%5 == 0 && a.hasShown() {
			end()
		}
	}
	ended := make(chan struct{})
	go func() { a.all.Wait(); close(ended) }()
	for open := true; open; { // those that go on until they are told
		select {
		case <-ended:
			open = false
		case <-time.After(200 * time.Millisecond):
			a.kill()
		}
	}
	a.inTheMorning()
}

var killedKinds = []string{"post", "charge", "note", "mcp.shop.post", "payout"}

// hasShown reports whether there are enough operations of every kind to judge by: one that
// is known to have committed, without which a check that finds nothing proves nothing.
func (a *arena) hasShown() bool {
	kinds := map[string]bool{}
	committed := 0
	for _, row := range a.rows(`SELECT kind FROM op WHERE state = 'committed'`) {
		kinds[row[0]] = true
		committed++
	}
	return committed >= 15 && len(kinds) == len(killedKinds)
}

// inTheMorning lets everything be settled, and compares it with the truth.
func (a *arena) inTheMorning() {
	a.Helper()
	a.down.Recover()
	engine := a.start("engine")
	unsettled := func() [][]string { // but for the first of a caller: a check sees no sibling of those, and a person decides
		return a.rows(`SELECT id, kind, state FROM op o WHERE state IN ('pending', 'uncertain') AND NOT EXISTS (SELECT 1 FROM ev e
			WHERE e.op = o.seq AND (e.facts -> 'read' ->> 'verdict' = 'not_seen' OR e.facts -> 'read' ->> 'cause' = 'blind'))`)
	}
	open := unsettled()
	for limit := time.Now().Add(patience); len(open) > 0 && time.Now().Before(limit); open = unsettled() {
		ids := []string{"check"}
		for _, row := range open {
			ids = append(ids, row[0])
		}
		a.do(ids...) // not waiting for the pauses between checks, which grow
		time.Sleep(200 * time.Millisecond)
	}
	engine.cmd.Process.Kill()
	engine.cmd.Wait()
	for _, row := range open {
		a.Errorf("stuck: %v\n%s", row, a.do("show", row[0]).Out)
	}
	states := map[string]string{}
	for _, row := range a.rows(`SELECT name, state, coalesce(input ->> '$.arguments.text', input ->> '$.text', '') FROM (SELECT name, state, ` + inputSQL + ` AS input FROM op o)`) {
		states[row[0]] = row[1]
		states["text "+row[2]] = row[1]
	}
	lost := 0
	for key, what := range a.told {
		if state := states[key]; state == "" || what == "committed" && state != "committed" {
			lost++
			a.Errorf("lost: %s was acknowledged as %s, and is %q", key, what, state)
		}
	}
	wrong, double := a.judge()
	a.sound()
	kills, operations := 0, 0
	for _, n := range a.kills {
		kills += n
	}
	kinds := map[string]int{}
	for _, row := range a.rows(`SELECT kind, count(*) FROM op GROUP BY 1`) {
		n, _ := strconv.Atoi(row[1])
		kinds[row[0]], operations = n, operations+n
	}
	a.Logf("%d kills %v, %d operations %v, %d of them acknowledged, %d effects: %d lost, %d wrong, %d double, %d stuck",
		kills, a.kills, operations, kinds, len(a.told), len(a.truth()), lost, wrong, double, len(open))
	if r := a.do("doctor"); r.Exit != 0 {
		a.Errorf("doctor: exit %d\n%s%s", r.Exit, r.Out, r.Err)
	}
	for _, kind := range killedKinds {
		need.That(a, kinds[kind] != 0, "nothing was recorded as %s", kind)
	}
}
