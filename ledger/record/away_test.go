package record_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// bubbled has a ledger keep the time of a bubble.
func bubbled() open.Options {
	return open.Options{Clock: time.Now, Steady: hostclock.With(time.Now)}
}

func elsewhere(ctx context.Context, name string) (ledger.Store, error) {
	return open.Moved(ctx, name, bubbled())
}

// movable is a ledger that moves: while it is copied, and ever after, it takes nothing. What it
// went to is its own file.
type movable struct {
	ledger.Store
	closed atomic.Bool
	to     atomic.Value // where it went
}

func (m *movable) Change(ctx context.Context, l ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if m.closed.Load() {
		return ledger.Applied{}, &ledger.GuardError{Moving: true, Message: "it is being moved"}
	}
	return m.Store.Change(ctx, l, id, rule)
}

func (m *movable) Info(ctx context.Context) (ledger.Info, error) {
	info, err := m.Store.Info(ctx)
	info.MovedTo, _ = m.to.Load().(string)
	return info, err
}

// An answer that comes while its ledger is copied is not lost: it is recorded where the
// ledger is then, here or there.
func TestI2_AnOutcomeThatComesWhileTheLedgerMovesIsRecorded(t *testing.T) {
	for name, moves := range map[string]bool{"given up": false, "moved": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "moved (1).db")
				s := &movable{Store: need.Get(open.Create(t.Context(), file, bubbled()))(t)}
				defer s.Close()
				r := record.New(s, nil, record.Options{Elsewhere: elsewhere})
				begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
				landed := ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "r", Status: 201, Result: []byte(`{"id":1}`)}
				_, err := r.Settle(t.Context(), ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeUncertain, Status: -1})
				need.OK(t, err)
				s.closed.Store(true)
				if _, err := r.SettleSurely(t.Context(), landed); !errors.Is(err, ledger.ErrMoving) {
					t.Errorf("while it is copied: %v", err)
				}
				short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				need.Equal(t, r.Drain(short), 1)
				if moves {
					s.to.Store(file)
				} else {
					s.closed.Store(false)
				}
				long, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				need.Equal(t, r.Drain(long), 0)
				is := need.Get(open.Open(t.Context(), file, open.Options{ReadOnly: true, Clock: time.Now, Steady: bubbled().Steady}))(t)
				defer is.Close()
				o := need.Get(is.Read(t.Context(), ledger.Locator{ID: begun.Operation.ID}))(t).Operation
				need.That(t, o.State == ledger.Committed && string(o.Result) == `{"id":1}`,
					"it is %s, %s", o.State, o.Result)
				if again, err := r.SettleSurely(t.Context(), landed); err != nil || again.After.State != ledger.Committed {
					t.Errorf("the same once more: %s, %v", again.After.State, err)
				}
				time.Sleep(time.Hour) // what is kept in mind is forgotten
			})
		})
	}
}

// A ledger that is not this one gets nothing of it.
func TestI2_AnotherLedgerIsNoPlaceForAnOutcome(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "other.db")
	s := &movable{Store: need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), open.Options{}))(t)}
	defer s.Close()
	r := record.New(s, nil, record.Options{Elsewhere: elsewhere})
	begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
	settle := func(o ledger.Outcome) error {
		_, err := r.Settle(t.Context(), ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: o, Status: -1})
		return err
	}
	need.OK(t, settle(ledger.OutcomeUncertain))
	s.closed.Store(true)
	s.to.Store(to)
	for _, there := range []string{"nothing", "another ledger"} {
		if there != "nothing" {
			at := need.Get(open.At(to))(t)
			need.OK(t, need.Get(at.Make(t.Context(), open.Options{Anew: true}))(t).Close())
		}
		err := settle(ledger.OutcomeCommitted)
		need.That(t, errors.Is(err, ledger.ErrMoving) && !errors.Is(err, ledger.ErrNotFound), "where there is %s: %v", there, err)
	}
}
