package record_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// copies moves a ledger, and does something when nothing changes in it any more.
func copies(ctx context.Context, t *testing.T, from, to string, frozen func()) error {
	at, there := need.Get(open.At(from))(t), need.Get(open.At(to))(t)
	once := false
	_, err := open.Copy(ctx, at, there, bubbled(), open.CopyOptions{Progress: func(string, int, int, int64) {
		if !once {
			once = true
			frozen()
		}
	}})
	return err
}

// An answer that comes while its ledger is copied is not lost: it is recorded where the
// ledger is then, here or there.
func TestI2_AnOutcomeThatComesWhileTheLedgerMovesIsRecorded(t *testing.T) {
	for name, moves := range map[string]bool{"given up": false, "moved": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(t.TempDir(), "moved (1).db")
				s := need.Get(open.Create(t.Context(), from, bubbled()))(t)
				defer s.Close()
				r := record.New(s, nil, record.Options{Elsewhere: elsewhere})
				begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
				landed := ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "r", Status: 201, Result: []byte(`{"id":1}`)}
				_, err := r.Settle(t.Context(), ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeUncertain, Status: -1})
				need.OK(t, err)
				ctx, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				err = copies(ctx, t, from, to, func() {
					if _, err := r.SettleSurely(t.Context(), landed); !errors.Is(err, ledger.ErrMoving) {
						t.Errorf("while it is copied: %v", err)
					}
					short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					need.Equal(t, r.Drain(short), 1)
					if !moves {
						giveUp()
					}
				})
				where := from
				if moves {
					need.OK(t, err)
					where = to
				} else {
					need.That(t, errors.Is(err, context.Canceled), "the copy ended with %v", err)
				}
				long, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				need.Equal(t, r.Drain(long), 0)
				is := need.Get(open.Open(t.Context(), where, open.Options{ReadOnly: true, Clock: time.Now, Steady: bubbled().Steady}))(t)
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
	from, to := filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(t.TempDir(), "other.db")
	s := need.Get(open.Create(t.Context(), from, open.Options{}))(t)
	defer s.Close()
	r := record.New(s, nil, record.Options{Elsewhere: elsewhere})
	begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
	settle := func(o ledger.Outcome) error {
		_, err := r.Settle(t.Context(), ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: o, Status: -1})
		return err
	}
	need.OK(t, settle(ledger.OutcomeUncertain))
	need.OK(t, copies(t.Context(), t, from, to, func() {}))
	for _, file := range []string{to, to + "-wal", to + "-shm"} {
		need.OK(t, os.RemoveAll(file))
	}
	for _, there := range []string{"nothing", "another ledger"} {
		if there != "nothing" {
			at := need.Get(open.At(to))(t)
			need.OK(t, need.Get(at.Make(t.Context(), open.Options{}, open.Making{Anew: true}))(t).Close())
		}
		err := settle(ledger.OutcomeCommitted)
		need.That(t, errors.Is(err, ledger.ErrMoving) && !errors.Is(err, ledger.ErrNotFound), "where there is %s: %v", there, err)
	}
}
