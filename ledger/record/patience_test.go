package record

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// hungStore answers nothing while it hangs, whatever its context says. Where it hangs late,
// a change is made first, and only the word of it does not come.
type hungStore struct {
	ledger.Store
	hangs chan struct{} // closed: it does not hang
	late  bool
}

func newHungStore() *hungStore {
	s := &hungStore{Store: ledgertest.NewMemory(time.Now, nil), hangs: make(chan struct{})}
	close(s.hangs)
	return s
}

func (s *hungStore) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if s.late {
		defer func() { <-s.hangs }()
	} else {
		<-s.hangs
	}
	return s.Store.Change(context.WithoutCancel(ctx), at, id, rule)
}

func (s *hungStore) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	<-s.hangs
	return s.Store.Read(context.WithoutCancel(ctx), at)
}

func (s *hungStore) DigestKey(context.Context) ([]byte, error) {
	<-s.hangs
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// hang has the store answer nothing until the returned function is called.
func (s *hungStore) hang(late bool) (over func()) {
	s.hangs, s.late = make(chan struct{}), late
	return func() { close(s.hangs); synctest.Wait() }
}

// inTime makes a call that must end at the deadline, with the error that is wanted.
func inTime(t *testing.T, what string, want error, call func() error) {
	t.Helper()
	began := time.Now()
	err := call()
	need.That(t, errors.Is(err, want), "%s: %v, want %v", what, err, want)
	need.Equal(t, time.Since(began), StoreDeadline, what+" took")
}

func TestI1_AStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHungStore()
		r := New(s, nil, Options{})
		live := need.Get(r.Begin(t.Context(), Request{Kind: "k", Key: "live"}))(t)
		over := s.hang(false)
		inTime(t, "begin", ledger.ErrLost, func() error {
			_, err := r.Begin(t.Context(), Request{Kind: "k", Key: "new"})
			need.That(t, !errors.Is(err, ledger.ErrUnknown), "it was not asked, so nothing is recorded: %v", err)
			return err
		})
		inTime(t, "a begin with a secret", ledger.ErrLost, func() error {
			_, err := r.Begin(t.Context(), Request{Kind: "k", Key: "secret", Input: []byte(`{"a":"b"}`), Secret: []string{"a"}})
			return err
		})
		inTime(t, "settle", ledger.ErrLost, func() error {
			_, err := r.Settle(t.Context(), ledger.SettleRequest{AttemptID: live.Attempt.ID, Outcome: ledger.OutcomeCommitted})
			return err
		})
		inTime(t, "heartbeat", ledger.ErrLost, func() error {
			_, err := ledger.Heartbeat(t.Context(), r.Store(), live.Attempt.ID, time.Minute)
			return err
		})
		inTime(t, "look-up", ledger.ErrLost, func() error {
			_, err := r.Store().Read(t.Context(), ledger.Locator{ID: live.Operation.ID})
			return err
		})
		over()
		for _, key := range []string{"new", "secret"} {
			_, err := s.Read(t.Context(), ledger.Locator{Kind: "k", Key: key})
			need.That(t, errors.Is(err, ledger.ErrNotFound), "%s was told that nothing is recorded: %v", key, err)
		}
		rec := need.Get(s.Read(t.Context(), ledger.Locator{Kind: "k", Key: "live"}))(t)
		need.Equal(t, rec.Operation.State, ledger.Pending, "what was given up is not recorded later")
	})
}

// Where the answer to the change is what does not come, nobody can tell, and nothing is
// sent: what is recorded then is marked as never sent.
func TestI1_AStoreThatHangsAsItCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHungStore()
		r := New(s, nil, Options{})
		need.Get(r.Begin(t.Context(), Request{Kind: "k", Key: "before"}))(t) // it has the ledger's key
		over := s.hang(true)
		inTime(t, "begin", ledger.ErrUnknown, func() error {
			_, err := r.Begin(t.Context(), Request{Kind: "k", Key: "new"})
			return err
		})
		over()
		need.Equal(t, r.Drain(t.Context()), 0, "outcomes that are not recorded")
		rec := need.Get(s.Read(t.Context(), ledger.Locator{Kind: "k", Key: "new"}))(t)
		proof := rec.Attempts[0].Proof
		need.That(t, rec.Operation.State == ledger.Failed && proof == ledger.NeverSent, "%s %s", rec.Operation.State, proof)
	})
}

// The caller has its answer after the deadline, and the outcome is recorded once the store
// answers.
func TestI9_AnOutcomeOutlivesAStoreThatHangs(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newHungStore()
			r := New(s, nil, Options{})
			live := need.Get(r.Begin(t.Context(), Request{Kind: "k", Key: "live"}))(t)
			over := s.hang(late)
			inTime(t, "settle", ledger.ErrLost, func() error {
				_, err := r.SettleSurely(t.Context(), ledger.SettleRequest{AttemptID: live.Attempt.ID, Outcome: ledger.OutcomeCommitted})
				return err
			})
			over()
			need.Equal(t, r.Drain(t.Context()), 0, "outcomes that are not recorded")
			rec := need.Get(s.Read(t.Context(), ledger.Locator{Kind: "k", Key: "live"}))(t)
			need.That(t, rec.Operation.State == ledger.Committed && len(rec.Attempts) == 1, "%s", rec.Operation.State)
		})
	}
}
