package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
)

// Whatever a foreign connection says, the invariants hold and the ledger goes on.
// INDOUBT_SQL_STATEMENTS is how many statements are tried (1,200 when it is not set,
// 20,000 in the slow lane), INDOUBT_SQL_SEED which ones. INDOUBT_SQL_WITHOUT takes the guard
// away whose words have that in them: the test must fail then.
func TestInvariantsUnderRandomSQL(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	seed, left := number("INDOUBT_SQL_SEED", 1), number("INDOUBT_SQL_STATEMENTS", need.Steps(1_200, 20_000))
	const each = 500 // of one ledger, so that it stays small
	seen := map[string]int{}
	for round := 0; left > 0; round++ {
		f := newFuzzed(t, rand.New(rand.NewPCG(uint64(seed), uint64(round))), seen)
		f.name = fmt.Sprintf("INDOUBT_SQL_SEED=%d, ledger %d", seed, round)
		for range min(each, left) {
			f.step()
		}
		f.goesOn()
		need.OK(t, f.db.Close())
		need.OK(t, f.s.Close())
		left -= each
	}
	t.Logf("seed %d: %v", seed, seen)
	need.Must(t, seen["accepted"] >= 200 && seen["refused"] >= 200, "the statements are too wild or too tame: %v", seen)
	for _, what := range []string{"begin", "settle", "again", "permission", "undo", "abandon", "redact", "moved", "outages"} {
		need.That(t, seen[what] > 0, "no statement came to: %s", what)
	}
}

// fuzzed is a ledger that a foreign connection writes to at random.
type fuzzed struct {
	t     *testing.T
	r     *rand.Rand
	s     *Store
	db    *sql.DB
	ahead atomic.Int64
	seen  map[string]int
	name  string
	ids   int
	sql   map[string][]fuzzColumn
	is    stands
}

type fuzzColumn struct {
	name, kind    string
	needed, fixed bool // has no default; cannot be written
}

// fuzzTables are written to.
var fuzzTables = []string{"op", "op", "op", "op", "op", "ev", "ev", "ev", "hold", "price", "intent", "settle"}

func newFuzzed(t *testing.T, r *rand.Rand, seen map[string]int) *fuzzed {
	f := &fuzzed{t: t, r: r, seen: seen, sql: map[string][]fuzzColumn{}}
	ahead := func() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }
	f.s = need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{Clock: ahead, Steady: hostclock.With(ahead)}))(t)
	f.db = rawDB(t, f.s.path)
	need.Get(f.db.Exec(`PRAGMA synchronous = OFF`))(t)
	for _, table := range fuzzTables {
		if f.sql[table] != nil {
			continue
		}
		rows := need.Get(f.db.Query(`SELECT name, type, "notnull" AND dflt_value IS NULL, hidden <> 0 FROM pragma_table_xinfo(?)`, table))(t)
		for rows.Next() {
			var c fuzzColumn
			need.OK(t, rows.Scan(&c.name, &c.kind, &c.needed, &c.fixed))
			f.sql[table] = append(f.sql[table], c)
		}
		need.OK(t, rows.Err())
		need.OK(t, rows.Close())
	}
	if without := os.Getenv("INDOUBT_SQL_WITHOUT"); without != "" {
		f.without(without)
	}
	for range 6 {
		f.own()
	}
	f.is = f.look()
	return f
}

// without takes a guard away.
func (f *fuzzed) without(words string) {
	var name, text string
	need.OK(f.t, f.db.QueryRow(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND instr(sql, ?) > 0`, words).Scan(&name, &text))
	rules := strings.Split(text, "  SELECT RAISE(")
	for i, rule := range rules[1:] {
		if strings.Contains(rule, words) {
			_, after, _ := strings.Cut(rule, "IS NOT FALSE;\n")
			rules[i+1] = "SELECT 1;\n" + after
		} else {
			rules[i+1] = "SELECT RAISE(" + rule
		}
	}
	need.Get(f.db.Exec(`DROP TRIGGER ` + name + `; ` + strings.Join(rules, "  ")))(f.t)
}

func (f *fuzzed) id() string { f.ids++; return fmt.Sprintf("n%d", f.ids) }

func pick[T any](f *fuzzed, of ...T) T { return of[f.r.IntN(len(of))] }

// step is one statement, or something that indoubt does in between.
func (f *fuzzed) step() {
	switch n := f.r.IntN(100); {
	case n < 8:
		f.own()
		f.is = f.look()
	case n < 65:
		f.exec(f.sensible())
	default:
		f.exec(f.wild())
	}
}

// exec runs a statement, and judges what came of it.
func (f *fuzzed) exec(statement string) {
	if f.r.IntN(20) == 0 {
		need.Get(f.db.Exec(fmt.Sprintf(`PRAGMA recursive_triggers = %d`, f.r.IntN(2))))(f.t)
	}
	if _, err := f.db.Exec(statement); err != nil {
		f.seen["refused"]++
		return
	}
	f.seen["accepted"]++
	was := f.is
	f.is = f.look()
	if wrong := f.judge(was, f.is); wrong != "" {
		f.t.Fatalf("%s: %s\nafter\n  %s", f.name, wrong, statement)
	}
}

// any gives a value of a column that a row has, as SQL.
func (f *fuzzed) any(table, column string) string {
	if table == "intent" || table == "settle" { // nothing is to be read there
		table, column = "op", "id"
	}
	return fmt.Sprintf("(SELECT %s FROM %s ORDER BY 1 LIMIT 1 OFFSET %d %% max(1, (SELECT count(*) FROM %s)))", column, table, f.r.IntN(1000), table)
}

// now is SQL for this moment and some milliseconds.
func (f *fuzzed) now(more int) string {
	return fmt.Sprintf("(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + %d)", more)
}

// sets is an ordered list of columns with their values.
type sets [][2]string

func (s sets) with(pairs ...string) sets {
	for i := 0; i < len(pairs); i += 2 {
		s = append(s, [2]string{pairs[i], pairs[i+1]})
	}
	return s
}

// missed changes one thing of some of them: what is nearly right finds more than what is not.
func (f *fuzzed) missed(table string, s sets) sets {
	if f.r.IntN(2) == 0 {
		return s
	}
	switch i := f.r.IntN(len(s)); f.r.IntN(3) {
	case 0:
		s = append(s[:i:i], s[i+1:]...)
	case 1:
		for _, c := range f.sql[table] {
			if c.name == s[i][0] {
				s[i][1] = f.value(table, c)
			}
		}
	default:
		if c := pick(f, f.sql[table]...); !c.fixed {
			s = s.with(c.name, f.value(table, c))
		}
	}
	return s
}

// sensible is what a writer says who knows the tables, or nearly.
func (f *fuzzed) sensible() string {
	switch n := f.r.IntN(20); {
	case n < 3:
		return f.inserted("op", pick(f, "INSERT", "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"), f.missed("op", f.birth()))
	case n < 4:
		return f.inserted("intent", "INSERT", f.missed("intent", sets{}.with("id", "'"+f.id()+"'", "kind", "'k'",
			"key", "'"+pick(f, "same", f.id())+"'", "input", "'{}'", "actor", "'nightly'", "token", "'t'")))
	case n < 6:
		return f.inserted("settle", "INSERT", f.missed("settle", sets{}.with("attempt", f.any("op", "id")+" || '.1'",
			"outcome", "'"+pick(f, "committed", "failed", "uncertain")+"'", "actor", "'nightly'")))
	case n < 8:
		return f.inserted("ev", pick(f, "INSERT", "INSERT OR REPLACE"), f.missed("ev", f.told()))
	case n < 9:
		return fmt.Sprintf(`DELETE FROM ev WHERE op = %s AND seq < %s`, f.any("op", "seq"), f.any("ev", "seq"))
	case n < 10:
		return fmt.Sprintf(`UPDATE ev SET payload = NULL, reason = '[redacted]' WHERE %s = %s AND verb <> 'redact'`, pick(f, "op", "about"),
			f.any("ev", pick(f, "op", "about")))
	case n < 11:
		return fmt.Sprintf(`UPDATE op SET moved = %s, payload = NULL, change_id = '' WHERE seq = %s AND state IN ('committed', 'failed')`,
			pick(f, f.any("ev", "seq"), "coalesce((SELECT max(seq) FROM ev WHERE verb = 'prune'), 1)"), f.any("op", "seq"))
	}
	state := pick(f, "pending", "pending", "uncertain", "uncertain", "uncertain", "failed", "failed", "committed")
	var list []string
	for _, s := range f.missed("op", f.change(state)) {
		list = append(list, s[0]+" = "+s[1])
	}
	return fmt.Sprintf(`UPDATE %s op SET %s WHERE seq = (SELECT seq FROM op WHERE state = '%s' ORDER BY seq %% %d LIMIT 1)`,
		pick(f, "", "", "", "OR REPLACE", "OR IGNORE", "OR FAIL"), strings.Join(list, ", "), state, 1+f.r.IntN(7))
}

func (f *fuzzed) inserted(table, verb string, s sets) string {
	if (table == "op" || table == "ev") && f.r.IntN(25) == 0 {
		s = s.with(pick(f, "seq", "rowid"), pick(f, "-1", "0", "1", "9223372036854775807"))
	}
	var names, values []string
	for _, s := range s {
		names, values = append(names, s[0]), append(values, s[1])
	}
	return fmt.Sprintf(`%s INTO %s (%s) VALUES (%s)`, verb, table, strings.Join(names, ", "), strings.Join(values, ", "))
}

// birth is a row of op that begins.
func (f *fuzzed) birth() sets {
	id := f.id()
	name := pick(f, id, "same", "other")
	if f.r.IntN(15) == 0 {
		id = pick(f, "n1", "n2", "n3")
	}
	return sets{}.with("id", "'"+id+"'", "kind", "'"+pick(f, "k", "k", "k2")+"'", "name", "'"+name+"'",
		"n", fmt.Sprintf("(SELECT coalesce(max(n) + 1, 0) FROM op WHERE name = '%s')", name), "gate", "'"+pick(f, "", "g1", "g2", "g3")+"'",
		"token", "'t"+id+"'", "target", "'"+pick(f, "", "box")+"'", "deadline_at", f.now(pick(f, 60_000, 3_600_000)), "actor", "'eve'",
		"machine", pick(f, "0", "1"), "facts", pick(f, "NULL", `'{"sender":"http"}'`, `'{"policy":1}'`))
}

// told is an event that is inserted by itself.
func (f *fuzzed) told() sets {
	s := sets{}.with("id", "'"+f.id()+"'", "actor", "'eve'", "machine", pick(f, "0", "1"))
	switch f.r.IntN(5) {
	case 0:
		return s.with("op", "0", "verb", "'prune'", "about", "'file:x'")
	case 1:
		return s.with("op", "0", "verb", "'policy'", "about", "'policy'", "version", pick(f, "1", "2", "3"), "facts",
			`'{"detail":{"digest":"`+pick(f, "d", "e")+`","files":[]}}'`)
	case 2:
		return s.with("op", f.any("op", "seq"), "verb", "'look'", "facts", `'{"read":{"verdict":"`+pick(f, "not_there", "landed")+`","digest":"d"}}'`)
	case 3:
		return s.with("op", "0", "verb", "'outage_noted'", "about", "'outage:x@1'", "reason", "'its text'", "payload", "'{}'")
	}
	return s.with("op", f.any("op", "seq"), "verb", "'note'", "reason", "'so'", "n", pick(f, "0", "1", "2"),
		"facts", pick(f, "NULL", `'{"proof":"refused"}'`, `'{"ended_at":"2001-01-01T00:00:00Z"}'`, `'{"attempts":{"1":{"proof":"refused"}}}'`,
			`'{"op":{"hands":"eve"}}'`, `'{"grants":{"g":{"version":3}}}'`))
}

// change is what a writer sets who moves an operation out of a state, with a change id, a version
// and a reason.
func (f *fuzzed) change(state string) sets {
	s := sets{}.with("version", "version + 1", "change_id", "'"+f.id()+"'", "changed_at", f.now(0), "actor", "'eve'", "reason", "'why'")
	does := func(verb, machine, facts string, pairs ...string) sets {
		return s.with("verb", "'"+verb+"'", "machine", machine, "facts", facts).with(pairs...)
	}
	switch state + strconv.Itoa(f.r.IntN(6)) {
	case "pending0", "pending1":
		return does("settle", "1", `'{"outcome":"uncertain"}'`, "state", "'uncertain'", "unproven", "unproven + 1", "doubted", "1", "deadline_at", "0",
			"ended_at", f.now(0))
	case "pending2":
		return does("settle", "1", `'{"outcome":"failed","proof":"refused"}'`, "state", "'"+pick(f, "failed", "failed", "uncertain")+"'", "deadline_at", "0",
			"ended_at", f.now(0))
	case "pending3":
		return does("settle", "1", `'{"outcome":"failed"}'`, "state", "'failed'", "unproven", "unproven + 1", "deadline_at", "0")
	case "pending4":
		return does("settle", "1", `'{"outcome":"committed"}'`, "state", "'committed'", "person_only", "1", "effects", "1", "deadline_at", "0")
	case "uncertain0", "uncertain1":
		return does("grant", pick(f, "0", "0", "1"), "NULL", "allow_until", f.now(pick(f, 60_000, -1)))
	case "uncertain2", "failed0", "failed1", "uncertain3":
		return does(pick(f, "begin", "begin", "retry"), pick(f, "0", "1"), pick(f, "NULL", `'{"policy":1}'`, `'{"basis":"key_safe"}'`), "state", "'pending'",
			"attempt", "attempt + 1", "allow_until", "0", "deadline_at", f.now(3_600_000))
	case "uncertain4":
		return pick(f, does("read", "1", pick(f, `'{"proof":"not_there"}'`, "NULL"), "state", "'failed'", "unproven", pick(f, "0", "unproven")),
			does("read", "1", "NULL", "state", "'committed'", "person_only", "1"), does("deny", "0", "NULL", "state", "'failed'"))
	case "uncertain5", "failed2":
		return does("abandon", pick(f, "0", "0", "1"), "NULL", "abandoned", pick(f, "1", "1", "0"))
	case "failed3", "failed4", "committed0":
		return does("undo", pick(f, "0", "0", "1"), "NULL", "state", "'uncertain'", "unproven", "min(unproven + 1, attempt)", "person_only", "1")
	case "committed1", "failed5":
		return does("late", "1", "NULL", "conflict", "'"+pick(f, "duplicate", "contradiction", "different")+"'")
	case "committed2":
		return does("ack", pick(f, "0", "0", "1"), "NULL", "conflict", "''", "state", "'"+pick(f, "failed", "committed")+"'")
	case "committed3":
		return does("redact", pick(f, "0", "0", "1"), "NULL", "payload", "NULL", "name", pick(f, "name", "name", "'[redacted]'", "'[redacted sha256:t]'"), "title", "'[redacted]'")
	case "committed4":
		return sets{}.with("live", "0")
	}
	return sets{}.with(pick(f, "deadline_at", "ended_at", "parked_until", "undelivered"), pick(f, f.now(7_200_000), f.now(60_000), "1", "0"))
}

// value is SQL for something that may be written to a column.
func (f *fuzzed) value(table string, c fuzzColumn) string {
	switch n := f.r.IntN(20); {
	case n == 0:
		return "NULL"
	case n < 5:
		return f.any(table, c.name)
	case n < 9 && strings.HasSuffix(c.name, "_at"), n < 9 && strings.HasSuffix(c.name, "until"), n < 9 && c.name == "at":
		return pick(f, "0", f.now(-3_600_000), f.now(-1), f.now(0), f.now(60_000), f.now(0)+" / 1000", "253402300799999")
	case n < 9 && c.name == "op":
		return f.any("op", "seq")
	case n < 14 && c.kind == "TEXT":
		switch c.name {
		case "state", "before", "outcome":
			return "'" + pick(f, "pending", "committed", "failed", "uncertain", "abandoned", "") + "'"
		case "verb":
			return "'" + pick(f, "begin", "settle", "grant", "retry", "undo", "adopt", "ack", "redact", "note", "prune") + "'"
		case "facts":
			return pick(f, `'{"outcome":"committed"}'`, `'{"outcome":"failed","proof":"refused"}'`, `'{"proof":"not_there"}'`, `'{"proof":"x"}'`,
				`'{"basis":"key_safe"}'`, `'{"n":1,"proof":"refused"}'`, `'{"policy":1}'`, "NULL", "facts", `'[]'`, `'{'`)
		case "conflict":
			return "'" + pick(f, "duplicate", "contradiction", "") + "'"
		case "scope":
			return "'" + pick(f, "", "all", "kind:k") + "'"
		case "gate":
			return "'" + pick(f, "", "g1", "g2", "g3") + "'"
		case "about":
			return "'" + pick(f, "policy", "file:x", "outage:x@1", "run:n1", "") + "'"
		}
		return "'" + f.id() + "'"
	case n < 16 && c.kind == "TEXT":
		return "'" + pick(f, "", "x", "[]", "{}", `{"proof":"refused"}`, "clock", "eve") + "'"
	}
	return pick(f, "0", "1", "2", "-1", c.name, c.name+" + 1", c.name+" - 1", "9223372036854775807", "-9223372036854775808", "4503599627370496")
}

// wild is any statement.
func (f *fuzzed) wild() string {
	table := pick(f, fuzzTables...)
	or := pick(f, "", "", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK")
	where := pick(f, "", " WHERE "+pick(f, f.sql[table]...).name+" = ", " WHERE "+f.sql[table][0].name+" = ", " WHERE "+f.sql[table][0].name+" = ")
	if strings.HasSuffix(where, "= ") {
		where += f.any(table, strings.TrimSuffix(strings.TrimPrefix(where, " WHERE "), " = "))
	}
	switch n := f.r.IntN(10); {
	case n == 0:
		return `DELETE FROM ` + table + where
	case n < 3:
		return f.insert(table, or)
	case n == 3:
		var names []string
		for _, c := range f.sql[table] {
			names = append(names, c.name)
		}
		list := strings.Join(names, ", ")
		replaced := pick(f, f.sql[table]...)
		from := strings.Replace(", "+list+",", ", "+replaced.name+",", ", "+f.value(table, replaced)+",", 1)
		return fmt.Sprintf(`INSERT %s INTO %s (%s) SELECT %s FROM %s%s`, or, table, list, strings.Trim(from, " ,"), table, where)
	}
	set := f.set(table)
	if or == "OR REPLACE" && f.r.IntN(3) == 0 { // NULL becomes the default
		set = ""
		for range 1 + f.r.IntN(3) {
			if c := pick(f, f.sql[table]...); !c.needed {
				set += c.name + " = NULL, "
			}
		}
		set += f.set(table)
	}
	return fmt.Sprintf(`UPDATE %s %s SET %s%s`, or, table, set, where)
}

func (f *fuzzed) insert(table, or string) string {
	var s sets
	for _, c := range f.sql[table] {
		if c.needed || f.r.IntN(6) == 0 {
			s = s.with(c.name, strings.ReplaceAll(f.value(table, c), c.name+" ", "0 "))
		}
	}
	if len(s) == 0 {
		return `INSERT INTO ` + table + ` DEFAULT VALUES`
	}
	upsert := ""
	if f.r.IntN(5) == 0 {
		upsert = ` ON CONFLICT DO UPDATE SET ` + f.set(table)
	}
	return f.inserted(table, "INSERT "+or, s) + upsert
}

// set is what an UPDATE sets.
func (f *fuzzed) set(table string) string {
	var out []string
	for range 1 + f.r.IntN(4) {
		c := pick(f, f.sql[table]...)
		out = append(out, c.name+" = "+f.value(table, c))
	}
	if table == "op" && f.r.IntN(2) == 0 {
		out = append(out, fmt.Sprintf(`version = version + 1, change_id = '%s', actor = 'eve', reason = 'why', machine = %d`, f.id(), f.r.IntN(2)))
	}
	if f.r.IntN(12) == 0 {
		out = append(out, "rowid = "+pick(f, "1", "-1", "rowid + 1", "9223372036854775807"))
	}
	return strings.Join(out, ", ")
}

// own does something as indoubt does, so that the ledger has all there is.
func (f *fuzzed) own() {
	ids := texts(f.t, f.s, `SELECT id FROM op ORDER BY seq`)
	var o ledger.Operation
	if len(ids) > 0 {
		o = need.Get(f.s.Read(ctx, ledger.Locator{ID: pick(f, ids...)}))(f.t).Operation
	}
	now := f.s.now()
	var err error
	switch n := f.r.IntN(10); {
	case o.ID == "" || n < 2:
		id := f.id()
		_, err = ledger.Begin(ctx, f.s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "k",
			Key: pick(f, id, "same"), Token: id + "-t", TokenSent: true, Fingerprint: "f", Gate: pick(f, "", "g1", "g2"), Sender: "pipeline",
			Deadline: time.Hour, Actor: billing})
	case n < 4 && o.LiveAttempt != "":
		_, err = ledger.Settle(ctx, f.s, ledger.SettleRequest{ChangeID: f.id(), AttemptID: o.LiveAttempt, Actor: billing, Receipt: pick(f, "", "r1"),
			Error: "lost", Outcome: pick(f, ledger.OutcomeUncertain, ledger.OutcomeUncertain, ledger.OutcomeFailed, ledger.OutcomeCommitted)})
	case n == 4:
		_, err = ledger.Allow(ctx, f.s, ledger.GrantRequest{ChangeID: f.id(), GrantID: f.id(), OperationID: o.ID, Version: o.Version,
			Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: now.Add(time.Hour)})
	case n == 5:
		_, err = ledger.Decide(ctx, f.s, ledger.Decision{ChangeID: f.id(), ID: o.ID, Version: o.Version, Actor: ann, Reason: "asked",
			Verb: pick(f, ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbUndo, ledger.VerbAbandon, ledger.VerbNote, ledger.VerbRedact)})
	case n == 6:
		_, err = ledger.Observe(ctx, f.s, ledger.Observation{ChangeID: f.id(), Version: o.Version, Actor: billing, Settles: true,
			Read: ledger.Read{ID: f.id(), OperationID: o.ID, BeganAt: now, EndedAt: now, Reason: "looked",
				Verdict: pick(f, ledger.Landed, ledger.NotThere, ledger.CannotTell)}})
	case n == 8:
		err = f.outage()
	case n == 7:
		if _, err = f.s.Lead(ctx, pick(f, "e1", "e2"), ledger.RankEngine, []string{ledger.LeadLedger}); err == nil {
			run := ledger.DecisionRun{ID: f.id(), Verb: "deny", Actor: ann}
			items := []ledger.RunItem{{OperationID: o.ID, Version: 1, Kind: "k"}, {N: 1, OperationID: "next", Version: 1}}
			if run, _, err = f.s.Run(ctx, run, items); err == nil {
				items[0].Came = pick(f, "", ledger.CameSkipped, ledger.CameHeld)
				came := ledger.RunAdvance{ChangeID: f.id(), Actor: ann, Item: &items[0], Next: &items[1]}
				_, err = f.s.ChangeRun(ctx, run, came.ChangeID, came.Rule())
			}
		}
	default:
		err = f.s.Hold(ctx, ledger.Hold{Scope: pick[ledger.HoldScope](f, "all", "kind:k"), Actor: ann, Reason: "night"})
		if err == nil && f.r.IntN(2) == 0 {
			err = f.s.LiftHold(ctx, "all", ann, "over", f.id())
		}
		if err == nil {
			err = f.s.Fold(ctx, nil, true, pairs)
		}
	}
	var guard *ledger.GuardError
	if errors.As(err, &guard) && !strings.Contains(guard.Message, "policy") && !strings.Contains(guard.Message, "held here") {
		f.t.Fatalf("%s: indoubt itself is refused: %v%s", f.name, err, f.story("id = '"+o.ID+"'"))
	}
}

// pairs makes an outage of two errors.
func pairs(string) ledger.Burst {
	return ledger.Burst{Scope: "downstream:d", Errors: 2, Within: time.Hour, Gap: time.Hour}
}

// outage changes one as a person does.
func (f *fuzzed) outage() error {
	ins, err := f.s.Outages(ctx, f.s.now(), 100)
	if err != nil || len(ins) == 0 {
		return err
	}
	c := ledger.OutageChange{ChangeID: f.id(), ID: pick(f, ins...).ID, Actor: ann, Reason: "asked",
		Verb: pick(f, ledger.OutageNoted, ledger.OutageTaken)}
	_, err = f.s.ChangeOutage(ctx, c)
	return err
}
