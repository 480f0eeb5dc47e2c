package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What plain SQL leaves out, the views fill in: attempt, event, version, counts.
func TestPlainSQLIsCompleted(t *testing.T) {
	t.Parallel()
	for _, recursive := range []string{"OFF", "ON"} {
		s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
		defer s.Close()
		db := rawDB(t, s.path)
		exec := func(query string, args ...any) {
			t.Helper()
			need.Get(db.Exec(query, args...))(t)
		}
		read := func(id string) (ledger.Operation, ledger.Attempt) {
			rec := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
			need.Must(t, len(rec.Attempts) == 1, "%d attempts", len(rec.Attempts))
			return rec.Operation, rec.Attempts[0]
		}
		exec(`PRAGMA recursive_triggers = ` + recursive)
		began := time.Now().Truncate(time.Millisecond)
		for _, id := range []string{"a", "b", "c", "d"} {
			exec(`INSERT INTO intent (id, kind, key, input, actor) VALUES (?1, 'k', ?1, '{"x":1}', 'nightly')`, id)
		}
		o, a := read("a")
		need.That(t, o.State == ledger.Pending && o.Version == 1 && o.LiveAttempt == "a.1" && o.AttemptCount == 1 && a.Outcome == "" && a.ID == "a.1" &&
			o.Source.Pipeline == "nightly" && o.DeadlineAt.After(began), "begun: %+v", o)
		settle := func(id, outcome, proof, receipt, class string) {
			exec(`INSERT INTO settle (attempt, outcome, proof, receipt, class, reason, actor) VALUES (?, ?, ?, ?, ?, 'said', 'nightly')`, id+".1", outcome,
				proof, receipt, class)
		}
		settle("a", "committed", "", "r1", "")
		settle("b", "uncertain", "", "", "timeout")
		settle("c", "failed", "refused", "", "")
		settle("d", "failed", "", "", "")
		o, a = read("a")
		need.That(t, o.State == ledger.Committed && o.Version == 2 && o.LiveAttempt == "" && o.Receipt() == "r1" && o.Effects == 1 && o.ByAnswer &&
			!o.SettledAt.IsZero() && o.DeadlineAt.IsZero() && a.Outcome == ledger.OutcomeCommitted && a.Receipt == "r1", "committed: %+v %+v", o, a)
		o, a = read("b")
		need.That(t, o.State == ledger.Uncertain && o.Doubted && !o.DoubtedAt.Before(began) && !o.EndedAt.Before(began) && !a.EndedAt.Before(began) &&
			o.SettledAt.IsZero() && a.ErrorClass == ledger.ClassTimeout && o.ErrorClass == ledger.ClassTimeout, "uncertain: %+v %+v", o, a)
		o, a = read("c")
		need.That(t, o.State == ledger.Failed && a.Proof == ledger.Refused, "failed: %+v %+v", o, a)
		events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: "b", Limit: 10}))(t)
		need.Must(t, len(events) == 2 && events[1].Verb == "settle" && events[1].From == ledger.Pending && events[1].To == ledger.Uncertain &&
			events[1].Version == 2 && events[1].Actor.Name == "nightly", "events: %+v", events)
		counts := need.Get(s.Counts(ctx, time.Now()))(t)
		need.Must(t, counts.All == 4 && counts.NeedsYou == 1 && counts.Settled == 3 && counts.InFlight == 0, "counts: %+v", counts)
		// What a failure without proof leaves, only a person's permission sends again; a proof lets it begin.
		for key, want := range map[string]ledger.BeginAnswer{"c": ledger.AnswerBegun, "d": ledger.AnswerRefused} {
			res := begin(t, s, func(r *ledger.BeginRequest) { r.Kind, r.Key, r.Fingerprint = "k", key, "" })
			need.Must(t, res.Answer == want, "begin of %s after a failure: %s", key, res.Answer)
		}
	}
}

// What anyone writes between a begin and its settling counts.
func TestWhatHasChangedSinceTheBeginIsSeen(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	other := need.Get(Open(ctx, s.path, s.opts))(t)
	defer other.Close()
	foreign := need.Get(sql.Open("sqlite", dsnOf(s.path)))(t)
	defer foreign.Close()
	for name, meanwhile := range map[string]func(*testing.T, ledger.BeginResult){
		"plain SQL": func(t *testing.T, res ledger.BeginResult) {
			need.Get(foreign.Exec(`UPDATE op SET title = 'moved', awaits = 'x', change_id = 'c', verb = 'wait', facts = NULL, payload = NULL, reason = 'waits'
				WHERE id = ?`, res.Operation.ID))(t)
		},
		"another process": func(t *testing.T, res ledger.BeginResult) {
			settleAs(t, other, res.Attempt.ID, ledger.OutcomeUncertain)
		},
		"this one": func(t *testing.T, res ledger.BeginResult) {
			settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
		},
		"its deadline": func(t *testing.T, _ ledger.BeginResult) {
			c.Advance(time.Hour)
			need.Get(s.Expire(ctx, 10))(t)
		},
		"its price": func(t *testing.T, res ledger.BeginResult) {
			need.OK(t, s.Price(ctx, []ledger.Pricing{{OperationID: res.Operation.ID, Version: 1, Title: "priced"}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := begin(t, s, func(r *ledger.BeginRequest) { r.Title = "" })
			meanwhile(t, res)
			var seen ledger.Record
			need.Get(s.Change(ctx, ledger.Locator{AttemptID: res.Attempt.ID, Skip: ledger.AllParts}, "", func(rec *ledger.Record) (ledger.Change, error) {
				seen = *rec
				return ledger.Change{}, nil
			}))(t)
			read := need.Get(s.Read(ctx, ledger.Locator{AttemptID: res.Attempt.ID}))(t)
			if d := diff(read.Operation, seen.Operation) + diff(read.Attempts, seen.Attempts); d != "" {
				t.Error(d)
			}
		})
	}
	// A change that was made is not made again.
	req := request()
	need.Get(ledger.Begin(ctx, s, req))(t)
	applied := need.Get(s.Change(ctx, ledger.Locator{AttemptID: req.AttemptID, Skip: ledger.AllParts}, req.ChangeID, func(*ledger.Record) (ledger.Change, error) {
		t.Error("a change that is in the history was asked for anew")
		return ledger.Change{}, nil
	}))(t)
	need.That(t, applied.Noop && applied.After.ID == req.OperationID, "%+v", applied)
}

// A clock that was set back between two doubts keeps no outcome from being recorded.
func TestI9_ASecondDoubtByAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	res := begin(t, s, func(r *ledger.BeginRequest) { r.Deadline = 3 * time.Hour })
	c.Advance(2 * time.Hour)
	o := settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
	need.Get(ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: "g-c", AllowID: "g", OperationID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted,
		Sender: "pipeline", Actor: ann, Reason: "must", ExpiresAt: c.Now().Add(9 * time.Hour)}))(t)
	c.Advance(-time.Hour)
	again := begin(t, s, func(r *ledger.BeginRequest) { r.Key, r.Fingerprint = o.Key, o.Fingerprint })
	need.Must(t, again.Answer == ledger.AnswerBegun, "%+v", again)
	if o = settleAs(t, s, again.Attempt.ID, ledger.OutcomeUncertain); o.State != ledger.Uncertain {
		t.Fatalf("%+v", o)
	}
}

// A command or a request that is none keeps nothing from being read.
func TestI10_ACommandThatIsNone(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	db := rawDB(t, s.path)
	for i, command := range []string{`0`, `[]`, `"rm"`, `{"argv":5}`, `{}`, `null`} {
		id := string(rune('a' + i))
		need.Get(db.Exec(`INSERT INTO op (id, kind, name, payload, created_at, changed_at, deadline_at, actor)
			VALUES (?1, 'k', ?1, ?2, ?3, ?3, ?3 + 60000, 'nightly')`, id, fmt.Sprintf(`{"op":{"command":%[1]s,"request":%[1]s}}`, command), c.Now().UnixMilli()))(t)
		o := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t).Operation
		need.That(t, o.Command == nil || len(o.Command.Argv) == 0, "%s is the command %+v", command, o.Command)
		need.That(t, o.Request == nil || o.Request.Method == "", "%s is the request %+v", command, o.Request)
	}
	c.Advance(2 * time.Minute)
	need.Get(s.Expire(ctx, 10))(t)
	ops := need.Get(s.Unpriced(ctx, "d", 10))(t)
	need.That(t, len(ops) == 6, "%d are to be priced", len(ops))
}

// A deadline that the database refuses to have written down keeps no other from it.
func TestADeadlineThatIsRefusedHoldsNoOther(t *testing.T) {
	t.Parallel()
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	db := rawDB(t, s.path)
	need.Get(db.Exec(`CREATE TRIGGER theirs BEFORE UPDATE ON op WHEN NEW.id = 'a' BEGIN SELECT RAISE(ABORT, 'theirs'); END;
		INSERT INTO op (id, kind, name, created_at, deadline_at, actor) VALUES ('a', 'k', 'a', 1700000000000, 1700000000001, 'nightly');
		INSERT INTO op (id, kind, name, created_at, deadline_at, actor) VALUES ('b', 'k', 'b', 1700000000000, 1700000000002, 'nightly')`))(t)
	n, err := s.Expire(ctx, 10)
	need.That(t, n == 1 && errors.Is(err, ledger.ErrGuard), "%d were written down, %v", n, err)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "b"}))(t)
	need.Equal(t, rec.Operation.State, ledger.Uncertain)
}
