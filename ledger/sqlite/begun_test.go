package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// What the writer remembers of a begin is what it would read.
func TestWhatWasBegunHereIsKnownAsItStands(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	for name, mod := range map[string]func(*ledger.BeginRequest){
		"plain": func(*ledger.BeginRequest) {},
		"least": func(r *ledger.BeginRequest) {
			*r = ledger.BeginRequest{ChangeID: r.ChangeID, OperationID: r.OperationID, AttemptID: r.AttemptID, Kind: "k", Key: r.Key, Deadline: r.Deadline}
		},
		"command": func(r *ledger.BeginRequest) {
			r.Command = &ledger.Command{Argv: []string{"cp", "a"}, Expand: []string{}}
		},
		"request": func(r *ledger.BeginRequest) {
			r.Request = &ledger.Request{Method: "POST", Origin: "http://x", Header: map[string][]string{"A": {"b"}}, Binary: []byte{0xff}}
		},
		"unusable":    func(r *ledger.BeginRequest) { r.Command, r.Request = &ledger.Command{}, &ledger.Request{} },
		"sent before": func(r *ledger.BeginRequest) { r.SentAt = time.Now().Add(-time.Hour) },
		"fine times":  func(r *ledger.BeginRequest) { r.Deadline, r.TTL = time.Minute+12345, time.Hour+12345 },
		"marks and a place": func(r *ledger.BeginRequest) {
			r.Marks = ledger.Marks{Rules: "r", Fields: "f", Values: []string{"v"}}
			r.Redacted, r.AwaitsDelivery, r.KeyWorks, r.Tree = true, true, true, ledger.TreeOpen
			r.Place = ledger.Place{BootID: "boot", PIDNamespace: "ns", UID: 7}
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := begin(t, s, mod)
			known, ok := s.writer.begun.records[res.Attempt.ID]
			need.Must(t, ok, "it is not remembered")
			read := need.Get(s.Read(ctx, ledger.Locator{AttemptID: res.Attempt.ID, Skip: ledger.AllParts}))(t)
			read.Now, read.Steady = time.Time{}, ledger.Steady{}
			if d := diff(read, known.Record); d != "" || !known.RecheckAt.IsZero() {
				t.Error(d)
			}
		})
	}
	large := begin(t, s, func(r *ledger.BeginRequest) { r.Input = []byte(`"` + strings.Repeat("x", 16<<10) + `"`) })
	need.That(t, s.writer.begun.records[large.Attempt.ID] == nil, "a large input is remembered")
	for i := range mostBegun {
		s.writer.begun.records[fmt.Sprint(i)] = &tables.Record{}
	}
	begin(t, s)
	if n := len(s.writer.begun.records); n > mostBegun {
		t.Errorf("%d are remembered", n)
	}
}

// What anyone writes between a begin and its settling counts.
func TestWhatWasBegunHereAndHasChangedSinceIsReadAgain(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	other := need.Get(Open(ctx, s.path, s.opts))(t)
	defer other.Close()
	foreign := need.Get(sql.Open("sqlite", dsnOf(s.path)))(t)
	defer foreign.Close()
	plain := func(query string) func(*testing.T, ledger.BeginResult) {
		return func(t *testing.T, res ledger.BeginResult) {
			need.Get(foreign.Exec(query, res.Operation.ID))(t)
		}
	}
	for name, meanwhile := range map[string]func(*testing.T, ledger.BeginResult){
		"plain SQL": plain(`UPDATE operations SET title = 'moved', awaits = 'x', change_id = 'c', reason = 'waits' WHERE id = ?`),
		"another process": func(t *testing.T, res ledger.BeginResult) {
			settleAs(t, other, res.Attempt.ID, ledger.OutcomeUncertain)
		},
		"this one": func(t *testing.T, res ledger.BeginResult) {
			settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
		},
		"its deadline": func(t *testing.T, res ledger.BeginResult) {
			c.Advance(time.Hour)
			need.Get(s.Expire(ctx, 10))(t)
		},
		"its price": func(t *testing.T, res ledger.BeginResult) {
			need.OK(t, s.Price(ctx, []ledger.Pricing{{OperationID: res.Operation.ID, Version: 1, Title: "priced"}}))
		},
		"its transaction": func(t *testing.T, res ledger.BeginResult) {
			again, both := request(), &collector{Database: database{s.handle}}
			need.Get(ledger.Begin(ctx, tables.New(both), again))(t)
			for _, err := range s.writer.doAll(ctx, append(both.changes, func(tx tables.Tx) error {
				return tx.Later(`UPDATE operations SET title = 'late' WHERE id = ?`, again.OperationID)
			})) {
				need.OK(t, err)
			}
			if _, known := s.writer.begun.records[again.AttemptID]; known {
				t.Error("what changed in the transaction that began it is remembered as it was")
			}
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

// What a lease was taken on is what is read, whoever writes meanwhile.
func TestWhatIsLeasedHereIsKnownAsItStands(t *testing.T) {
	t.Parallel()
	s, c := openTest(t)
	other := need.Get(Open(ctx, s.path, s.opts))(t)
	defer other.Close()
	looking := ledger.Locator{Skip: ledger.PartRelated | ledger.PartHolds | ledger.PartPricing}
	read := func(id string) ledger.Read {
		return ledger.Read{ID: ledger.NewID(), OperationID: id, BeganAt: c.Now(), EndedAt: c.Now(), Verdict: ledger.Inconclusive, Actor: "auto"}
	}
	for name, kept := range map[string]bool{
		"nothing": true, "a lease on another": true, "a change of another": true,
		"a renewed lease": false, "a lease given back": false, "another engine's lease": false, "a lease that ran out": true,
		"a read": false, "a control": false, "a price": false, "another process": false, "a late answer": false,
	} {
		t.Run(name, func(t *testing.T) {
			res, beside := begin(t, s), begin(t, s)
			id := res.Operation.ID
			settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
			settleAs(t, s, beside.Attempt.ID, ledger.OutcomeUncertain)
			need.Get(s.Leases(ctx, []string{id}, "engine", "p1", time.Minute))(t)
			switch name {
			case "a lease on another":
				need.Get(s.Leases(ctx, []string{beside.Operation.ID}, "engine", "p1", time.Minute))(t)
			case "a change of another":
				need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Read: read(beside.Operation.ID), Version: beside.Operation.Version, Actor: billing}))(t)
			case "a renewed lease":
				c.Advance(time.Second)
				need.Get(s.Lease(ctx, id, "engine", "p1", time.Hour))(t)
			case "a lease given back":
				need.OK(t, s.Release(ctx, need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t).Lease))
			case "another engine's lease":
				c.Advance(time.Hour)
				need.Get(other.Lease(ctx, id, "engine-2", "p1", time.Hour))(t)
			case "a lease that ran out":
				c.Advance(time.Hour)
			case "a read":
				need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Read: read(id), Version: res.Operation.Version, Lease: ledger.Lease{Generation: 1}, Actor: billing}))(t)
			case "a control":
				need.OK(t, s.RecordControl(ctx, read(id)))
			case "a price":
				need.OK(t, s.Price(ctx, []ledger.Pricing{{OperationID: id, Title: "priced"}}))
			case "another process":
				settleAs(t, other, res.Attempt.ID, ledger.OutcomeCommitted)
			case "a late answer":
				settleAs(t, s, res.Attempt.ID, ledger.OutcomeCommitted)
			}
			looking.ID = id
			if _, known := s.writer.begun.records[id]; known && !kept && name != "another process" && name != "another engine's lease" || kept && !known {
				t.Errorf("it is remembered: %v", known)
			}
			var seen ledger.Record
			need.Get(s.Change(ctx, looking, "", func(rec *ledger.Record) (ledger.Change, error) {
				seen = *rec
				return ledger.Change{}, nil
			}))(t)
			want := need.Get(s.Read(ctx, looking))(t)
			want.Now, want.Steady = seen.Now, seen.Steady
			if d := diff(want, seen); d != "" {
				t.Error(d)
			}
		})
	}
}

// The statement that is prepared while an attempt is sent is the one it is settled with,
// with an answer and without, and nothing is written before it is settled.
func TestTheStatementOfACommitIsForeseen(t *testing.T) {
	t.Parallel()
	for _, result := range []string{"", `{"id": "ch_1"}`} {
		s, _ := openTest(t)
		res := begin(t, s)
		s.Foresee(res.Attempt.ID)
		for s.writer.foreseeing.Load() {
			runtime.Gosched()
		}
		updates := func() (n int) {
			for query := range s.writer.stmts {
				if strings.HasPrefix(query, "UPDATE operations") {
					n++
				}
			}
			return n
		}
		if n := updates(); n != 1 {
			t.Fatalf("%d statements were foreseen", n)
		}
		if rec := need.Get(s.Read(ctx, ledger.Locator{ID: res.Operation.ID}))(t); rec.State() != ledger.Pending || rec.Attempts[0].Outcome != "" {
			t.Errorf("%s, %q", rec.State(), rec.Attempts[0].Outcome)
		}
		o := settleAs(t, s, res.Attempt.ID, ledger.OutcomeCommitted, func(r *ledger.SettleRequest) { r.Result = json.RawMessage(result) })
		if n := updates(); n != 1 || o.State != ledger.Committed {
			t.Errorf("result %q: %s by %d statements", result, o.State, n)
		}
	}
}
