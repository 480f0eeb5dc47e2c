package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Audited is a ledger that can be compared with its history.
type Audited interface {
	ledger.Store
	Deviations(ctx context.Context) ([]ledger.Deviation, error)
}

// RandomSQL says anything over a foreign connection: the invariants hold, and the ledger goes on.
// INDOUBT_SQL_STATEMENTS is how many statements are tried, or so many; INDOUBT_SQL_SEED which ones.
func RandomSQL(t *testing.T, statements int, open func(t *testing.T, clock ledger.Clock) (Audited, Foreign)) {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	seed, left := number("INDOUBT_SQL_SEED", 4), number("INDOUBT_SQL_STATEMENTS", statements)
	const each = 500 // of one ledger, so that it stays small
	seen := map[string]int{}
	for round := 0; left > 0; round++ {
		f := &fuzzed{t: t, r: rand.New(rand.NewPCG(uint64(seed), uint64(round))), seen: seen, sql: map[string][]fuzzColumn{}}
		f.name = fmt.Sprintf("INDOUBT_SQL_SEED=%d, ledger %d", seed, round)
		f.s, f.db = open(t, f.clock)
		f.learn()
		for range 6 {
			f.own()
		}
		f.is = f.look()
		for range min(each, left) {
			f.step()
		}
		f.goesOn()
		f.db.Close()
		need.OK(t, f.s.Close())
		left -= each
	}
	t.Logf("seed %d: %v", seed, seen)
	need.Must(t, seen["accepted"] >= statements/6 && seen["refused"] >= statements/6, "the statements are too wild or too tame: %v", seen)
	if statements < 10_000 { // with each column there are other ones
		return
	}
	for _, what := range []string{"begin", "settle", "again", "permission", "undo", "abandon", "redact", "moved", "outages"} {
		need.That(t, seen[what] > 0, "no statement came to: %s", what)
	}
}

// fuzzed is a ledger that a foreign connection writes to at random.
type fuzzed struct {
	t     *testing.T
	r     *rand.Rand
	s     Audited
	db    Foreign
	ahead atomic.Int64
	seen  map[string]int
	name  string
	ids   int
	sql   map[string][]fuzzColumn
	is    stands
}

func (f *fuzzed) clock() time.Time { return time.Now().Add(time.Duration(f.ahead.Load())) }

type fuzzColumn struct {
	name, kind    string
	needed, fixed bool // has no default; cannot be written
}

// fuzzTables are written to.
var fuzzTables = []string{"op", "op", "op", "op", "op", "ev", "ev", "ev", "hold", "price", "intent", "settle"}

// learn asks for the columns of the tables.
func (f *fuzzed) learn() {
	for _, table := range fuzzTables {
		if f.sql[table] != nil {
			continue
		}
		query := `SELECT name, type, "notnull" AND dflt_value IS NULL AS needed, hidden <> 0 AS fixed FROM pragma_table_xinfo('` + table +
			`')`
		if f.db.Postgres {
			query = `SELECT attname::text AS name, CASE atttypid WHEN 'bigint'::regtype THEN '' ELSE 'TEXT' END AS type,
				(attnotnull AND NOT atthasdef)::int::bigint AS needed,
				0::bigint AS fixed FROM pg_attribute WHERE attrelid = '` + table + `'::regclass AND attnum > 0 ORDER BY attnum`
		}
		for _, c := range f.db.Rows(query) {
			f.sql[table] = append(f.sql[table], fuzzColumn{c["name"].(string), c["type"].(string), c["needed"] == int64(1),
				c["fixed"] == int64(1)})
		}
	}
}

func (f *fuzzed) id() string { f.ids++; return fmt.Sprintf("n%d", f.ids) }

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
	if f.r.IntN(20) == 0 && !f.db.Postgres {
		need.OK(f.t, f.db.Exec(fmt.Sprintf(`PRAGMA recursive_triggers = %d`, f.r.IntN(2))))
	}
	if err := f.db.Exec(statement); err != nil {
		f.seen["refused"]++
		return
	}
	f.seen["accepted"]++
	was := f.is
	f.is = f.look()
	f.judge(f.t, was, f.is, statement)
}

// any gives a value of a column that a row has, as SQL.
func (f *fuzzed) any(table, column string) string {
	if table == "intent" || table == "settle" { // nothing is to be read there
		table, column = "op", "id"
	}
	return fmt.Sprintf("(SELECT %[1]s FROM %[2]s ORDER BY CAST(%[1]s AS TEXT) LIMIT 1 OFFSET %[3]d %% (SELECT 1 + count(*) FROM %[2]s))",
		column, table, f.r.IntN(1000))
}

// now is SQL for this moment and some milliseconds.
func (f *fuzzed) now(more int) string {
	if f.db.Postgres {
		return fmt.Sprintf("(CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + %d)", more)
	}
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
		if c := pick(f.r, f.sql[table]...); !c.fixed {
			s = s.with(c.name, f.value(table, c))
		}
	}
	return s
}

// sensible is what a writer says who knows the tables, or nearly.
func (f *fuzzed) sensible() string {
	switch n := f.r.IntN(20); {
	case n < 3:
		return f.inserted("op", pick(f.r, "INSERT", "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"), f.missed("op", f.birth()))
	case n < 4:
		return f.inserted("intent", "INSERT", f.missed("intent", sets{}.with("id", "'"+f.id()+"'", "kind", "'k'",
			"key", "'"+pick(f.r, "same", f.id())+"'", "input", "'{}'", "actor", "'nightly'", "token", "'t'")))
	case n < 6:
		return f.inserted("settle", "INSERT", f.missed("settle", sets{}.with("attempt", f.any("op", "id")+" || '.1'",
			"outcome", "'"+pick(f.r, "committed", "failed", "uncertain")+"'", "actor", "'nightly'")))
	case n < 8:
		return f.inserted("ev", pick(f.r, "INSERT", "INSERT OR REPLACE"), f.missed("ev", f.told()))
	case n < 9:
		return fmt.Sprintf(`DELETE FROM ev WHERE op = %s AND seq < %s`, f.any("op", "seq"), f.any("ev", "seq"))
	case n < 10:
		return fmt.Sprintf(`UPDATE ev SET payload = NULL, reason = '[redacted]' WHERE %s = %s AND verb <> 'redact'`, pick(f.r, "op",
			"about"),
			f.any("ev", pick(f.r, "op", "about")))
	case n < 11:
		return fmt.Sprintf(`UPDATE op SET moved = %s, payload = NULL, change_id = '' WHERE seq = %s AND state IN ('committed', 'failed')`,
			pick(f.r, f.any("ev", "seq"), "coalesce((SELECT max(seq) FROM ev WHERE verb = 'prune'), 1)"), f.any("op", "seq"))
	}
	state := pick(f.r, "pending", "pending", "uncertain", "uncertain", "uncertain", "failed", "failed", "committed")
	return fmt.Sprintf(`UPDATE %s op SET %s WHERE seq = (SELECT seq FROM op WHERE state = '%s' ORDER BY seq %% %d LIMIT 1)`,
		f.or("", "", "", "OR REPLACE", "OR IGNORE", "OR FAIL"), f.assigned(f.missed("op", f.change(state))), state, 1+f.r.IntN(7))
}

func (f *fuzzed) inserted(table, verb string, s sets) string {
	if (table == "op" || table == "ev") && f.r.IntN(25) == 0 {
		s = s.with(f.row(), pick(f.r, "-1", "0", "1", "9223372036854775807"))
	}
	var names, values []string
	for _, s := range s {
		if !slices.Contains(names, s[0]) {
			names, values = append(names, s[0]), append(values, s[1])
		}
	}
	return f.insertion(verb, fmt.Sprintf(`%s (%s) VALUES (%s)`, table, strings.Join(names, ", "), strings.Join(values, ", ")))
}

// insertion says what becomes of a row that is there: a word of SQLite's, or of PostgreSQL's.
func (f *fuzzed) insertion(verb, of string) string {
	verb, or, _ := strings.Cut(verb, " OR ")
	table, _, _ := strings.Cut(of, " ")
	switch {
	case !f.db.Postgres && or != "":
		return verb + " OR " + or + " INTO " + of
	case or == "REPLACE" && fuzzKeys[table] != nil:
		return verb + " INTO " + of + " ON CONFLICT (" + pick(f.r, fuzzKeys[table]...) + ") DO UPDATE SET " + f.set(table)
	case or == "IGNORE":
		return verb + " INTO " + of + " ON CONFLICT DO NOTHING"
	}
	return verb + " INTO " + of
}

// fuzzKeys are what the rows of a table are told apart by.
var fuzzKeys = map[string][]string{"op": {"seq", "id", "name, scope, kind, (CASE live WHEN 1 THEN -1 ELSE n END)"}, "ev": {"seq", "op, id"},
	"hold": {"scope"}, "price": {"op"}}

// row is the column that numbers the rows.
func (f *fuzzed) row() string {
	if f.db.Postgres {
		return "seq"
	}
	return pick(f.r, "seq", "rowid")
}

// or is what is to be done with an UPDATE that is refused; only SQLite is told.
func (f *fuzzed) or(words ...string) string {
	if f.db.Postgres {
		return ""
	}
	return pick(f.r, words...)
}

// birth is a row of op that begins.
func (f *fuzzed) birth() sets {
	id := f.id()
	name := pick(f.r, id, "same", "other")
	if f.r.IntN(15) == 0 {
		id = pick(f.r, "n1", "n2", "n3")
	}
	return sets{}.with("id", "'"+id+"'", "kind", "'"+pick(f.r, "k", "k", "k2")+"'", "name", "'"+name+"'",
		"n", fmt.Sprintf("(SELECT coalesce(max(n) + 1, 0) FROM op WHERE name = '%s')", name), "gate", "'"+pick(f.r, "", "g1", "g2", "g3")+
			"'",
		"token", "'t"+id+"'", "target", "'"+pick(f.r, "", "box")+"'", "deadline_at", f.now(pick(f.r, 60_000, 3_600_000)), "actor", "'eve'",
		"machine", pick(f.r, "0", "1"), "facts", pick(f.r, "NULL", `'{"sender":"http"}'`, `'{"policy":1}'`))
}

// told is an event that is inserted by itself.
func (f *fuzzed) told() sets {
	s := sets{}.with("id", "'"+f.id()+"'", "actor", "'eve'", "machine", pick(f.r, "0", "1"))
	switch f.r.IntN(5) {
	case 0:
		return s.with("op", "0", "verb", "'prune'", "about", "'file:x'")
	case 1:
		return s.with("op", "0", "verb", "'policy'", "about", "'policy'", "version", pick(f.r, "1", "2", "3"), "facts",
			`'{"detail":{"digest":"`+pick(f.r, "d", "e")+`","text":""}}'`)
	case 2:
		return s.with("op", f.any("op", "seq"), "verb", "'look'", "facts", `'{"read":{"verdict":"`+pick(f.r, "not_there", "landed")+
			`","digest":"d"}}'`)
	case 3:
		return s.with("op", "0", "verb", "'outage_noted'", "about", "'outage:x@1'", "reason", "'its text'", "payload", "'{}'")
	}
	return s.with("op", f.any("op", "seq"), "verb", "'note'", "reason", "'so'", "n", pick(f.r, "0", "1", "2"),
		"facts", pick(f.r, "NULL", `'{"proof":"refused"}'`, `'{"ended_at":"2001-01-01T00:00:00Z"}'`,
			`'{"attempts":{"1":{"proof":"refused"}}}'`,
			`'{"op":{"hands":"eve"}}'`, `'{"allowed":{"g":{"version":3}}}'`))
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
		return does("settle", "1", `'{"outcome":"uncertain"}'`, "state", "'uncertain'", "unproven", "unproven + 1", "doubted", "1",
			"deadline_at", "0",
			"ended_at", f.now(0))
	case "pending2":
		return does("settle", "1", `'{"outcome":"failed","proof":"refused"}'`, "state", "'"+pick(f.r, "failed", "failed", "uncertain")+"'",
			"deadline_at", "0",
			"ended_at", f.now(0))
	case "pending3":
		return does("settle", "1", `'{"outcome":"failed"}'`, "state", "'failed'", "unproven", "unproven + 1", "deadline_at", "0")
	case "pending4":
		return does("settle", "1", `'{"outcome":"committed"}'`, "state", "'committed'", "person_only", "1", "effects", "1", "deadline_at",
			"0")
	case "uncertain0", "uncertain1":
		return does("allow", pick(f.r, "0", "0", "1"), "NULL", "allow_until", f.now(pick(f.r, 60_000, -1)))
	case "uncertain2", "failed0", "failed1", "uncertain3":
		return does(pick(f.r, "begin", "begin", "retry"), pick(f.r, "0", "1"), pick(f.r, "NULL", `'{"policy":1}'`,
			`'{"basis":"key_safe"}'`), "state", "'pending'",
			"attempt", "attempt + 1", "allow_until", "0", "deadline_at", f.now(3_600_000))
	case "uncertain4":
		return pick(f.r, does("read", "1", pick(f.r, `'{"proof":"not_there"}'`, "NULL"), "state", "'failed'", "unproven", pick(f.r, "0",
			"unproven")),
			does("read", "1", "NULL", "state", "'committed'", "person_only", "1"), does("deny", "0", "NULL", "state", "'failed'"))
	case "uncertain5", "failed2":
		return does("abandon", pick(f.r, "0", "0", "1"), "NULL", "abandoned", pick(f.r, "1", "1", "0"))
	case "failed3", "failed4", "committed0":
		return does("undo", pick(f.r, "0", "0", "1"), "NULL", "state", "'uncertain'", "unproven",
			"CASE WHEN unproven < attempt THEN unproven + 1 ELSE attempt END", "person_only", "1")
	case "committed1", "failed5":
		return does("late", "1", "NULL", "conflict", "'"+pick(f.r, "twice", "disputed", "different")+"'")
	case "committed2":
		return does("ack", pick(f.r, "0", "0", "1"), "NULL", "conflict", "''", "state", "'"+pick(f.r, "failed", "committed")+"'")
	case "committed3", "committed5":
		return does("redact", pick(f.r, "0", "0", "1"), "NULL", "payload", "NULL", "name", pick(f.r, "name", "name", "'[redacted]'",
			"'[redacted hmac:t]'"), "title", "'[redacted]'")
	case "committed4":
		return sets{}.with("live", "0")
	}
	return sets{}.with(pick(f.r, "deadline_at", "ended_at", "parked_until", "undelivered"), pick(f.r, f.now(7_200_000), f.now(60_000), "1",
		"0"))
}

// begin begins an operation as indoubt does.
func (f *fuzzed) begin(key, gate string) error {
	id := f.id()
	_, err := ledger.Begin(ctx, f.s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "k", Key: key,
		Token:     id + "-t",
		TokenSent: true, Fingerprint: "f", Gate: gate, Sender: "pipeline", Deadline: time.Hour, Actor: billing})
	return err
}

// own does something as indoubt does, so that the ledger has all there is.
func (f *fuzzed) own() {
	ids := f.texts(`SELECT id AS text FROM op ORDER BY seq`)
	var o ledger.Operation
	if len(ids) > 0 {
		o = need.Get(f.s.Read(ctx, ledger.Locator{ID: pick(f.r, ids...)}))(f.t).Operation
	}
	now := f.clock()
	var err error
	switch n := f.r.IntN(10); {
	case o.ID == "" || n < 2:
		err = f.begin(pick(f.r, f.id(), "same"), pick(f.r, "", "g1", "g2"))
	case n < 4 && o.LiveAttempt != "":
		_, err = ledger.Settle(ctx, f.s, ledger.SettleRequest{ChangeID: f.id(), AttemptID: o.LiveAttempt, Actor: billing, Receipt: pick(f.r,
			"", "r1"),
			Error: "lost", Outcome: pick(f.r, ledger.OutcomeUncertain, ledger.OutcomeUncertain, ledger.OutcomeFailed,
				ledger.OutcomeCommitted)})
	case n == 4:
		_, err = ledger.Allow(ctx, f.s, ledger.AllowRequest{ChangeID: f.id(), AllowID: f.id(), OperationID: o.ID, Version: o.Version,
			Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: maya, Reason: "must", ExpiresAt: now.Add(time.Hour)})
	case n == 5:
		_, err = ledger.Decide(ctx, f.s, ledger.Decision{ChangeID: f.id(), ID: o.ID, Version: o.Version, Actor: maya, Reason: "asked",
			Verb: pick(f.r, ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbUndo, ledger.VerbAbandon, ledger.VerbNote, ledger.VerbRedact)})
	case n == 6:
		_, err = ledger.Observe(ctx, f.s, ledger.Observation{ChangeID: f.id(), Version: o.Version, Actor: billing, Settles: true,
			Read: ledger.Read{ID: f.id(), OperationID: o.ID, BeganAt: now, EndedAt: now, Reason: "looked",
				Verdict: pick(f.r, ledger.Landed, ledger.NotThere, ledger.CannotTell)}})
	case n == 8:
		err = f.outage()
	case n == 7:
		if _, err = f.s.Lead(ctx, pick(f.r, "e1", "e2"), ledger.RankEngine, []string{ledger.LeadLedger}); err == nil {
			run := ledger.DecisionRun{ID: f.id(), Verb: "deny", Actor: maya}
			items := []ledger.RunItem{{OperationID: o.ID, Version: 1, Kind: "k"}, {N: 1, OperationID: "next", Version: 1}}
			if run, _, err = f.s.Run(ctx, run, items); err == nil {
				came := ledger.RunAdvance{Actor: maya, Next: &items[1]}
				if items[0].Came = pick(f.r, "", ledger.CameSkipped, ledger.CameHeld); items[0].Came != "" {
					came.Item = &items[0]
				}
				_, err = f.s.ChangeRun(ctx, run, came.Rule)
			}
		}
	default:
		err = f.s.Hold(ctx, ledger.Hold{Scope: pick[ledger.HoldScope](f.r, "all", "kind:k"), Actor: maya, Reason: "night"})
		if err == nil && f.r.IntN(2) == 0 {
			err = f.s.LiftHold(ctx, ledger.Lift{Scope: "all", Actor: maya, Reason: "over", ChangeID: f.id()})
		}
		if err == nil {
			err = f.s.Fold(ctx, nil, nil, true, func(string) ledger.Burst {
				return ledger.Burst{Scope: "downstream:d", Errors: 2, Within: time.Hour, Gap: time.Hour}
			})
		}
	}
	var guard *ledger.GuardError
	if errors.As(err, &guard) && !strings.Contains(guard.Message, "policy") && !strings.Contains(guard.Message, "held here") {
		f.t.Fatalf("%s: indoubt itself is refused: %v%s", f.name, err, f.story("id = '"+o.ID+"'"))
	}
}

// outage changes one as a person does.
func (f *fuzzed) outage() error {
	ins, err := f.s.Outages(ctx, f.clock(), 100)
	if err != nil || len(ins) == 0 {
		return err
	}
	c := ledger.OutageChange{ChangeID: f.id(), ID: pick(f.r, ins...).ID, Actor: maya, Reason: "asked",
		Verb: pick(f.r, ledger.OutageNoted, ledger.OutageTaken)}
	_, err = f.s.ChangeOutage(ctx, c)
	return err
}

// story is what the history says of some operations.
func (f *fuzzed) story(of string) string {
	return "\n" + strings.Join(f.texts(`SELECT o.id || ' ' || o.attempt || ' ' || o.unproven || ' ' || e.n || ' ' || e.verb || ' ' || e.before ||
		' ' || e.state || ' ' || coalesce(CAST(e.facts AS TEXT), '') AS text FROM op o JOIN ev e ON e.op = o.seq WHERE o.`+of), "\n")
}

// goesOn tries that nothing is stuck: every deadline passes, every doubt can be
// decided, and a new operation can begin.
func (f *fuzzed) goesOn() {
	need.OK(f.t, f.db.Exec(`DELETE FROM hold`))
	f.seen["outages"] += len(need.Get(f.s.Outages(ctx, f.clock(), 100))(f.t))
	f.ahead.Store(int64(400 * 24 * time.Hour))
	for n := 1; n > 0; {
		var err error
		n, err = f.s.Expire(ctx, 1000)
		need.OK(f.t, err, f.name+": no deadline passes: "+f.story("state = 'pending'"))
	}
	for _, id := range f.texts(`SELECT id AS text FROM op`) {
		rec := need.Get(f.s.Read(ctx, ledger.Locator{ID: id}))(f.t)
		if rec.Operation.State == ledger.Pending {
			f.t.Fatalf("%s: %s is in flight for ever: %+v", f.name, id, rec)
		}
		if rec.Operation.State != ledger.Uncertain {
			continue
		}
		_, err := ledger.Decide(ctx, f.s, ledger.Decision{ChangeID: f.id(), ID: id, Version: rec.Operation.Version, Actor: maya,
			Reason: "asked",
			Verb:   ledger.VerbConfirm})
		need.OK(f.t, err, f.name+": "+id+" cannot be decided")
	}
	last := need.Get(f.s.Info(ctx))(f.t).LastSeq
	need.OK(f.t, f.begin(f.id(), ""))
	now := need.Get(f.s.Info(ctx))(f.t).LastSeq
	need.Must(f.t, now == last+1 || f.db.Postgres && now > last, "%s: event %d after %d", f.name, now, last)
	deviations := need.Get(f.s.Deviations(ctx))(f.t)
	need.Must(f.t, len(deviations) == 0, "%s: what stands is not what the history says: %+v", f.name, deviations)
	if !f.db.Postgres {
		need.Equal(f.t, f.texts(`SELECT integrity_check AS text FROM pragma_integrity_check`)[0], "ok")
	}
}
