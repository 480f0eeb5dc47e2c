package record_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// failedOver is a store whose database is replaced by one that lacks its newest writes, and
// that takes nothing at first.
type failedOver struct {
	ledger.Store
	away error
}

func (s *failedOver) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if s.away != nil {
		return ledger.Applied{}, s.away
	}
	return s.Store.Change(ctx, at, id, rule)
}

// I9: what became of an attempt that a ledger has lost is recorded as soon as the ledger
// takes it, with all that was begun, by whatever recorder began it.
func TestI9_TheOutcomeOfALostAttemptIsRecorded(t *testing.T) {
	made := func(name string) ledger.Store {
		s := need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), name), open.Options{}))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	for _, why := range []error{ledger.ErrLost, ledger.ErrFull} {
		s := &failedOver{Store: made("before.db")}
		r := record.New(s, nil, record.Options{})
		begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
		s.Store, s.away = made("after.db"), why
		settle := ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "r", Status: 201}
		_, err := r.Settle(t.Context(), settle)
		need.That(t, errors.Is(err, why), "it is told %v", err)
		s.away = nil
		need.Equal(t, need.Get(r.SettleSurely(t.Context(), settle))(t).After.State, ledger.Committed)
		rec := need.Get(s.Read(t.Context(), ledger.Locator{ID: begun.Operation.ID}))(t)
		need.That(t, rec.Operation.State == ledger.Committed && rec.Operation.Key == "1" && len(rec.Attempts) == 1, "%+v", rec)
		settle.AttemptID = "another"
		_, err = r.Settle(t.Context(), settle)
		need.That(t, errors.Is(err, ledger.ErrNotFound), "what was not begun here is recorded: %v", err)
	}
}
