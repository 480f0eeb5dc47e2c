package sqlite

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// guarded makes a ledger with one operation in each state the guards speak of,
// and opens it as a writer with SQLite's defaults does: foreign_keys and
// recursive_triggers are off.
func guarded(t *testing.T) (*Store, *sql.DB) {
	s, c := openTest(t)
	as := func(id string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) {
			r.OperationID, r.AttemptID, r.ChangeID, r.Key = id, id+".1", id+"-c", id+"-key"
		}
	}
	for _, id := range []string{"pending", "uncertain", "committed", "failed", "granted", "retired"} {
		begin(t, s, as(id))
	}
	begin(t, s, as("left"), func(r *ledger.BeginRequest) {
		r.Tree, r.Place = ledger.TreeOpen, ledger.Place{BootID: "boot", PIDNamespace: "ns", UID: 7}
	})
	c.Advance(time.Second)
	settleAs(t, s, "left.1", ledger.OutcomeUncertain)
	doubt := settleAs(t, s, "uncertain.1", ledger.OutcomeUncertain)
	settleAs(t, s, "committed.1", ledger.OutcomeCommitted)
	settleAs(t, s, "retired.1", ledger.OutcomeCommitted)
	settleAs(t, s, "failed.1", ledger.OutcomeFailed)
	granted := settleAs(t, s, "granted.1", ledger.OutcomeUncertain)
	begin(t, s, as("overdue"), func(r *ledger.BeginRequest) { r.Deadline = time.Second })
	begin(t, s, as("answered"))
	settleAs(t, s, "answered.1", ledger.OutcomeUncertain)
	settleAs(t, s, "answered.1", ledger.OutcomeCommitted)
	c.Advance(2 * time.Second)
	if n := need.Get(s.Expire(ctx, 10))(t); n != 1 {
		t.Fatalf("%d expired", n)
	}
	need.Get(ledger.Allow(ctx, s, ledger.GrantRequest{ChangeID: "grant-c", GrantID: "grant", OperationID: "granted", Version: granted.Version,
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: c.Now().Add(time.Hour)}))(t)
	need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: "read-c", Version: doubt.Version, Actor: billing,
		Read: ledger.Read{ID: "read", OperationID: "uncertain", BeganAt: c.Now(), EndedAt: c.Now(), Verdict: ledger.CannotTell, Reason: "slow"}}))(t)
	need.OK(t, s.Hold(ctx, ledger.Hold{Scope: "all", Actor: ann, Reason: "night", ChangeID: "hold-c"}))
	items := []ledger.RunItem{{OperationID: "uncertain", Version: 2, Kind: "stripe.charge"}, {N: 1, OperationID: "pending", Version: 1}}
	run, _, err := s.Run(ctx, ledger.DecisionRun{ID: "run", Digest: "d", Verb: "deny", Actor: ann}, items)
	need.OK(t, err)
	items[0].Came = ledger.CameSkipped
	out := ledger.RunAdvance{ChangeID: "came", Actor: ann, Item: &items[0], Next: &items[1]}
	_, err = s.ChangeRun(ctx, run, "came", out.Rule())
	need.OK(t, err)
	db := rawDB(t, s.path)
	need.Get(db.Exec(`UPDATE operations SET key_live = 0 WHERE id = 'retired'`))(t)
	return s, db
}

// outage makes an outage of what is in doubt in a guarded ledger.
func outage(t *testing.T, s *Store) ledger.Outage {
	need.OK(t, s.Fold(ctx, nil, true, func(string) ledger.Burst { return ledger.Burst{Errors: 2} }))
	return need.Get(s.Outages(ctx, s.now(), 2))(t)[0]
}

func TestGuards(t *testing.T) {
	t.Parallel()
	s, db := guarded(t)
	outage(t, s)
	before := dump(t, db)
	now, later := "1790000005000", "1790000065000"
	change := `, change_id = 'x', actor = 'eve', reason = 'why'`
	insert := func(verb, id, key, created, deadline, more string) string {
		return verb + ` INTO operations (id, kind, key, input, created_at, updated_at, deadline_at, source, actor` + strings.SplitN(more+"|", "|", 2)[0] + `)
			VALUES ('` + id + `', 'stripe.charge', '` + key + `', '{}', ` + created + `, ` + now + `, ` + deadline + `, 's', 'eve'` + strings.TrimSuffix(strings.SplitN(more+"|", "|", 2)[1], "|") + `)`
	}
	beside := func(verb string) string {
		return ", key_live, change_id, change_of, change_verb, live_attempt, attempt_count|, 0, 'x', 'x', " + verb + ", 'a', 1"
	}
	own := []ledgertest.Attack{
		{"replaced operation", insert("INSERT OR REPLACE", "committed", "other", now, later, ""), "never replaced"},
		{"replaced by seq", insert("INSERT OR REPLACE", "n", "n", now, later, ", seq|, 1"), "leave the number out"},
		{"replaced key", insert("REPLACE", "n", "pending-key", now, later, ""), "key is in use"},
		{"second live key (I4)", insert("INSERT", "n", "uncertain-key", now, later, ""), "key is in use"},
		{"born committed", insert("INSERT", "n", "n", now, later, ", state|, 'committed'"), "begins as pending"},
		{"seconds", insert("INSERT", "n", "n", "1790000005", "1790000065", ""), "in_milliseconds"},
		{"nanoseconds", insert("INSERT", "n", "n", now, "1790000065000000000", ""), "within a year"},
		{"deadline before it began", insert("INSERT", "n", "n", now, "1790000004000", ""), "must come after"},
		{"deadline in two years", insert("INSERT", "n", "n", now, "1853072005000", ""), "within a year"},
		{"blank key", insert("INSERT", "n", " \t\n", now, later, ""), "key_is_given"},
		{"no actor", strings.Replace(insert("INSERT", "n", "n", now, later, ""), "'eve'", "''", 1), "actor_is_named"},
		{"input that is not JSON", strings.Replace(insert("INSERT", "n", "n", now, later, ""), "'{}'", "'{'", 1), "input_is_json"},
		{"used change id (I8)", insert("INSERT OR REPLACE", "n", "n", now, later, ", change_id|, 'committed-c'"), "in the history already"},

		{"another input", `UPDATE OR IGNORE operations SET input = '[]' WHERE id = 'pending'`, "never change"},
		{"another birth", `UPDATE operations SET created_at = created_at + 1 WHERE id = 'pending'`, "never change"},
		{"another number", `UPDATE operations SET rowid = 99 WHERE id = 'pending'`, "never changes"},
		{"another number by another name", `UPDATE OR REPLACE operations SET seq = 1 WHERE id = 'committed'`, "never changes"},
		{"another id and key in a row", `UPDATE operations SET (title, "KEY") = ('n', 'n') WHERE id = 'pending'`, "never change"},
		{"another token by an upsert", `INSERT INTO operations (id, kind, key, deadline_at, actor) VALUES ('pending', 'k', 'n', ` + later + `, 'eve') ON CONFLICT (id) DO UPDATE SET token = 'n'`, "never replaced"},
		{"born in conflict", insert("INSERT", "n", "n", now, later, ", conflict|, 'duplicate'"), "begins as pending"},
		{"born parked", insert("INSERT", "n", "n", now, later, ", parked_until|, "+later), "begins as pending"},
		{"delivery that is no flag", `UPDATE operations SET undelivered = -1 WHERE id = 'committed'`, "flags_are_0_or_1"},

		{"second attempt in flight (I3)", `INSERT INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES ('n', 'pending', 2, ` + now + `, ` + later + `)`, "in flight"},
		{"attempt of a settled operation", `INSERT INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES ('n', 'committed', 2, ` + now + `, ` + later + `)`, "live_attempt of a pending"},
		{"replaced attempt", `REPLACE INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES ('committed.1', 'committed', 1, ` + now + `, ` + later + `)`, "never replaced"},
		{"late answer to an answered attempt", `UPDATE attempts SET late_outcome = 'failed', late_at = ` + now + ` WHERE id = 'committed.1'`, "does not change"},

		{"replaced read", `INSERT OR REPLACE INTO reads (id, operation_id, began_at, ended_at, verdict) VALUES ('read', 'uncertain', 1, 1, 'landed')`, "never replaced"},
		{"longer grant", `UPDATE grants SET expires_at = expires_at + 1`, "never changes"},
		{"grant consumed by nobody", `UPDATE grants SET consumed_at = created_at + 1`, "consumed_by_an_attempt"},
		{"replaced grant", `REPLACE INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('grant', 'granted', 1, 'proof', 'eve', ` + now + `, ` + later + `)`, "never replaced"},
		{"grant for what landed", `INSERT INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('n', 'committed', 1, 'proof', 'eve', ` + now + `, ` + later + `)`, "uncertain or failed"},
		{"replaced event id (I8)", `INSERT OR REPLACE INTO events (id, verb, actor) VALUES ('pending-c', 'note', 'eve')`, "in the history already"},
		{"operation signed as the machine", strings.Replace(insert("INSERT", "n", "n", now, later, ""), "'eve'", "'checks'", 1), "names of indoubt"},
		{"operation signed as a machine by a person", strings.Replace(insert("INSERT", "n", "n", now, later, ", machine, change_id, change_of|, 0, 'n', 'n'"), "'eve'", "' Checks '", 1), "names of indoubt"},

		{"operation with a number", insert("INSERT", "n", "n", now, later, ", seq|, 9223372036854775807"), "leave the number out"},
		{"operation numbered 0", insert("INSERT", "n", "n", now, later, ", seq|, 0"), "seq_counts_from_1"},
		{"operation numbered below", insert("INSERT", "n", "n", now, later, ", rowid|, -1"), "seq_counts_from_1"},
		{"event numbered below", `INSERT INTO events (seq, id, verb, actor) VALUES (-1, 'n', 'note', 'eve')`, "numbered_from_1"},
		{"read with a number", `INSERT INTO reads (rowid, id, operation_id, began_at, ended_at, verdict) VALUES (9223372036854775807, 'n', 'uncertain', ` + now + `, ` + now + `, 'not_there')`, "leave the number out"},
		{"read numbered below", `INSERT INTO reads (rowid, id, operation_id, began_at, ended_at, verdict) VALUES (-1, 'n', 'uncertain', ` + now + `, ` + now + `, 'not_there')`, "numbered_from_1"},
		{"grant with a number", `INSERT INTO grants (rowid, id, operation_id, version, basis, actor, created_at, expires_at) VALUES (7, 'n', 'uncertain', 1, 'proof', 'eve', ` + now + `, ` + later + `)`, "leave the number out"},
		{"grant numbered 0", `INSERT INTO grants (rowid, id, operation_id, version, basis, actor, created_at, expires_at) VALUES (0, 'n', 'uncertain', 1, 'proof', 'eve', ` + now + `, ` + later + `)`, "numbered_from_1"},
		{"hold numbered below", `INSERT INTO holds (id, scope, actor, reason) VALUES (-7, 'kind:x', 'eve', 'why')`, "numbered_from_1"},
		{"born without its key", insert("INSERT", "n", "n", now, later, ", key_live|, 0"), "begins as pending"},
		{"by another than indoubt, without its key", insert("INSERT", "n", "uncertain-key", now, later, ", key_live, change_verb|, 0, 'begin'"), "begins as pending"},
		{"begun without its key, through NULL", insert("INSERT OR REPLACE", "n", "uncertain-key", now, later, beside("NULL")), "begins as pending"},
		{"without its key, which no one has", insert("INSERT", "n", "n", now, later, beside("'begin'")), "begins as pending"},
		{"born with a version", insert("INSERT", "n", "n", now, later, ", version|, 9223372036854775807"), "begins as pending"},

		{"key begun again through NULL (I4)", `INSERT OR REPLACE INTO operations (id, scope, kind, key, deadline_at, created_at, actor) VALUES ('n', NULL, 'stripe.charge', 'pending-key', ` + later + `, ` + now + `, 'eve')`, "cannot be set to NULL"},
		{"live key taken through NULL (I4)", `INSERT OR REPLACE INTO operations (id, key_live, kind, key, deadline_at, created_at, actor) VALUES ('n', NULL, 'stripe.charge', 'pending-key', ` + later + `, ` + now + `, 'eve')`, "cannot be set to NULL"},

		{"first attempt without a row", insert("INSERT", "n", "n", now, later, ", live_attempt, attempt_count|, 'mine', 1"), "the database records the first attempt"},
		{"another attempt without a row", `UPDATE operations SET state = 'pending', live_attempt = 'n', attempt_count = 2, deadline_at = ` + later + change + ` WHERE id = 'failed'`, "is recorded by indoubt"},
		{"attempt ended by itself", `UPDATE attempts SET outcome = 'failed', proof = 'refused', ended_at = ` + now + ` WHERE id = 'pending.1'`, "with its operation"},
		{"attempt's deadline by itself", `UPDATE attempts SET deadline_at = deadline_at - 1 WHERE id = 'pending.1'`, "with its operation"},
		{"earlier deadline", `UPDATE operations SET deadline_at = deadline_at - 1 WHERE id = 'pending'`, "does not become earlier"},
		{"earlier doubt", `UPDATE operations SET doubted_at = 0 WHERE id = 'uncertain'`, "what was in doubt"},
		{"doubt to come", `UPDATE operations SET doubted_at = 4102444799999 WHERE id = 'pending'`, "do not lie in the future"},
		{"end to come", `UPDATE operations SET ended_at = 4102444799999 WHERE id = 'pending'`, "do not lie in the future"},
		{"earlier end (I6)", `UPDATE operations SET ended_at = ended_at - 1 WHERE id = 'uncertain'`, "what was in doubt"},

		{"hold in seconds", `INSERT INTO holds (scope, actor, reason, until) VALUES ('kind:x', 'eve', 'why', 1790003600)`, "hold_times_are_in_milliseconds"},
		{"grant in seconds", `INSERT INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('n', 'uncertain', 1, 'proof', 'eve', ` + now + `, 1790003600)`, "grant_times_are_in_milliseconds"},
		{"grant consumed in seconds", `UPDATE grants SET consumed_at = 1790003600, attempt_id = 'n'`, "grant_times_are_in_milliseconds"},
		{"read in seconds", `INSERT INTO reads (id, operation_id, began_at, ended_at, verdict) VALUES ('n', 'uncertain', 1790000000, 1790000001, 'not_there')`, "read_times_are_in_milliseconds"},
		{"event in seconds", `INSERT INTO events (id, at, verb, actor) VALUES ('n', 1790000000, 'note', 'eve')`, "event_is_in_milliseconds"},
		{"lead in seconds", `INSERT INTO lead (scope, holder, rank, since, until) VALUES ('s', 'n', 1, 1790000000, 1790000001)`, "lead_times_are_in_milliseconds"},
		{"read of nothing", `INSERT INTO reads (id, operation_id, began_at, ended_at, verdict) VALUES ('n', 'n', ` + now + `, ` + now + `, 'not_there')`, "that is recorded"},

		{"list row changed to NULL", `UPDATE OR REPLACE open_operations SET state = NULL`, "kept by the database"},
		{"list row that cannot be summed", `UPDATE open_operations SET rank = 9e999`, "amounts_can_be_summed"},
		{"list row moved", `UPDATE OR REPLACE open_operations SET rowid = 1`, "kept by the database"},
		{"list row of what is settled", tables.ListNew + ` WHERE s.seq = (SELECT seq FROM operations WHERE id = 'committed')`, "kept by the database"},
		{"replaced list row", `REPLACE INTO open_operations (seq, ` + tables.ListColumns("") + `, search) SELECT seq, ` + tables.ListColumns("") + `, search FROM open_operations`, "kept by the database"},
	}
	for _, recursive := range []string{"OFF", "ON"} {
		t.Run("recursive_triggers "+recursive, func(t *testing.T) {
			need.Get(db.Exec(`PRAGMA recursive_triggers = ` + recursive))(t)
			refuses(t, db, ledgertest.GuardAttacks, "", " OR REPLACE")
			refuses(t, db, own, "")
		})
	}
	if d := diff(before, dump(t, db)); d != "" {
		t.Errorf("something changed:\n%s", d)
	}
}

// OR REPLACE puts a default where NULL was given, after the guards have run: what
// may not be set to its default, may not be set to NULL either. This tries every
// column that has one.
func TestGuardsAgainstNull(t *testing.T) {
	t.Parallel()
	s, db := guarded(t)
	outage(t, s)
	tried := 0
	for _, table := range []string{"operations", "attempts", "reads", "grants", "events", "holds"} {
		type column struct{ name, value string }
		var columns []column
		rows := need.Get(db.Query(`SELECT name, dflt_value FROM pragma_table_info(?) WHERE "notnull" = 1 AND dflt_value IS NOT NULL`, table))(t)
		for rows.Next() {
			var c column
			need.OK(t, rows.Scan(&c.name, &c.value))
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
			more := map[string]string{"operations.state": ", deadline_at = 1790000065000", "grants.consumed_at": ", attempt_id = NULL", "attempts.outcome": ", ended_at = 0, proof = ''"}[table+"."+c.name]
			for _, where := range []string{"", " WHERE " + c.name + " <> " + c.value} {
				tried++
				if changes(`UPDATE OR REPLACE `+table+` SET `+c.name+` = NULL`+more+where) && !changes(`UPDATE `+table+` SET `+c.name+` = `+c.value+more+where) {
					t.Errorf("%s.%s is cleared by a NULL%s", table, c.name, where)
				}
			}
		}
	}
	need.Must(t, tried >= 100, "only %d columns were tried", tried)
}

// A writer that writes the whole row, as it had read it or as it thinks it should
// be, leaves the doubt and the end that one does who writes what is documented.
func TestI6_WholeRows(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	db := rawDB(t, s.path)
	began := time.Now().Add(-time.Minute)
	for id, set := range map[string]string{
		"narrow":  `state = 'uncertain', error_class = 'timeout'`,
		"whole":   `state = 'uncertain', error_class = 'timeout', live_attempt = '', deadline_at = 0, version = version + 1`,
		"stale":   `state = 'uncertain', error_class = 'timeout', live_attempt = '', deadline_at = 0, version = version + 1, doubted = 0, doubted_at = 0, ended_at = created_at, updated_at = created_at, change_of = ''`,
		"claimed": `state = 'uncertain', error_class = 'timeout', live_attempt = '', deadline_at = 0, version = version + 1, change_of = 'c-claimed'`,
		"replace": `state = 'uncertain', error_class = 'timeout', live_attempt = '', version = version + 1, settled_at = 1790000000000, by_answer = 1, attempt_count = 1`,
	} {
		need.Get(db.Exec(`INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) VALUES (?1, 'k', ?1, ?2, ?2 + 3600000, 'nightly')`, id, tables.Millis(began)))(t)
		before := time.Now().Truncate(time.Millisecond)
		need.Get(db.Exec(`UPDATE operations SET `+set+`, change_id = 'c-' || id, actor = 'nightly', reason = 'timeout' WHERE id = ?`, id))(t)
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
		o, a := rec.Operation, rec.Attempts[0]
		if o.State != ledger.Uncertain || !o.Doubted || o.DoubtedAt.Before(before) || o.EndedAt.Before(before) || o.Version != 2 || o.ByAnswer ||
			o.LiveAttempt != "" || !o.DeadlineAt.IsZero() || !o.SettledAt.IsZero() || o.ErrorClass != ledger.ClassTimeout {
			t.Errorf("%s: %+v", id, o)
		}
		need.That(t, a.Outcome == ledger.OutcomeUncertain && !a.EndedAt.Before(before) && a.ErrorClass == ledger.ClassTimeout, "%s: attempt %+v", id, a)
		if tab := rec.Row().TabAt(time.Now()); tab != ledger.TabNeedsYou {
			t.Errorf("%s stands in %s", id, tab)
		}
	}
}

// A deadline that plain SQL extends is the attempt's too: it would be taken for
// ended at the old one, while it is being sent.
func TestI6_AnExtendedDeadlineIsTheAttempts(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	res := begin(t, s)
	db := rawDB(t, s.path)
	later := c.Now().Add(time.Hour)
	need.Get(db.Exec(`UPDATE operations SET deadline_at = ? WHERE id = ?`, tables.Millis(later), res.Operation.ID))(t)
	c.Advance(2 * time.Hour)
	need.Get(s.Expire(ctx, 10))(t)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: res.Operation.ID}))(t)
	if rec.Operation.State != ledger.Uncertain || !rec.Operation.EndedAt.Equal(later) || !rec.Attempts[0].EndedAt.Equal(later) {
		t.Fatalf("ended at %s and %s, not at %s", rec.Operation.EndedAt, rec.Attempts[0].EndedAt, later)
	}
}

// dump is everything that must not have changed.
func dump(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range []string{"operations", "attempts", "reads", "grants", "events", "holds", "open_operations", "totals", "outages"} {
		out[table] = dumpOf(t, db, table)
	}
	return out
}

func dumpOf(t *testing.T, db *sql.DB, table string) string {
	t.Helper()
	rows := need.Get(db.Query(`SELECT * FROM ` + table + ` ORDER BY 1, 2`))(t)
	cols := need.Get(rows.Columns())(t)
	var all []string
	for rows.Next() {
		values := make([]sql.NullString, len(cols))
		dest := make([]any, len(cols))
		for i := range values {
			dest[i] = &values[i]
		}
		need.OK(t, rows.Scan(dest...))
		for _, v := range values {
			all = append(all, v.String)
		}
	}
	need.OK(t, rows.Err())
	need.OK(t, rows.Close())
	return strings.Join(all, "|")
}
