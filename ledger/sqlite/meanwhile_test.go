package sqlite

import (
	"database/sql"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What anyone writes between a begin and its settling counts.
func TestWhatHasChangedSinceTheBeginIsSeen(t *testing.T) {
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
