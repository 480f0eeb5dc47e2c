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
// INDOUBT_SQL_STATEMENTS is how many statements are tried (750 when it is not set,
// 10,000 in the slow lane; 100,000 take minutes), INDOUBT_SQL_SEED which ones.
func TestInvariantsUnderRandomSQL(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	seed, left := number("INDOUBT_SQL_SEED", 1), number("INDOUBT_SQL_STATEMENTS", need.Steps(750, 10_000))
	const each = 1000 // of one ledger, so that it stays small
	seen := map[string]int{}
	for round := 0; left > 0; round++ {
		f := newFuzzed(t, rand.New(rand.NewPCG(uint64(seed), uint64(round))), seen)
		f.name = fmt.Sprintf("INDOUBT_SQL_SEED=%d, ledger %d", seed, round)
		for n := range min(each, left) {
			f.step()
			if n%25 == 24 {
				f.check()
			}
		}
		f.check()
		f.goesOn()
		need.OK(t, f.db.Close())
		need.OK(t, f.s.Close())
		left -= each
	}
	t.Logf("seed %d: %v", seed, seen)
	need.Must(t, seen["accepted"] >= 100 && seen["refused"] >= 100 && seen["outages"] != 0,
		"the statements are too wild or too tame: %v", seen)
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
	said  []string // statements since the last check
	sql   map[string][]fuzzColumn
	kept  map[string]map[string]string // what must not change, by table and row
}

type fuzzColumn struct {
	name, kind    string
	needed, fixed bool // has no default; cannot be written
}

// fuzzTables are written to.
var fuzzTables = []string{"operations", "operations", "operations", "operations", "attempts", "attempts", "reads", "grants", "grants",
	"lead", "events", "events", "holds", "open_operations", "open_operations"}

var withoutRowID = map[string]bool{"attempts": true, "lead": true}

func newFuzzed(t *testing.T, r *rand.Rand, seen map[string]int) *fuzzed {
	f := &fuzzed{t: t, r: r, seen: seen, sql: map[string][]fuzzColumn{}, kept: map[string]map[string]string{}}
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
	for range 6 {
		f.own()
	}
	return f
}

func (f *fuzzed) fatalf(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("%s: %s\nafter\n  %s", f.name, fmt.Sprintf(format, args...), strings.Join(f.said, "\n  "))
}

func (f *fuzzed) id() string { f.ids++; return fmt.Sprintf("n%d", f.ids) }

func one[T any](f *fuzzed, of ...T) T { return of[f.r.IntN(len(of))] }

// step is one statement, or something that indoubt does in between.
func (f *fuzzed) step() {
	switch n := f.r.IntN(100); {
	case n < 10:
		f.own()
	case n < 25:
		f.exec(f.sensible())
	default:
		f.exec(f.wild())
	}
}

func (f *fuzzed) exec(statement string) {
	if f.r.IntN(20) == 0 {
		need.Get(f.db.Exec(fmt.Sprintf(`PRAGMA recursive_triggers = %d; PRAGMA foreign_keys = %d`, f.r.IntN(2), f.r.IntN(2))))(f.t)
	}
	_, err := f.db.Exec(statement)
	if err == nil {
		f.seen["accepted"]++
		f.said = append(f.said, statement)
		return
	}
	f.seen["refused"]++
	f.said = append(f.said, "refused ("+err.Error()+"): "+statement)
}

// any gives a value of a column that a row has, as SQL.
func (f *fuzzed) any(table, column string) string {
	return fmt.Sprintf("(SELECT %s FROM %s ORDER BY 1 LIMIT 1 OFFSET %d %% max(1, (SELECT count(*) FROM %s)))", column, table, f.r.IntN(1000), table)
}

// sensible is what a pipeline in plain SQL says, or one that writes whole rows.
func (f *fuzzed) sensible() string {
	if f.r.IntN(3) == 0 {
		id := f.id()
		return fmt.Sprintf(`%s INTO operations (id, kind, key, input, deadline_at, actor) VALUES ('%s', '%s', '%s', '{}', %s, 'nightly')`,
			one(f, "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL"), id, one(f, "k", "k2"), one(f, id, id, "same"), f.now(one(f, 60_000, 3_600_000)))
	}
	if f.r.IntN(9) == 0 { // an attempt by itself
		return fmt.Sprintf(`UPDATE attempts SET outcome = '%s', ended_at = %s, proof = '%s' WHERE outcome = ''`, one(f, "failed", "uncertain"), f.now(0), one(f, "", "refused"))
	}
	if f.r.IntN(4) == 0 { // it is still being sent
		return fmt.Sprintf(`UPDATE operations SET deadline_at = %s WHERE state = 'pending' AND id = %s`, f.now(7_200_000), f.any("operations", "id"))
	}
	set := fmt.Sprintf(`state = '%s', change_id = '%s', actor = '%s', reason = 'why'`, one(f, "committed", "failed", "failed", "uncertain", "uncertain"), f.id(),
		one(f, "nightly", "nightly", "nightly", "checks", "Clock"))
	for _, more := range []string{`live_attempt = '', deadline_at = 0, version = version + 1`, `receipt = 'r1'`, `error_class = 'timeout'`,
		`change_detail = '{"proof":"refused"}'`, `doubted = 0, ended_at = created_at`, `updated_at = created_at`} {
		if f.r.IntN(3) == 0 {
			set += ", " + more
		}
	}
	return fmt.Sprintf(`UPDATE %s operations SET %s WHERE id = %s`, one(f, "", "", "OR REPLACE", "OR IGNORE", "OR FAIL"), set, f.any("operations", "id"))
}

// now is SQL for this moment and some milliseconds.
func (f *fuzzed) now(more int) string {
	return fmt.Sprintf("(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + %d)", more)
}

// value is SQL for something that may be written to a column.
func (f *fuzzed) value(table string, c fuzzColumn) string {
	switch n := f.r.IntN(20); {
	case n == 0:
		return "NULL"
	case n < 5:
		return f.any(table, c.name)
	case n < 9 && strings.HasSuffix(c.name, "_at"), n < 9 && c.name == "until", n < 9 && c.name == "at":
		return one(f, "0", f.now(-3_600_000), f.now(-1), f.now(0), f.now(60_000), f.now(0)+" / 1000", "253402300799999")
	case n < 9 && c.name == "operation_id":
		return f.any("operations", "id")
	case n < 9 && c.name == "attempt_id", n < 9 && c.name == "live_attempt":
		return f.any("attempts", "id")
	case n < 9 && c.name == "grant_id":
		return f.any("grants", "id")
	case n < 14 && c.kind == "TEXT":
		switch c.name {
		case "state", "from_state", "to_state", "outcome", "late_outcome":
			return "'" + one(f, "pending", "committed", "failed", "uncertain", "abandoned", "") + "'"
		case "basis":
			return "'" + one(f, "proof", "key_safe", "risk_accepted", "landed", "") + "'"
		case "proof", "verdict":
			return "'" + one(f, "not_there", "refused", "never_sent", "key_safe", "landed", "") + "'"
		case "conflict":
			return "'" + one(f, "duplicate", "contradiction", "") + "'"
		case "scope":
			return "'" + one(f, "", "all", "kind:k") + "'"
		}
		return "'" + f.id() + "'"
	case n < 16 && c.kind == "TEXT":
		return "'" + one(f, "", "x", "[]", "{}", `{"proof":"refused"}`, "clock", "eve") + "'"
	}
	return one(f, "0", "1", "2", "-1", c.name, c.name+" + 1", c.name+" - 1", "9223372036854775807", "-9223372036854775808", "4503599627370496")
}

// wild is any statement.
func (f *fuzzed) wild() string {
	table := one(f, fuzzTables...)
	or := one(f, "", "", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK")
	numbered := " WHERE rowid = 1"
	if withoutRowID[table] {
		numbered = ""
	}
	where := one(f, "", numbered, " WHERE "+f.sql[table][f.r.IntN(len(f.sql[table]))].name+" = ", " WHERE "+f.sql[table][0].name+" = ")
	if strings.HasSuffix(where, "= ") {
		column := strings.TrimSuffix(strings.TrimPrefix(where, " WHERE "), " = ")
		where += f.any(table, column)
	}
	switch n := f.r.IntN(10); {
	case n == 0:
		return `DELETE FROM ` + table + where
	case n < 3:
		return f.insert(table, or)
	case n == 3:
		var names []string
		for _, c := range f.sql[table] {
			if !c.fixed {
				names = append(names, c.name)
			}
		}
		list := strings.Join(names, ", ")
		replaced := names[f.r.IntN(len(names))]
		from := strings.Replace(", "+list+",", ", "+replaced+",", ", "+f.value(table, fuzzColumn{name: replaced, kind: "TEXT"})+",", 1)
		return fmt.Sprintf(`INSERT %s INTO %s (%s) SELECT %s FROM %s%s`, or, table, list, strings.Trim(from, " ,"), table, where)
	}
	set := f.set(table)
	if or == "OR REPLACE" && f.r.IntN(3) == 0 { // NULL becomes the default
		set = ""
		for range 1 + f.r.IntN(3) {
			if c := one(f, f.sql[table]...); !c.fixed && !c.needed {
				set += c.name + " = NULL, "
			}
		}
		set += one(f, "deadline_at = "+f.now(7_200_000), f.set(table))
	}
	return fmt.Sprintf(`UPDATE %s %s SET %s%s`, or, table, set, where)
}

func (f *fuzzed) insert(table, or string) string {
	var names, values []string
	for _, c := range f.sql[table] {
		if c.fixed || c.name == "change_of" || !c.needed && f.r.IntN(6) > 0 {
			continue
		}
		v := f.value(table, c)
		if f.r.IntN(3) > 0 { // something that fits
			switch {
			case c.name == "operation_id":
				v = f.any("operations", "id")
			case c.name == "actor":
				v = "'eve'"
			case c.name == "deadline_at" || c.name == "expires_at" || c.name == "until":
				v = f.now(60_000)
			case strings.HasSuffix(c.name, "_at"):
				v = f.now(0)
			case c.name == "id" && table != "holds":
				v = "'" + f.id() + "'"
			}
		}
		names, values = append(names, c.name), append(values, strings.ReplaceAll(v, c.name+" ", "0 "))
	}
	if !withoutRowID[table] && f.r.IntN(10) == 0 {
		names, values = append(names, one(f, "rowid", "seq")), append(values, one(f, "-1", "0", "1", "9223372036854775807"))
	}
	upsert := ""
	if f.r.IntN(5) == 0 {
		upsert = ` ON CONFLICT DO UPDATE SET ` + f.set(table)
	}
	return fmt.Sprintf(`INSERT %s INTO %s (%s) VALUES (%s)%s`, or, table, strings.Join(names, ", "), strings.Join(values, ", "), upsert)
}

// set is what an UPDATE sets. Who sets change_of keeps the whole record itself.
func (f *fuzzed) set(table string) string {
	var out []string
	for range 1 + f.r.IntN(4) {
		c := f.sql[table][f.r.IntN(len(f.sql[table]))]
		if c.name != "change_of" && (!c.fixed || f.r.IntN(20) == 0) {
			out = append(out, c.name+" = "+f.value(table, c))
		}
	}
	if table == "operations" && f.r.IntN(2) == 0 {
		out = append(out, fmt.Sprintf(`change_id = '%s', actor = 'eve', reason = 'why'`, f.id()))
	}
	if !withoutRowID[table] && f.r.IntN(12) == 0 || len(out) == 0 {
		out = append(out, "rowid = "+one(f, "1", "-1", "rowid + 1", "9223372036854775807"))
	}
	return strings.Join(out, ", ")
}

// own does something as indoubt does, so that the ledger has all there is.
func (f *fuzzed) own() {
	f.said = append(f.said, "indoubt itself")
	ids := texts(f.t, f.s, `SELECT id FROM operations ORDER BY seq`)
	var o ledger.Operation
	if len(ids) > 0 {
		o = need.Get(f.s.Read(ctx, ledger.Locator{ID: one(f, ids...)}))(f.t).Operation
	}
	now := f.s.now()
	var err error
	switch n := f.r.IntN(10); {
	case o.ID == "" || n < 2:
		id := f.id()
		_, err = ledger.Begin(ctx, f.s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "k", Key: one(f, id, "same"), Token: id + "-t",
			TokenSent: true, Fingerprint: "f", Sender: "pipeline", Deadline: time.Hour, Actor: billing})
	case n < 4 && o.LiveAttempt != "":
		_, err = ledger.Settle(ctx, f.s, ledger.SettleRequest{ChangeID: f.id(), AttemptID: o.LiveAttempt, Actor: billing, Receipt: one(f, "", "r1"), Error: "lost",
			Outcome: one(f, ledger.OutcomeUncertain, ledger.OutcomeUncertain, ledger.OutcomeFailed, ledger.OutcomeCommitted)})
	case n == 4:
		_, err = ledger.Allow(ctx, f.s, ledger.GrantRequest{ChangeID: f.id(), GrantID: f.id(), OperationID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted,
			Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: now.Add(time.Hour)})
	case n == 5:
		_, err = ledger.Decide(ctx, f.s, ledger.Decision{ChangeID: f.id(), ID: o.ID, Version: o.Version, Actor: ann, Reason: "asked",
			Verb: one(f, ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbUndo, ledger.VerbAbandon, ledger.VerbNote)})
	case n == 6:
		_, err = ledger.Observe(ctx, f.s, ledger.Observation{ChangeID: f.id(), Version: o.Version, Actor: billing, Settles: true,
			Read: ledger.Read{ID: f.id(), OperationID: o.ID, BeganAt: now, EndedAt: now, Reason: "looked", Verdict: one(f, ledger.Landed, ledger.NotThere, ledger.CannotTell)}})
	case n == 8:
		err = f.outage()
	case n == 7:
		if _, err = f.s.Lead(ctx, one(f, "e1", "e2"), ledger.RankEngine, []string{ledger.LeadLedger}); err == nil {
			run := ledger.DecisionRun{ID: f.id(), Verb: "deny", Actor: ann}
			items := []ledger.RunItem{{OperationID: o.ID, Version: 1, Kind: "k"}, {N: 1, OperationID: "next", Version: 1}}
			if run, _, err = f.s.Run(ctx, run, items); err == nil {
				items[0].Came = one(f, "", ledger.CameSkipped, ledger.CameHeld)
				came := ledger.RunAdvance{ChangeID: f.id(), Actor: ann, Item: &items[0], Next: &items[1]}
				_, err = f.s.ChangeRun(ctx, run, came.ChangeID, came.Rule())
			}
		}
	default:
		err = f.s.Hold(ctx, ledger.Hold{Scope: one[ledger.HoldScope](f, "all", "kind:k"), Actor: ann, Reason: "night"})
		if err == nil && f.r.IntN(2) == 0 {
			err = f.s.LiftHold(ctx, "all", ann, "over", f.id())
		}
		if err == nil {
			err = f.s.Price(ctx, []ledger.Pricing{{OperationID: o.ID, Digest: "d", Rank: float64(f.r.IntN(9)), Miss: ledger.Cost{Value: float64(f.r.IntN(9))}, DecideAt: now}})
		}
		if err == nil {
			err = f.s.Fold(ctx, nil, true, pairs)
		}
	}
	var guard *ledger.GuardError
	if errors.As(err, &guard) {
		f.fatalf("indoubt itself is refused on %+v: %v", o, err)
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
	c := ledger.OutageChange{ChangeID: f.id(), ID: one(f, ins...).ID, Actor: ann, Reason: "asked",
		Verb: one(f, ledger.OutageNoted, ledger.OutageTaken)}
	_, err = f.s.ChangeOutage(ctx, c)
	return err
}

// frozen is what may not change of a row once it is there, and what may only grow.
var frozen = map[string]struct{ row, fixed, grows string }{
	"operations": {`id`, `json_array(seq, kind, scope, key, token, fingerprint, input, command, created_at, source)`, `version, doubted, doubted_at, ended_at, 1 - key_live`},
	"attempts": {`id`, `json_array(operation_id, n, basis, grant_id, started_at, iif(outcome = '', '', json_array(outcome, ended_at, deadline_at, receipt, status, error_class)),
		iif(late_outcome = '', '', json_array(late_outcome, late_at, late_receipt)), iif(proof = '', '', proof))`, `iif(outcome = '', 0, token_sent)`},
	"reads":  {`id`, `json_array(operation_id, began_at, ended_at, verdict, found, receipts, evidence)`, `0`},
	"grants": {`id`, `json_array(operation_id, version, basis, actor, created_at, expires_at, iif(consumed_at + voided_at = 0, '', json_array(consumed_at, attempt_id, voided_at)))`, `0`},
	"events": {`id`, `json_array(seq, operation_id, at, verb, actor, machine, reason, from_state, to_state, version, detail, conflict, doubt)`, `0`},
	"holds":  {`id`, `json_array(scope, actor, reason, created_at, until, iif(released_at = 0, '', released_at))`, `0`},
}

// broken are rows that must not be.
var broken = map[string]string{
	"attempts are counted": `SELECT id FROM operations o WHERE attempt_count <> (SELECT count(*) FROM attempts a WHERE a.operation_id = o.id)
		OR attempt_count <> (SELECT coalesce(max(n), 0) FROM attempts a WHERE a.operation_id = o.id)`,
	"an attempt is in flight when its operation is (I3)": `SELECT o.id FROM operations o
		WHERE (state = 'pending') <> (SELECT count(*) FROM attempts a WHERE a.operation_id = o.id AND a.outcome = '')
		   OR state = 'pending' AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = o.live_attempt AND a.operation_id = o.id AND a.outcome = '' AND a.deadline_at = o.deadline_at)
		   OR state <> 'pending' AND live_attempt <> ''`,
	"a doubt is known (I2)": `SELECT id FROM operations WHERE state = 'uncertain' AND (doubted = 0 OR doubted_at = 0 OR ended_at = 0)`,
	"nothing that a writer ended was ended before (I6)": `SELECT o.id FROM operations o JOIN events e ON e.operation_id = o.id
		WHERE e.from_state = 'pending' AND e.to_state <> 'pending' AND e.actor IN ('eve', 'nightly')
		  AND (o.ended_at < e.at OR (SELECT max(ended_at) FROM attempts a WHERE a.operation_id = o.id) < e.at)`,
	"every change of state is in the history, once and in order (I8)": `SELECT id FROM (
		SELECT o.id, e.from_state, lag(e.to_state, 1, '') OVER (PARTITION BY o.id ORDER BY e.seq) AS was,
		       e.to_state, lead(e.from_state, 1, o.state) OVER (PARTITION BY o.id ORDER BY e.seq) AS next
		  FROM operations o LEFT JOIN events e ON e.operation_id = o.id AND e.from_state <> e.to_state)
		WHERE from_state IS NOT was OR to_state IS NOT next`,
	"no other attempt without a grant or proof (I5)": `SELECT a.id FROM attempts a JOIN attempts b ON b.operation_id = a.operation_id AND b.n < a.n
		WHERE a.grant_id = '' AND b.proof = ''`,
	"a grant lets one attempt begin (I3)": `SELECT g.id FROM grants g WHERE consumed_at <> 0 AND 1 < (SELECT count(*) FROM attempts a WHERE a.grant_id = g.id)`,
	"numbers are in order":                `SELECT seq FROM operations WHERE seq < 1 UNION ALL SELECT seq FROM events WHERE seq < 1 OR seq > (SELECT count(*) FROM events)`,
	"nobody signs as the machine": `SELECT id FROM events WHERE actor IN ('checks', 'clock') AND machine = 0
		UNION ALL SELECT id FROM operations WHERE change_of <> change_id AND actor IN ('checks', 'clock')`,
	"the file is whole": `SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
}
