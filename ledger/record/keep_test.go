package record_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// inABubble runs a test in which what is waited for comes at once, over a ledger that
// keeps the time of the bubble.
func inABubble(t *testing.T, test func(t *testing.T, inner ledger.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, ledgertest.NewMemory(time.Now, hostclock.With(time.Now)))
	})
}

// deafStore takes no changes for a while.
type deafStore struct {
	ledger.Store
	mu   sync.Mutex
	deaf error
}

func (s *deafStore) be(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = err
}

func (s *deafStore) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	s.mu.Lock()
	err := s.deaf
	s.mu.Unlock()
	if err != nil {
		return ledger.Applied{}, err
	}
	return s.Store.Change(ctx, at, id, rule)
}

// What is known of a write is kept until the ledger takes it: a full disk and a
// held lock pass.
func TestI9_AKnownOutcomeIsKeptUntilItIsRecorded(t *testing.T) {
	for name, why := range map[string]error{
		"locked": ledger.ErrBusy, "full": ledger.ErrFull, "gone": ledger.ErrGone, "broken": fmt.Errorf("disk I/O error"), "standby": ledger.ErrReadOnly,
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, inner ledger.Store) {
				s := &deafStore{Store: inner}
				var said []string
				var mu sync.Mutex
				r := record.New(s, nil, record.Options{Log: func(line string) { mu.Lock(); said = append(said, line); mu.Unlock() }})
				begun := make([]ledger.BeginResult, 3)
				for i := range begun {
					begun[i] = need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: fmt.Sprint(i)}))(t)
				}
				s.be(why)
				var wg sync.WaitGroup
				for i, outcome := range []ledger.Outcome{ledger.OutcomeCommitted, ledger.OutcomeCommitted, ledger.OutcomeUncertain} {
					wg.Go(func() {
						began := time.Now()
						_, err := r.SettleSurely(t.Context(), ledger.SettleRequest{AttemptID: begun[i].Attempt.ID, Outcome: outcome, Receipt: "r", Status: 201,
							Result: []byte(`{"id":1}`)})
						if err == nil || time.Since(began) > 9*time.Second {
							t.Errorf("after %s: %v", time.Since(began), err)
						}
					})
				}
				wg.Wait()
				short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				need.Equal(t, r.Drain(short), 3)
				s.be(nil)
				long, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				need.Equal(t, r.Drain(long), 0)
				for i, state := range []ledger.State{ledger.Committed, ledger.Committed, ledger.Uncertain} {
					rec, err := inner.Read(t.Context(), ledger.Locator{ID: begun[i].Operation.ID})
					if err != nil || rec.Operation.State != state || state == ledger.Committed && string(rec.Operation.Result) != `{"id":1}` {
						t.Errorf("%d: %s %s, %v", i, rec.Operation.State, rec.Operation.Result, err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				need.That(t, len(said) != 0, "nothing was said")
			})
		})
	}
}

// brokenStore takes no change of one attempt.
type brokenStore struct {
	ledger.Store
	attempt atomic.Value
}

func (s *brokenStore) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if at.AttemptID != "" && at.AttemptID == s.attempt.Load() {
		return ledger.Applied{}, errors.New("malformed")
	}
	return s.Store.Change(ctx, at, id, rule)
}

// An outcome that the ledger does not take keeps no other from it.
func TestI9_OneOutcomeThatIsNotTakenHoldsUpNoOther(t *testing.T) {
	inABubble(t, func(t *testing.T, inner ledger.Store) {
		s := &deafStore{Store: inner}
		broken := &brokenStore{Store: s}
		r := record.New(broken, nil, record.Options{})
		var begun [2]ledger.BeginResult
		for i := range begun {
			begun[i] = need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: fmt.Sprint(i)}))(t)
		}
		broken.attempt.Store(begun[0].Attempt.ID)
		s.be(ledger.ErrLost)
		for _, b := range begun {
			if _, err := r.SettleSurely(t.Context(), ledger.SettleRequest{AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeCommitted, Status: 201}); err == nil {
				t.Fatal("it was taken")
			}
		}
		s.be(nil)
		time.Sleep(20 * time.Second)
		rec := need.Get(inner.Read(t.Context(), ledger.Locator{ID: begun[1].Operation.ID}))(t)
		need.Equal(t, rec.State(), ledger.Committed, "the other")
		broken.attempt.Store("")
		need.Equal(t, r.Drain(t.Context()), 0)
	})
}

// unsureStore cannot tell whether it has recorded a change: it did, it did not, or it does
// some time later.
type unsureStore struct {
	deafStore
	records bool
	later   []func()
}

func (s *unsureStore) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	applied, err := s.deafStore.Change(ctx, at, id, rule)
	if !errors.Is(err, ledger.ErrUnknown) {
		return applied, err
	}
	apply := func() { _, _ = s.Store.Change(context.WithoutCancel(ctx), at, id, rule) }
	if s.mu.Lock(); s.records {
		apply()
	} else {
		s.later = append(s.later, apply)
	}
	s.mu.Unlock()
	return ledger.Applied{}, err
}

// An intent that is perhaps recorded and was not sent ends as one that was never sent, and
// not in doubt. The same key sends then.
func TestI2_AnIntentThatIsPerhapsRecordedWasNeverSent(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"in time": time.Minute, "after its deadline": 10 * time.Millisecond} {
		for _, how := range []string{"recorded", "recorded later", "not recorded"} {
			t.Run(how+", "+name, func(t *testing.T) {
				inABubble(t, func(t *testing.T, inner ledger.Store) {
					s := &unsureStore{deafStore: deafStore{Store: inner}, records: how == "recorded"}
					r := record.New(s, nil, record.Options{})
					request := record.Request{Kind: "k", Key: "key", Input: []byte(`{}`), Deadline: deadline}
					s.be(ledger.ErrUnknown)
					var unknown *record.UnknownError
					if res, err := r.Begin(t.Context(), request); !errors.As(err, &unknown) || res.Answer == ledger.AnswerBegun {
						t.Fatalf("%v %v", res.Answer, err)
					}
					time.Sleep(20 * time.Millisecond)
					s.be(nil)
					if how == "recorded later" {
						time.Sleep(1500 * time.Millisecond) // it was looked for
						s.later[0]()
					}
					if how != "not recorded" {
						short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						defer cancel()
						need.Equal(t, r.Drain(short), 0)
						rec := need.Get(inner.Read(t.Context(), ledger.Locator{Kind: "k", Key: "key"}))(t)
						if rec.State() != ledger.Failed || rec.Attempts[0].Proof != ledger.NeverSent {
							t.Fatalf("%s %+v", rec.State(), rec.Attempts)
						}
					}
					if res, err := r.Begin(t.Context(), request); err != nil || res.Answer != ledger.AnswerBegun {
						t.Errorf("the same key: %v %v", res.Answer, err)
					}
					need.Equal(t, r.Drain(t.Context()), 0)
				})
			})
		}
	}
}

// What another program sent, or may have, is no less in doubt where its record is: it is
// never recorded as not sent.
func TestI2_WhatWasSentElsewhereIsNeverCalledNotSent(t *testing.T) {
	inner := ledgertest.NewMemory(time.Now, nil)
	s := &unsureStore{deafStore: deafStore{Store: inner}, records: true}
	r := record.New(s, nil, record.Options{})
	past := record.Past{Request: record.Request{ID: ledger.NewID(), Kind: "k", Key: "key", Input: []byte(`{}`)}, SentAt: time.Now().Add(-time.Hour), Outcome: ledger.OutcomeUncertain}
	s.be(ledger.ErrUnknown)
	_, _, err := r.TakeOver(t.Context(), past, false)
	need.That(t, errors.Is(err, ledger.ErrUnknown), "%v", err)
	s.be(nil)
	need.Equal(t, r.Drain(t.Context()), 0, "outcomes that are kept")
	rec := need.Get(inner.Read(t.Context(), ledger.Locator{ID: past.ID}))(t)
	need.Equal(t, rec.State(), ledger.Pending, "after the answer to its begin was lost")
	how, o, err := r.TakeOver(t.Context(), past, false)
	need.OK(t, err)
	need.Equal(t, how, record.TakenNew, "given again")
	need.Equal(t, o.State, ledger.Uncertain, "given again")
}
