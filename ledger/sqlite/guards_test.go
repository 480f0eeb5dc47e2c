package sqlite

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
)

// guarded makes a ledger with one operation in each state the guards speak of,
// and opens it as a writer with SQLite's defaults does: foreign_keys and
// recursive_triggers are off.
func guarded(t *testing.T) (*Store, *sql.DB) {
	s, c := openTest(t)
	as := func(id string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) {
			r.OperationID, r.AttemptID, r.ChangeID, r.Key = id, id+"-a", id+"-c", id+"-key"
		}
	}
	for _, id := range []string{"pending", "uncertain", "committed", "failed", "granted", "retired"} {
		begin(t, s, as(id))
	}
	begin(t, s, as("left"), func(r *ledger.BeginRequest) {
		r.Tree, r.Place = ledger.TreeOpen, ledger.Place{BootID: "boot", PIDNamespace: "ns", UID: 7}
	})
	c.Advance(time.Second)
	settleAs(t, s, "left-a", ledger.OutcomeUncertain)
	doubt := settleAs(t, s, "uncertain-a", ledger.OutcomeUncertain)
	settleAs(t, s, "committed-a", ledger.OutcomeCommitted)
	settleAs(t, s, "retired-a", ledger.OutcomeCommitted)
	settleAs(t, s, "failed-a", ledger.OutcomeFailed)
	granted := settleAs(t, s, "granted-a", ledger.OutcomeUncertain)
	must1[ledger.Applied](t)(ledger.Allow(ctx, s, ledger.GrantRequest{ChangeID: "grant-c", GrantID: "grant", OperationID: "granted", Version: granted.Version,
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: c.Now().Add(time.Hour), MaxAttempts: 3}))
	must1[ledger.Applied](t)(ledger.Observe(ctx, s, ledger.Observation{ChangeID: "read-c", Version: doubt.Version, Actor: billing,
		Read: ledger.Read{ID: "read", OperationID: "uncertain", BeganAt: c.Now(), EndedAt: c.Now(), Verdict: ledger.Inconclusive, Reason: "slow"}}))
	must1[ledger.Lease](t)(s.Lease(ctx, "uncertain", "engine", "d", time.Minute))
	must(t, s.Hold(ctx, ledger.Hold{Scope: "all", Actor: ann, Reason: "night", ChangeID: "hold-c"}))
	_, _, err := s.Run(ctx, ledger.DecisionRun{ID: "run", IdempotencyKey: "k", Digest: "d", Verb: "deny", Actor: ann, Operations: []string{"uncertain@2"}})
	must(t, err)
	db := rawDB(t, s.path)
	_, err = db.Exec(`UPDATE operations SET key_live = 0 WHERE id = 'retired'`)
	must(t, err)
	return s, db
}

func TestGuards(t *testing.T) {
	s, db := guarded(t)
	before := dump(t, db)
	now, later := "1790000005000", "1790000065000"
	change := `, change_id = 'x', actor = 'eve', reason = 'why'`
	insert := func(verb, id, key, created, deadline, more string) string {
		return verb + ` INTO operations (id, kind, key, input, created_at, updated_at, deadline_at, source, actor` + strings.SplitN(more+"|", "|", 2)[0] + `)
			VALUES ('` + id + `', 'stripe.charge', '` + key + `', '{}', ` + created + `, ` + now + `, ` + deadline + `, 's', 'eve'` + strings.TrimSuffix(strings.SplitN(more+"|", "|", 2)[1], "|") + `)`
	}
	for _, g := range []struct{ name, sql, says string }{
		{"replaced operation", insert("INSERT OR REPLACE", "committed", "other", now, later, ""), "never replaced"},
		{"replaced by seq", insert("INSERT OR REPLACE", "n", "n", now, later, ", seq|, 1"), "never replaced"},
		{"replaced key", insert("REPLACE", "n", "pending-key", now, later, ""), "key is in use"},
		{"second live key (I4)", insert("INSERT", "n", "uncertain-key", now, later, ""), "key is in use"},
		{"born committed", insert("INSERT", "n", "n", now, later, ", state|, 'committed'"), "begins as pending"},
		{"seconds", insert("INSERT", "n", "n", "1790000005", "1790000065", ""), "in_milliseconds"},
		{"nanoseconds", insert("INSERT", "n", "n", now, "1790000065000000000", ""), "within a year"},
		{"deadline before it began", insert("INSERT", "n", "n", now, "1790000004000", ""), "must come after"},
		{"deadline in two years", insert("INSERT", "n", "n", now, "1853072005000", ""), "within a year"},
		{"no actor", strings.Replace(insert("INSERT", "n", "n", now, later, ""), "'eve'", "''", 1), "actor_is_named"},
		{"input that is not JSON", strings.Replace(insert("INSERT", "n", "n", now, later, ""), "'{}'", "'{'", 1), "input_is_json"},
		{"used change id (I8)", insert("INSERT OR REPLACE", "n", "n", now, later, ", change_id|, 'committed-c'"), "in the history already"},

		{"another id", `UPDATE operations SET id = 'n' WHERE id = 'pending'`, "never change"},
		{"another key (I4)", `UPDATE operations SET key = 'n' WHERE id = 'pending'`, "never change"},
		{"another token (I4)", `UPDATE OR REPLACE operations SET token = 'n' WHERE id = 'pending'`, "never change"},
		{"another input", `UPDATE OR IGNORE operations SET input = '[]' WHERE id = 'pending'`, "never change"},
		{"another kind", `UPDATE operations SET kind = 'n' WHERE id = 'pending'`, "never change"},
		{"another birth", `UPDATE operations SET created_at = created_at + 1 WHERE id = 'pending'`, "never change"},
		{"another number", `UPDATE operations SET rowid = 99 WHERE id = 'pending'`, "never changes"},
		{"another number by another name", `UPDATE OR REPLACE operations SET seq = 1 WHERE id = 'committed'`, "never changes"},
		{"another id and key in a row", `UPDATE operations SET (title, "KEY") = ('n', 'n') WHERE id = 'pending'`, "never change"},
		{"another token by an upsert", `INSERT INTO operations (id, kind, key, deadline_at, actor) VALUES ('pending', 'k', 'n', ` + later + `, 'eve') ON CONFLICT (id) DO UPDATE SET token = 'n'`, "never replaced"},
		{"born in conflict", insert("INSERT", "n", "n", now, later, ", conflict|, 'duplicate'"), "begins as pending"},
		{"born parked", insert("INSERT", "n", "n", now, later, ", parked_until|, "+later), "begins as pending"},
		{"key taken back", `UPDATE operations SET key_live = 1 WHERE id = 'retired'`, "given up once"},
		{"unknown state", `UPDATE operations SET state = 'done'` + change + ` WHERE id = 'pending'`, "cannot change like this"},
		{"committed to failed", `UPDATE operations SET state = 'failed'` + change + ` WHERE id = 'committed'`, "cannot change like this"},
		{"committed to pending", `UPDATE operations SET state = 'pending'` + change + ` WHERE id = 'committed'`, "cannot change like this"},
		{"pending to abandoned", `UPDATE operations SET state = 'abandoned'` + change + ` WHERE id = 'pending'`, "cannot change like this"},
		{"failed to committed", `UPDATE operations SET state = 'committed'` + change + ` WHERE id = 'failed'`, "cannot change like this"},
		{"no change id (I8)", `UPDATE operations SET state = 'committed', actor = 'eve', reason = 'why' WHERE id = 'pending'`, "new change_id"},
		{"no reason (I8)", `UPDATE operations SET state = 'committed', change_id = 'x', actor = 'eve', reason = ' ' WHERE id = 'pending'`, "new change_id"},
		{"old change id (I8)", `UPDATE OR REPLACE operations SET state = 'committed', change_id = 'committed-c', actor = 'eve', reason = 'why' WHERE id = 'pending'`, "in the history already"},
		{"version back (I7)", `UPDATE operations SET version = 1 WHERE id = 'uncertain'`, "never goes back"},
		{"verdict without version (I7)", `UPDATE operations SET verdict = 'absent' WHERE id = 'uncertain'`, "version must grow"},
		{"conflict without version (I7)", `UPDATE operations SET conflict = 'mismatch' WHERE id = 'uncertain'`, "version must grow"},
		{"retry without an attempt (I3)", `UPDATE operations SET state = 'pending'` + change + ` WHERE id = 'uncertain'`, "another attempt needs"},
		{"waiting without an attempt in flight", `UPDATE operations SET awaits = 'task:1', change_id = 'x', actor = 'eve', reason = 'why' WHERE id = 'uncertain'`, "only an operation in flight waits"},
		{"waiting without saying so (I8)", `UPDATE operations SET awaits = 'task:1' WHERE id = 'pending'`, "only an operation in flight waits"},
		{"waiting without a reason (I8)", `UPDATE operations SET awaits = 'task:1', change_id = 'x', reason = '' WHERE id = 'pending'`, "only an operation in flight waits"},
		{"waiting after the end", `UPDATE operations SET state = 'uncertain', awaits = 'task:1'` + change + ` WHERE id = 'pending'`, "only an operation in flight waits"},
		{"taken back delivery", `UPDATE operations SET undelivered = 1 WHERE id = 'committed'`, "stays delivered"},
		{"taken back delivery in flight", `UPDATE operations SET undelivered = 1 WHERE id = 'pending'`, "stays delivered"},
		{"delivery that is no flag", `UPDATE operations SET undelivered = -1 WHERE id = 'committed'`, "flags_are_0_or_1"},
		{"key given up in doubt", `UPDATE operations SET key_live = 0 WHERE id = 'uncertain'`, "given up once"},
		{"negative effects", `UPDATE operations SET effects = -1, version = version + 1 WHERE id = 'uncertain'`, "effects_count"},
		{"deleted operation", `DELETE FROM operations WHERE id = 'pending'`, "never deleted"},

		{"second attempt in flight (I3)", `INSERT INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES ('n', 'pending', 2, ` + now + `, ` + later + `)`, "in flight"},
		{"attempt of a settled operation", `INSERT INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES ('n', 'committed', 2, ` + now + `, ` + later + `)`, "live_attempt of a pending"},
		{"replaced attempt", `REPLACE INTO attempts (id, operation_id, n, started_at, deadline_at) VALUES ('committed-a', 'committed', 1, ` + now + `, ` + later + `)`, "never replaced"},
		{"ended attempt", `UPDATE attempts SET outcome = 'failed' WHERE id = 'committed-a'`, "does not change"},
		{"ended attempt's receipt", `UPDATE attempts SET receipt = 'r' WHERE id = 'committed-a'`, "does not change"},
		{"late answer to an answered attempt", `UPDATE attempts SET late_outcome = 'failed', late_at = ` + now + ` WHERE id = 'committed-a'`, "does not change"},
		{"proof without a read", `UPDATE attempts SET proof = 'refused' WHERE id = 'uncertain-a'`, "does not change"},
		{"attempt moved", `UPDATE OR REPLACE attempts SET operation_id = 'committed' WHERE id = 'pending-a'`, "never change"},
		{"absence while a process may write (I6)", `UPDATE attempts SET proof = 'absent' WHERE id = 'left-a'`, "may still write"},
		{"a tree that is gone comes back", `UPDATE attempts SET tree = 'open' WHERE id = 'uncertain-a'`, "seen gone once"},
		{"a tree that is forgotten", `UPDATE attempts SET tree = '' WHERE id = 'left-a'`, "seen gone once"},
		{"a tree that is gone at no time", `UPDATE attempts SET tree = 'empty' WHERE id = 'left-a'`, "seen_empty_at_a_time"},
		{"processes elsewhere", `UPDATE attempts SET boot_id = 'other' WHERE id = 'left-a'`, "where the processes"},
		{"processes of another account", `UPDATE attempts SET uid = 8 WHERE id = 'left-a'`, "where the processes"},
		{"deleted attempt", `DELETE FROM attempts`, "never deleted"},

		{"changed read", `UPDATE reads SET verdict = 'landed'`, "never changes"},
		{"replaced read", `INSERT OR REPLACE INTO reads (id, operation_id, began_at, ended_at, verdict) VALUES ('read', 'uncertain', 1, 1, 'landed')`, "never replaced"},
		{"deleted read", `DELETE FROM reads`, "never deleted"},
		{"longer grant", `UPDATE grants SET expires_at = expires_at + 1`, "never changes"},
		{"expired grant", `UPDATE grants SET consumed_at = expires_at, attempt_id = 'n'`, "has expired"},
		{"grant consumed by nobody", `UPDATE grants SET consumed_at = created_at + 1`, "consumed_by_an_attempt"},
		{"replaced grant", `REPLACE INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('grant', 'granted', 1, 'absent', 'eve', ` + now + `, ` + later + `)`, "never replaced"},
		{"grant for what landed", `INSERT INTO grants (id, operation_id, version, basis, actor, created_at, expires_at) VALUES ('n', 'committed', 1, 'absent', 'eve', ` + now + `, ` + later + `)`, "uncertain or failed"},
		{"deleted grant", `DELETE FROM grants`, "never deleted"},
		{"changed event (I8)", `UPDATE events SET actor = 'eve'`, "never changes"},
		{"deleted event (I8)", `DELETE FROM events WHERE seq = 1`, "never deleted"},
		{"replaced event (I8)", `INSERT OR REPLACE INTO events (seq, id, verb, actor) VALUES (1, 'n', 'note', 'eve')`, "in the history already"},
		{"replaced event id (I8)", `INSERT OR REPLACE INTO events (id, verb, actor) VALUES ('pending-c', 'note', 'eve')`, "in the history already"},
		{"lease taken without a generation", `UPDATE leases SET holder = 'eve'`, "only grows"},
		{"lease turned back", `UPDATE leases SET generation = 0`, "only grows"},
		{"replaced lease", `REPLACE INTO leases (operation_id, holder, generation, expires_at) VALUES ('uncertain', 'eve', 1, 1)`, "already"},
		{"deleted lease", `DELETE FROM leases`, "never deleted"},
		{"second hold", `REPLACE INTO holds (scope, actor, reason) VALUES ('all', 'eve', 'why')`, "a hold on this scope"},
		{"hold without a reason", `INSERT INTO holds (scope, actor, reason) VALUES ('kind:x', 'eve', ' ')`, "hold_says_who_and_why"},
		{"hold on nothing", `INSERT INTO holds (scope, actor, reason) VALUES ('x', 'eve', 'why')`, "hold_scope_is_known"},
		{"changed hold", `UPDATE holds SET reason = 'other'`, "never changes otherwise"},
		{"deleted hold", `DELETE FROM holds`, "never deleted"},
		{"changed decision", `UPDATE decisions SET operations = '[]'`, "never changes"},
		{"replaced decision", `REPLACE INTO decisions (id, verb, actor, created_at) VALUES ('run', 'confirm', 'eve', 1)`, "never replaced"},
		{"replaced decision key", `REPLACE INTO decisions (id, idempotency_key, verb, actor, created_at) VALUES ('n', 'k', 'confirm', 'eve', 1)`, "never replaced"},
		{"deleted decision", `DELETE FROM decisions`, "never deleted"},
		{"replaced list row", `REPLACE INTO open_operations (seq, id, kind, key, token, fingerprint, title, target, source, source_run, source_host, source_pid, state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts, created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until) SELECT seq, id, kind, key, token, fingerprint, title, target, source, source_run, source_host, source_pid, state, version, error_class, verdict, conflict, doubted, hands_off, receipt, actor, attempts, created_at, updated_at, deadline_at, doubted_at, parked_until, recheck_at, granted_at, grant_until FROM open_operations`, "kept by the database"},
	} {
		for _, recursive := range []string{"OFF", "ON"} {
			if _, err := db.Exec(`PRAGMA recursive_triggers = ` + recursive); err != nil {
				t.Fatal(err)
			}
			_, err := db.Exec(g.sql)
			if err == nil {
				t.Errorf("%s: not refused (recursive_triggers %s)", g.name, recursive)
			} else if !strings.Contains(err.Error(), g.says) {
				t.Errorf("%s: refused with %q, want %q", g.name, err, g.says)
			}
		}
	}
	if d := diff(before, dump(t, db)); d != "" {
		t.Errorf("something changed:\n%s", d)
	}
	_ = s
}

// dump is everything that must not have changed.
func dump(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range []string{"operations", "attempts", "reads", "grants", "events", "leases", "holds", "decisions", "open_operations", "counts", "census", "tallies"} {
		rows, err := db.Query(`SELECT * FROM ` + table + ` ORDER BY 1, 2`)
		must(t, err)
		cols, err := rows.Columns()
		must(t, err)
		var all []string
		for rows.Next() {
			values := make([]sql.NullString, len(cols))
			dest := make([]any, len(cols))
			for i := range values {
				dest[i] = &values[i]
			}
			must(t, rows.Scan(dest...))
			for _, v := range values {
				all = append(all, v.String)
			}
		}
		must(t, rows.Close())
		out[table] = strings.Join(all, "|")
	}
	return out
}

// What plain SQL leaves out, the database fills in: attempt, event, version,
// list and counts.
func TestPlainSQLIsCompleted(t *testing.T) {
	for _, recursive := range []string{"OFF", "ON"} {
		c := newClock()
		s := must1[*Store](t)(Create(ctx, t.TempDir()+"/ledger.db", Options{}))
		defer s.Close()
		db := rawDB(t, s.path)
		exec := func(query string, args ...any) {
			t.Helper()
			_, err := db.Exec(query, args...)
			must(t, err)
		}
		exec(`PRAGMA recursive_triggers = ` + recursive)
		deadline := time.Now().Add(time.Minute).UnixMilli()
		for _, id := range []string{"a", "b", "c"} {
			exec(`INSERT INTO operations (id, kind, key, input, deadline_at, source, actor) VALUES (?, 'k', ?, '{"x":1}', ?, 'nightly', 'nightly')`, id, id, deadline)
		}
		rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "a"}))
		o := rec.Operation
		if o.State != ledger.Pending || o.Version != 1 || o.LiveAttempt != "a.1" || o.AttemptCount != 1 || len(rec.Attempts) != 1 || rec.Attempts[0].Outcome != "" {
			t.Fatalf("begun: %+v", rec)
		}
		exec(`UPDATE operations SET state = 'committed', receipt = 'r1', result = '{"id":"r1"}', change_id = 'a-2', actor = 'nightly', reason = '200' WHERE id = 'a' AND state = 'pending'`)
		exec(`UPDATE operations SET state = 'uncertain', error_class = 'timeout', change_id = 'b-2', actor = 'nightly', reason = 'timeout' WHERE id = 'b' AND state = 'pending'`)
		exec(`UPDATE operations SET state = 'failed', change_detail = '{"proof":"refused"}', change_id = 'c-2', actor = 'nightly', reason = '402' WHERE id = 'c' AND state = 'pending'`)
		rec = must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "a"}))
		o = rec.Operation
		if o.State != ledger.Committed || o.Version != 2 || o.LiveAttempt != "" || o.Receipt() != "r1" || o.Effects != 1 || !o.ByAnswer ||
			o.SettledAt.IsZero() || !o.DeadlineAt.IsZero() || rec.Attempts[0].Outcome != ledger.OutcomeCommitted || rec.Attempts[0].Receipt != "r1" {
			t.Fatalf("committed: %+v", rec)
		}
		rec = must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "b"}))
		if o = rec.Operation; o.State != ledger.Uncertain || !o.Doubted || o.DoubtedAt.IsZero() || rec.Attempts[0].ErrorClass != ledger.ClassTimeout {
			t.Fatalf("uncertain: %+v", rec)
		}
		rec = must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "c"}))
		if o = rec.Operation; o.State != ledger.Failed || rec.Attempts[0].Proof != ledger.Refused {
			t.Fatalf("failed: %+v", rec)
		}
		events := must1[[]ledger.Event](t)(s.Events(ctx, "b", 0, 10))
		if len(events) != 2 || events[1].Verb != "settle" || events[1].From != ledger.Pending || events[1].To != ledger.Uncertain || events[1].Version != 2 || events[1].Actor.Name != "nightly" {
			t.Fatalf("events: %+v", events)
		}
		counts := must1[ledger.Counts](t)(s.Counts(ctx, time.Now()))
		if counts.All != 3 || counts.NeedsYou != 1 || counts.Settled != 2 || counts.InFlight != 0 {
			t.Fatalf("counts: %+v", counts)
		}
		// What a failure without proof leaves, only a person's grant sends again.
		exec(`INSERT INTO operations (id, kind, key, input, deadline_at, source, actor) VALUES ('d', 'k', 'd', '{}', ?, 'nightly', 'nightly')`, deadline)
		exec(`UPDATE operations SET state = 'failed', change_id = 'd-2', actor = 'nightly', reason = 'gave up' WHERE id = 'd'`)
		res := begin(t, s, func(r *ledger.BeginRequest) { r.Kind, r.Key, r.Fingerprint = "k", "d", "" })
		if res.Answer != ledger.AnswerRefused {
			t.Fatalf("begin after a failure without proof: %s", res.Answer)
		}
		_ = c
	}
}

// An attempt that was named and never recorded hides nothing.
func TestI10_PlainSQLWithoutAnAttempt(t *testing.T) {
	s, c := openTest(t)
	db := rawDB(t, s.path)
	_, err := db.Exec(`INSERT INTO operations (id, kind, key, live_attempt, attempt_count, created_at, updated_at, deadline_at, actor) VALUES ('o', 'k', 'k', 'mine', 1, ?1, ?1, ?1 + 60000, 'nightly')`, ms(c.Now()))
	must(t, err)
	if rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{Kind: "k", Key: "k"})); rec.Operation.State != ledger.Pending || len(rec.Attempts) != 0 {
		t.Fatalf("%+v", rec)
	}
	c.Advance(2 * time.Minute)
	if n := must1[int](t)(s.Expire(ctx, 10)); n != 1 {
		t.Fatalf("%d expired", n)
	}
	if rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "o"})); rec.Operation.State != ledger.Uncertain {
		t.Fatalf("%+v", rec)
	}
}

// What is counted is right whoever writes, and however.
func TestPlainSQLIsCounted(t *testing.T) {
	s := must1[*Store](t)(Create(ctx, t.TempDir()+"/ledger.db", Options{}))
	defer s.Close()
	db := rawDB(t, s.path)
	exec := func(query string, args ...any) {
		t.Helper()
		_, err := db.Exec(query, args...)
		must(t, err)
	}
	change := func(id, set string) {
		t.Helper()
		exec(`UPDATE operations SET `+set+`, change_id = lower(hex(randomblob(16))), actor = 'nightly', reason = 'why' WHERE id = ?`, id)
	}
	for i, verb := range []string{"INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE", "INSERT", "INSERT"} {
		id := string(rune('a' + i))
		exec(verb+` INTO operations (id, kind, key, deadline_at, actor) VALUES (?, 'k', ?, ?, 'nightly')`, id, id, time.Now().Add(time.Hour).UnixMilli())
	}
	exec(`INSERT INTO operations (id, kind, key, created_at, deadline_at, actor) VALUES ('overdue', 'k', 'overdue', ?, ?, 'nightly')`,
		time.Now().Add(-2*time.Minute).UnixMilli(), time.Now().Add(-time.Minute).UnixMilli())
	for _, id := range []string{"a", "b", "c", "d"} {
		change(id, `state = 'uncertain', error_class = 'timeout'`)
	}
	change("a", `state = 'committed'`)                                     // a pipeline heard at last
	change("b", `state = 'failed', change_detail = '{"proof":"refused"}'`) // and another
	exec(`UPDATE OR IGNORE operations SET state = 'failed', change_id = 'c-3', change_of = 'c-3', change_verb = 'deny', machine = 0, actor = 'ann', reason = 'asked' WHERE id = 'c'`)
	exec(`UPDATE OR REPLACE operations SET state = 'committed', change_id = 'd-3', change_of = 'd-3', machine = 0, actor = 'ann', reason = 'saw it' WHERE id = 'd'`)
	change("e", `state = 'committed'`)
	change("overdue", `state = 'committed'`)
	tallies := must1[[]ledger.Tally](t)(s.Tallies(ctx))
	if d := diff([]ledger.Tally{{Kind: "k", Class: "deadline", Landed: 1}, {Kind: "k", Class: "timeout", Landed: 1, Missed: 1}}, tallies); d != "" {
		t.Errorf("tallies (-want +got):\n%s", d)
	}
	counts := map[ledger.State]int{}
	for _, c := range must1[[]ledger.Census](t)(s.Census(ctx, time.Now())) {
		counts[c.State] = c.Count
	}
	if d := diff(map[ledger.State]int{ledger.Pending: 2, ledger.Committed: 4, ledger.Failed: 2}, counts); d != "" {
		t.Errorf("census (-want +got):\n%s", d)
	}
	if rec := must1[ledger.Record](t)(s.Read(ctx, ledger.Locator{ID: "overdue"})); !rec.Operation.Doubted {
		t.Error("an answer after the deadline leaves no trace of the doubt")
	}
}
