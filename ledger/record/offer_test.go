package record_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// failedOver is a store whose database is replaced by one that lacks its newest writes,
// and that does not take at first what is offered to it.
type failedOver struct {
	ledger.Store
	lost atomic.Pointer[error]
	now  string   // its lineage
	only []string // in which changes were to happen
}

func (s *failedOver) Lineage(context.Context) (opened, now string, err error) {
	return s.now, s.now, nil
}

func (s *failedOver) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if why := s.lost.Load(); why != nil && at.ID != "" {
		return ledger.Applied{}, *why
	}
	return s.Store.Change(ctx, at, id, func(rec *ledger.Record) (ledger.Change, error) {
		c, err := rule(rec)
		s.only = append(s.only, c.Lineage)
		return c, err
	})
}

// I3: a begin under a key that was begun here lately happens only where that is known, and
// not at all where no lineage is.
func TestI3_AKnownKeyBeginsInItsLineage(t *testing.T) {
	store, err := open.Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), open.Options{})
	need.OK(t, err)
	defer store.Close()
	s := &failedOver{Store: store, now: "one"}
	r := record.New(s, nil, record.Options{})
	for range 2 {
		_, err = r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"})
		need.OK(t, err)
	}
	need.That(t, slices.Equal(s.only, []string{"", "one"}), "%q", s.only)
	r = record.New(&failedOver{Store: store}, nil, record.Options{})
	_, err = r.Begin(t.Context(), record.Request{Kind: "k", Key: "2"})
	need.OK(t, err)
	_, err = r.Begin(t.Context(), record.Request{Kind: "k", Key: "2"})
	need.That(t, errors.Is(err, ledger.ErrReadOnly), "%v", err)
}

// What became of an attempt that a ledger has lost is kept also where the ledger does not
// take it yet when it is offered the attempt again.
func TestI9_TheOutcomeOfALostAttemptIsKept(t *testing.T) {
	made := func(name string) ledger.Store {
		s := need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), name), open.Options{}))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	for _, why := range []error{ledger.ErrLost, ledger.ErrFull} {
		s := &failedOver{Store: made("before.db")}
		r := record.New(s, nil, record.Options{})
		begun, err := r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"})
		need.OK(t, err)
		s.Store = made("after.db")
		s.lost.Store(&why)
		settle := ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "r", Status: 201}
		_, err = r.Settle(t.Context(), settle)
		need.That(t, errors.Is(err, why) && !errors.Is(err, ledger.ErrNotFound), "it is told %v", err)
		time.AfterFunc(100*time.Millisecond, func() { s.lost.Store(nil) })
		_, err = r.SettleSurely(t.Context(), settle)
		need.OK(t, err)
		rec := need.Get(s.Read(t.Context(), ledger.Locator{ID: begun.Operation.ID}))(t)
		need.Equal(t, rec.Operation.State, ledger.Committed)
	}
}
