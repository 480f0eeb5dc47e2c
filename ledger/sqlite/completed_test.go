package sqlite

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// What plain SQL leaves out, the database fills in: attempt, event, version,
// list and counts.
func TestPlainSQLIsCompleted(t *testing.T) {
	t.Parallel()
	for _, recursive := range []string{"OFF", "ON"} {
		c := newClock()
		s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
		defer s.Close()
		db := rawDB(t, s.path)
		exec := func(query string, args ...any) {
			t.Helper()
			need.Get(db.Exec(query, args...))(t)
		}
		exec(`PRAGMA recursive_triggers = ` + recursive)
		deadline := time.Now().Add(time.Minute).UnixMilli()
		for _, id := range []string{"a", "b", "c"} {
			exec(`INSERT INTO operations (id, kind, key, input, deadline_at, source, actor) VALUES (?, 'k', ?, '{"x":1}', ?, 'nightly', 'nightly')`, id, id, deadline)
		}
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: "a"}))(t)
		o := rec.Operation
		if o.State != ledger.Pending || o.Version != 1 || o.LiveAttempt != "a.1" || o.AttemptCount != 1 || len(rec.Attempts) != 1 || rec.Attempts[0].Outcome != "" {
			t.Fatalf("begun: %+v", rec)
		}
		exec(`UPDATE operations SET state = 'committed', receipt = 'r1', result = '{"id":"r1"}', change_id = 'a-2', actor = 'nightly', reason = '200' WHERE id = 'a' AND state = 'pending'`)
		exec(`UPDATE operations SET state = 'uncertain', error_class = 'timeout', change_id = 'b-2', actor = 'nightly', reason = 'timeout' WHERE id = 'b' AND state = 'pending'`)
		exec(`UPDATE operations SET state = 'failed', change_detail = '{"proof":"refused"}', change_id = 'c-2', actor = 'nightly', reason = '402' WHERE id = 'c' AND state = 'pending'`)
		rec = need.Get(s.Read(ctx, ledger.Locator{ID: "a"}))(t)
		o = rec.Operation
		if o.State != ledger.Committed || o.Version != 2 || o.LiveAttempt != "" || o.Receipt() != "r1" || o.Effects != 1 || !o.ByAnswer ||
			o.SettledAt.IsZero() || !o.DeadlineAt.IsZero() || rec.Attempts[0].Outcome != ledger.OutcomeCommitted || rec.Attempts[0].Receipt != "r1" {
			t.Fatalf("committed: %+v", rec)
		}
		rec = need.Get(s.Read(ctx, ledger.Locator{ID: "b"}))(t)
		if o = rec.Operation; o.State != ledger.Uncertain || !o.Doubted || o.DoubtedAt.IsZero() || rec.Attempts[0].ErrorClass != ledger.ClassTimeout {
			t.Fatalf("uncertain: %+v", rec)
		}
		rec = need.Get(s.Read(ctx, ledger.Locator{ID: "c"}))(t)
		if o = rec.Operation; o.State != ledger.Failed || rec.Attempts[0].Proof != ledger.Refused {
			t.Fatalf("failed: %+v", rec)
		}
		events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: "b", Limit: 10}))(t)
		if len(events) != 2 || events[1].Verb != "settle" || events[1].From != ledger.Pending || events[1].To != ledger.Uncertain || events[1].Version != 2 || events[1].Actor.Name != "nightly" {
			t.Fatalf("events: %+v", events)
		}
		counts := need.Get(s.Counts(ctx, time.Now()))(t)
		need.Must(t, counts.All == 3 && counts.NeedsYou == 1 && counts.Settled == 2 && counts.InFlight == 0,
			"counts: %+v", counts)
		// What is abandoned keeps what is known of it, and only an undo leads back to a failure.
		exec(`UPDATE operations SET state = 'abandoned', change_id = 'b-3', actor = 'ann', reason = 'old' WHERE id = 'b'`)
		exec(`UPDATE operations SET state = 'abandoned', version = version + 1, change_id = 'c-3', actor = 'ann', reason = 'old' WHERE id = 'c'`)
		for id, fact := range map[string]ledger.State{"b": ledger.Uncertain, "c": ledger.Failed} {
			o := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t).Operation
			need.Must(t, o.State == ledger.Abandoned && o.Fact == fact && !o.SettledAt.IsZero(), "abandoned: %+v", o)
		}
		_, err := db.Exec(`UPDATE operations SET state = 'failed', change_id = 'c-4', actor = 'ann', reason = 'so' WHERE id = 'c'`)
		need.Must(t, err != nil && strings.Contains(err.Error(), "cannot change like this"), "failed again: %v", err)
		exec(`UPDATE operations SET state = 'uncertain', change_id = 'c-4', actor = 'ann', reason = 'so' WHERE id = 'c'`)
		if o := need.Get(s.Read(ctx, ledger.Locator{ID: "c"}))(t).Operation; o.State != ledger.Uncertain || o.Fact != "" || !o.HandsOff {
			t.Fatalf("taken up: %+v", o)
		}
		// What a failure without proof leaves, only a person's grant sends again.
		exec(`INSERT INTO operations (id, kind, key, input, deadline_at, source, actor) VALUES ('d', 'k', 'd', '{}', ?, 'nightly', 'nightly')`, deadline)
		exec(`UPDATE operations SET state = 'failed', change_id = 'd-2', actor = 'nightly', reason = 'gave up' WHERE id = 'd'`)
		res := begin(t, s, func(r *ledger.BeginRequest) { r.Kind, r.Key, r.Fingerprint = "k", "d", "" })
		need.Must(t, res.Answer == ledger.AnswerRefused, "begin after a failure without proof: %s", res.Answer)
		_ = c
	}
}

// An attempt that was named and never recorded hides nothing, and proves nothing.
func TestI10_PlainSQLWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	db := rawDB(t, s.path)
	need.Get(db.Exec(`INSERT INTO operations (id, kind, key, live_attempt, attempt_count, created_at, updated_at, deadline_at, change_id, change_of, actor)
		VALUES ('o', 'k', 'k', 'mine', 1, ?1, ?1, ?1 + 60000, 'c', 'c', 'nightly')`, tables.Millis(c.Now())))(t)
	if rec := need.Get(s.Read(ctx, ledger.Locator{Kind: "k", Key: "k"}))(t); rec.Operation.State != ledger.Pending || len(rec.Attempts) != 0 {
		t.Fatalf("%+v", rec)
	}
	c.Advance(2 * time.Minute)
	if n := need.Get(s.Expire(ctx, 10))(t); n != 1 {
		t.Fatalf("%d expired", n)
	}
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t)
	need.Must(t, rec.Operation.State == ledger.Uncertain, "%+v", rec)
	need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: "denied", ID: "o", Version: rec.Operation.Version, Verb: ledger.VerbDeny, Reason: "I think not", Actor: ann}))(t)
	if res := begin(t, s, func(r *ledger.BeginRequest) { r.Kind, r.Key, r.Fingerprint = "k", "k", "" }); res.Answer != ledger.AnswerRefused {
		t.Fatalf("begin after a denial on a mere word: %s", res.Answer)
	}
}

// Counts are right with any writer and any statement.
func TestPlainSQLIsCounted(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	db := rawDB(t, s.path)
	exec := func(query string, args ...any) {
		t.Helper()
		need.Get(db.Exec(query, args...))(t)
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
	doubts := need.Get(s.DoubtCounts(ctx))(t)
	if d := diff([]ledger.DoubtCount{{Kind: "k", Class: "deadline", Landed: 1}, {Kind: "k", Class: "timeout", Landed: 1, Missed: 1}}, doubts); d != "" {
		t.Errorf("doubt counts (-want +got):\n%s", d)
	}
	states := map[ledger.State]int{}
	for _, c := range need.Get(s.StateCounts(ctx, time.Now()))(t) {
		states[c.State] = c.Count
	}
	if d := diff(map[ledger.State]int{ledger.Pending: 2, ledger.Committed: 4, ledger.Failed: 2}, states); d != "" {
		t.Errorf("state counts (-want +got):\n%s", d)
	}
	if rec := need.Get(s.Read(ctx, ledger.Locator{ID: "overdue"}))(t); !rec.Operation.Doubted {
		t.Error("an answer after the deadline leaves no trace of the doubt")
	}
}

// A clock that was set back between two doubts keeps no outcome from being
// recorded.
func TestI9_ASecondDoubtByAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	res := begin(t, s, func(r *ledger.BeginRequest) { r.Deadline = 3 * time.Hour })
	c.Advance(2 * time.Hour)
	o := settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
	need.Get(ledger.Allow(ctx, s, ledger.GrantRequest{ChangeID: "g-c", GrantID: "g", OperationID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted,
		Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: c.Now().Add(9 * time.Hour)}))(t)
	c.Advance(-time.Hour)
	again := begin(t, s, func(r *ledger.BeginRequest) { r.Key, r.Fingerprint = o.Key, o.Fingerprint })
	need.Must(t, again.Answer == ledger.AnswerBegun, "%+v", again)
	if o = settleAs(t, s, again.Attempt.ID, ledger.OutcomeUncertain); o.State != ledger.Uncertain {
		t.Fatalf("%+v", o)
	}
}

// A command that is none keeps nothing from being read.
func TestI10_ACommandThatIsNone(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	db := rawDB(t, s.path)
	for i, command := range []string{`0`, `[]`, `"rm"`, `{"argv":5}`, `{}`, `null`} {
		_, err := db.Exec(`INSERT INTO operations (id, kind, key, command, request, created_at, updated_at, deadline_at, actor) VALUES (?1, 'k', ?1, ?2, ?2, ?3, ?3, ?3 + 60000, 'nightly')`,
			string(rune('a'+i)), command, tables.Millis(c.Now()))
		need.OK(t, err)
		_, err = db.Exec(`UPDATE operations SET request = '{"method":"POST"}' WHERE id = ?`, string(rune('a'+i)))
		need.That(t, err != nil && strings.Contains(err.Error(), "never change"),
			"what was sent may be changed: %v", err)
		if o := need.Get(s.Read(ctx, ledger.Locator{ID: string(rune('a' + i))}))(t).Operation; o.Command != nil || o.Request != nil {
			t.Errorf("%s is the command %+v, the request %+v", command, o.Command, o.Request)
		}
	}
	c.Advance(2 * time.Minute)
	if ops := need.Get(s.Unpriced(ctx, "d", 10))(t); len(ops) != 6 {
		t.Errorf("%d are to be priced", len(ops))
	}
}
