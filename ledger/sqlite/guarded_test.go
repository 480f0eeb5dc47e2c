package sqlite

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// guarded makes a ledger with one operation in each state, and opens it as a writer with SQLite's
// defaults does.
func guarded(t *testing.T) (*Store, *sql.DB, *clock) {
	s, c := openTest(t)
	as := func(id string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) {
			r.OperationID, r.AttemptID, r.ChangeID, r.Key = id, id+".1", id+"-c", id+"-key"
		}
	}
	for _, id := range []string{"pending", "uncertain", "committed", "failed", "allowed", "retired"} {
		begin(t, s, as(id))
	}
	c.Advance(time.Second)
	settleAs(t, s, "uncertain.1", ledger.OutcomeUncertain)
	settleAs(t, s, "committed.1", ledger.OutcomeCommitted)
	settleAs(t, s, "retired.1", ledger.OutcomeCommitted)
	settleAs(t, s, "failed.1", ledger.OutcomeFailed)
	o := settleAs(t, s, "allowed.1", ledger.OutcomeUncertain)
	need.Get(ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: "permission-c", AllowID: "allow", OperationID: "allowed", Version: o.Version,
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: c.Now().Add(time.Hour)}))(t)
	db := rawDB(t, s.path)
	need.Get(db.Exec(`UPDATE op SET live = 0 WHERE id = 'retired'`))(t)
	return s, db, c
}

// With OR REPLACE, SQLite puts the default of a column where NULL is given, after the guards have
// run: what may not be set to its default, may not be set to NULL either. This tries every column
// that has one.
func TestGuardsAgainstNull(t *testing.T) {
	t.Parallel()
	_, db, _ := guarded(t)
	tried := 0
	for _, table := range []string{"op", "ev"} {
		var columns [][2]string
		rows := need.Get(db.Query(`SELECT name, dflt_value FROM pragma_table_info(?) WHERE "notnull" = 1 AND dflt_value IS NOT NULL`, table))(t)
		for rows.Next() {
			var c [2]string
			need.OK(t, rows.Scan(&c[0], &c[1]))
			columns = append(columns, c)
		}
		need.OK(t, rows.Err())
		need.OK(t, rows.Close())
		changes := func(set string) (changed bool) {
			need.Get(db.Exec(`SAVEPOINT try`))(t)
			before := dumpOf(t, db, table)
			_, refused := db.Exec(set)
			changed = refused == nil && before != dumpOf(t, db, table)
			need.Get(db.Exec(`ROLLBACK TO try; RELEASE try`))(t)
			return changed
		}
		for _, c := range columns {
			for _, where := range []string{"", " WHERE " + c[0] + " <> " + c[1]} {
				tried++
				if changes(`UPDATE OR REPLACE `+table+` SET `+c[0]+` = NULL`+where) && !changes(`UPDATE `+table+` SET `+c[0]+` = `+c[1]+where) {
					t.Errorf("%s.%s is cleared by a NULL%s", table, c[0], where)
				}
			}
		}
	}
	need.Must(t, tried >= 80, "only %d columns were tried", tried)
}

func dumpOf(t *testing.T, db *sql.DB, table string) string {
	t.Helper()
	rows := need.Get(db.Query(`SELECT * FROM ` + table + ` ORDER BY seq`))(t)
	values := make([]sql.NullString, len(need.Get(rows.Columns())(t)))
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	var all strings.Builder
	for rows.Next() {
		need.OK(t, rows.Scan(dest...))
		fmt.Fprintln(&all, values)
	}
	need.OK(t, rows.Err())
	need.OK(t, rows.Close())
	return all.String()
}

// A deadline that plain SQL extends is the attempt's too: it would be taken for ended at the old
// one, while it is being sent.
func TestI6_AnExtendedDeadlineIsTheAttempts(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	res := begin(t, s)
	later := c.Now().Add(time.Hour)
	need.Get(rawDB(t, s.path).Exec(`UPDATE op SET deadline_at = ? WHERE id = ?`, later.UnixMilli(), res.Operation.ID))(t)
	c.Advance(2 * time.Hour)
	need.Get(s.Expire(ctx, 10))(t)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: res.Operation.ID}))(t)
	need.That(t, rec.Operation.State == ledger.Uncertain && rec.Operation.EndedAt.Equal(later) && rec.Attempts[0].EndedAt.Equal(later),
		"ended at %s and %s, not at %s", rec.Operation.EndedAt, rec.Attempts[0].EndedAt, later)
}

// Nobody sends again on a proof that was contradicted, in plain SQL neither.
func TestI12_AContradictedProofFreesNoKeyInSQL(t *testing.T) {
	t.Parallel()
	s, db, c := guarded(t)
	o := need.Get(s.Read(ctx, ledger.Locator{ID: "uncertain"}))(t).Operation
	for i, v := range []ledger.Verdict{ledger.NotThere, ledger.Landed} {
		c.Advance(time.Second)
		id := string(v)
		o = need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: id, Version: o.Version, Actor: billing, Settles: true,
			Read: ledger.Read{ID: id, OperationID: o.ID, BeganAt: c.Now(), EndedAt: c.Now(), Verdict: v, Reason: "found", Found: i}}))(t).After
	}
	need.Must(t, o.State == ledger.Failed && o.Conflict == ledger.ConflictDisputed, "%+v", o)
	again := `UPDATE op SET state = 'pending', attempt = 2, version = version + 1, changed_at = ?1, deadline_at = ?1 + 60000, change_id = 'again',
		verb = 'begin', facts = NULL, payload = NULL, actor = 'eve', reason = 'again' WHERE id = ?2`
	_, err := db.Exec(again, c.Now().UnixMilli(), o.ID)
	need.That(t, err != nil && strings.Contains(err.Error(), "another attempt needs permission"), "%v", err)
	_, err = db.Exec(again, c.Now().UnixMilli(), "failed")
	need.OK(t, err, "a proof that nothing contradicted")
}

// An operation that does not stand where its history says is named.
func TestDeviationsAreSeen(t *testing.T) {
	t.Parallel()
	s, db, _ := guarded(t)
	found := need.Get(s.Deviations(ctx))(t)
	need.Must(t, len(found) == 0, "%+v", found)
	need.Get(db.Exec(`DROP TRIGGER op_refuse_update; UPDATE op SET state = 'committed' WHERE id = 'uncertain'`))(t)
	found = need.Get(s.Deviations(ctx))(t)
	need.That(t, len(found) == 1 && found[0].Table == "op" && found[0].Rows == 1 && found[0].One == "uncertain", "%+v", found)
}

// Counts are right with any writer and any statement.
func TestPlainSQLIsCounted(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	db := rawDB(t, s.path)
	for i, verb := range []string{"INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE", "INSERT", "INSERT"} {
		need.Get(db.Exec(verb+` INTO intent (id, kind, key, actor) VALUES (?1, 'k', ?1, 'nightly')`, string(rune('a'+i))))(t)
	}
	past := time.Now().Add(-time.Minute).UnixMilli()
	need.Get(db.Exec(`INSERT INTO op (id, kind, name, created_at, deadline_at, actor) VALUES ('overdue', 'k', 'overdue', ?, ?, 'nightly')`, past-60_000,
		past))(t)
	for id, outcome := range map[string]string{"a": "uncertain", "b": "uncertain", "c": "uncertain", "d": "committed", "e": "failed", "overdue": "committed"} {
		class := ""
		if outcome == "uncertain" {
			class = "timeout"
		}
		need.Get(db.Exec(`INSERT OR IGNORE INTO settle (attempt, outcome, class, actor) VALUES (? || '.1', ?, ?, 'nightly')`, id, outcome, class))(t)
	}
	for id, verb := range map[string]ledger.Verb{"a": ledger.VerbConfirm, "b": ledger.VerbDeny} {
		o := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t).Operation
		need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: id, ID: id, Version: o.Version, Actor: ann, Reason: "asked", Verb: verb}))(t)
	}
	states := map[ledger.State]int{}
	for _, c := range need.Get(s.StateCounts(ctx, time.Now()))(t) {
		states[c.State] += c.Count
	}
	want := map[ledger.State]int{ledger.Pending: 2, ledger.Committed: 3, ledger.Failed: 2, ledger.Uncertain: 1}
	if d := diff(want, states); d != "" {
		t.Errorf("state counts (-want +got):\n%s", d)
	}
	o := need.Get(s.Read(ctx, ledger.Locator{ID: "overdue"}))(t).Operation
	need.That(t, o.Doubted, "an answer after the deadline leaves no trace of the doubt")
}

// What failed in plain SQL without a proof may have acted, and is proven by the check that finds nothing
// of any attempt.
func TestACheckProvesWhatFailedWithoutAProof(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	db := rawDB(t, s.path)
	need.Get(db.Exec(`INSERT INTO intent (id, kind, key, actor) VALUES ('o', 'k', 'k', 'nightly')`))(t)
	need.Get(db.Exec(`INSERT INTO settle (attempt, outcome, reason, actor) VALUES ('o.1', 'failed', 'exit 1', 'nightly')`))(t)
	o := need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t).Operation
	o = need.Get(ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: "g", AllowID: "g", OperationID: "o", Version: o.Version, AttemptID: "again",
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: s.now().Add(time.Hour),
		Deadline: time.Minute}))(t).After
	o = settleAs(t, s, o.LiveAttempt, ledger.OutcomeUncertain)
	began := s.now().Add(time.Minute)
	o = need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: "found", Version: o.Version, Actor: billing, Settles: true,
		Read: ledger.Read{ID: "found", OperationID: "o", BeganAt: began, EndedAt: began, Verdict: ledger.NotThere, Reason: "none"}}))(t).After
	need.Must(t, o.State == ledger.Failed, "it is %s", o.State)
	for _, a := range need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t).Attempts {
		need.That(t, a.NoEffect(), "attempt %d: %s, proof %q", a.N, a.Outcome, a.Proof)
	}
}
