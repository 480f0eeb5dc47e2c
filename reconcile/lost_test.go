package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// aged is a ledger whose database is replaced by an older copy.
type aged struct {
	within
	by atomic.Pointer[ledger.Store]
}

func (s *aged) in() ledger.Store {
	if by := s.by.Load(); by != nil {
		return *by
	}
	return s.within
}

func (s *aged) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	return s.in().Change(ctx, at, id, rule)
}

func (s *aged) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	return s.in().Read(ctx, at)
}

// I9: what became of a retry is kept where the ledger has lost the retry meanwhile.
func TestI9_ARetryThatTheLedgerHasLost(t *testing.T) {
	w := newWorldInFile(t, payPolicy)
	o := w.proven("pay")
	to := filepath.Join(t.TempDir(), "copy.db")
	need.Get(need.Get(open.At(w.path))(t).Backup(w.ctx, w.store, to, 0))(t)
	options := open.Options{Clock: w.now, Steady: w.steady}
	need.OK(t, need.Get(open.At(to))(t).Adopt(w.ctx, options))
	older := need.Get(open.Open(w.ctx, to, options))(t)
	t.Cleanup(func() { older.Close() })
	store := &aged{within: within{w.store}}
	w.store = store
	w.engine = w.newEngine(Options{})
	w.side.onPost = func(s *side, rw http.ResponseWriter, _ *http.Request, c charge) {
		store.by.Store(&older)
		s.apply(c)
		rw.WriteHeader(http.StatusCreated)
	}
	res := need.Get(w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof}))(t)
	need.Equal(t, res.Operation.State, ledger.Committed)
	rec := w.get(res.Operation.ID)
	need.That(t, rec.Operation.ID != o.ID && len(rec.Attempts) == 1 && rec.Attempts[0].ID == res.Attempt.ID && rec.Attempts[0].Outcome == ledger.OutcomeCommitted, "%+v", rec.Attempts)
	// Nothing begins under its key beside it.
	again := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
		Kind: o.Kind, Scope: o.Scope, Key: o.Key, Token: ledger.NewToken(), Input: o.Input, Fingerprint: o.Fingerprint, Sender: "pipeline", Deadline: time.Minute, Actor: pipeline}))(t)
	need.That(t, again.Answer == ledger.AnswerRefused && strings.Contains(again.Why, res.Operation.ID[:8]), "%s: %s", again.Answer, again.Why)
}

// I13: an engine checks nothing in a ledger that was adopted before its policy is applied anew, and says why.
func TestI13_AnAdoptedLedgerIsNotCheckedWithoutItsPolicy(t *testing.T) {
	w, said := newWorldInFile(t, payPolicy), ""
	o := w.doubt("pay", 420, 420)
	w.engine.apply(w.ctx)
	to := filepath.Join(t.TempDir(), "copy.db")
	need.Get(need.Get(open.At(w.path))(t).Backup(w.ctx, w.store, to, 0))(t)
	options := open.Options{Clock: w.now, Steady: w.steady}
	need.OK(t, need.Get(open.At(to))(t).Adopt(w.ctx, options))
	w.store = need.Get(open.Open(w.ctx, to, options))(t)
	t.Cleanup(func() { w.store.Close() })
	w.engine = w.newEngine(Options{Log: func(line string) { said += line }})
	w.engine.apply(w.ctx) // which is for a ledger that never had one
	_, err := w.engine.Once(w.ctx, nil)
	need.That(t, errors.Is(err, ledger.ErrRefused) && strings.Contains(said, "only looking: "+ledger.Lapsed), "%v, it says %q", err, said)
	err = w.store.LiftHold(w.ctx, ledger.Lift{Scope: "all", Actor: maya, Reason: "looked"})
	need.That(t, errors.Is(err, ledger.ErrRefused) && strings.Contains(err.Error(), ledger.Lapsed), "released: %v", err)
	w.policy(w.inForce().Text())
	need.OK(t, w.store.LiftHold(w.ctx, ledger.Lift{Scope: "all", Actor: maya, Reason: "looked"}))
	w.engine.lead.checked = time.Time{}
	need.Get(w.engine.Once(w.ctx, nil))(t)
	need.Equal(t, w.get(o.ID).Operation.State, ledger.Committed)
}

// putBack is a world whose ledger was put back, adopted and released, with two operations that it still has.
func putBack(t *testing.T, text string) *world {
	w := newWorldInFile(t, text)
	w.known("pay") // a sibling that it shows; with the next one the ledger ends
	w.known("pay")
	to := filepath.Join(t.TempDir(), "copy.db")
	need.Get(need.Get(open.At(w.path))(t).Backup(w.ctx, w.store, to, 0))(t)
	options := open.Options{Clock: w.now, Steady: w.steady}
	need.OK(t, need.Get(open.At(to))(t).Adopt(w.ctx, options))
	w.store = need.Get(open.Open(w.ctx, to, options))(t)
	t.Cleanup(func() { w.store.Close() })
	w.policy(w.inForce().Text())
	need.OK(t, w.store.LiftHold(w.ctx, ledger.Lift{Scope: "all", Actor: maya, Reason: "looked", LookFirst: new(24 * time.Hour)}))
	w.engine = w.newEngine(Options{})
	return w
}

// lost begins what the ledger does not know; an even one had landed.
func (w *world) lost(n int) ledger.Operation {
	w.Helper()
	req := ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay",
		Key: fmt.Sprint("lost-", n), Input: []byte(`{"amount":420}`), Request: w.recorded("pay", `{"amount":420}`), Sender: "pipeline",
		TokenSent: true, WhenLost: ledger.CheckLooks, Deadline: time.Minute, Actor: pipeline}
	if n%2 == 0 {
		mask := ledger.Mask(need.Get(w.store.DigestKey(w.ctx))(w))
		w.side.apply(charge{Ref: mask.Token("pay", "", req.Key, 0), Amount: 420})
	}
	res := need.Get(ledger.Begin(w.ctx, w.store, req))(w)
	need.Must(w, res.Forgotten, "%+v", res)
	return res.Operation
}

// I13: where a check cannot prove that it is not there, it says that it is not seen, and a person sends it by that.
func TestI13_WhatIsNotSeenIsSentByOneWord(t *testing.T) {
	w := putBack(t, strings.Replace(payPolicy, "      consistent: true\n", "", 1))
	w.pass(65 * time.Second)
	o := w.lost(1)
	early := w.read(o.ID)
	w.pass(10 * time.Minute)
	res := w.read(o.ID)
	need.That(t, res.Read.Verdict == ledger.NotSeen && early.Read.Verdict == ledger.CannotTell, "%s: %s", res.Read.Verdict, res.Read.Reason)
	plan := need.Get(w.engine.Plan(w.ctx, o.ID))(t)
	need.Equal(t, plan.Basis, ledger.BasisNotSeen)
	sent := need.Get(w.retry(RetryRequest{ID: o.ID, Version: res.Operation.Version, Basis: plan.Basis}))(t)
	need.That(t, sent.Did == DidSend && w.side.posted() == 1, "%+v", sent)
}

// I13: what a ledger may have lost is looked for in one list, which is read once none of it can land any more.
func TestI13_OneListAnswersEveryBegin(t *testing.T) {
	w := putBack(t, payPolicy)
	w.pass(65 * time.Second) // what may be lost is over
	early := w.lost(1)
	w.read(early.ID)
	need.Equal(t, w.get(early.ID).Operation.State, ledger.Uncertain, "looked for while it can still land")
	w.pass(10 * time.Minute)
	var lost []ledger.Operation
	for n := range 20 {
		lost = append(lost, w.lost(10+n))
	}
	before := w.side.asked()
	var all sync.WaitGroup
	for _, o := range lost {
		all.Go(func() { w.read(o.ID) })
	}
	all.Wait()
	for i, o := range lost {
		want := ledger.Failed // it is begun
		if i%2 == 0 {
			want = ledger.Committed
		}
		rec := w.get(o.ID)
		need.That(t, rec.Operation.State == want, "%d is %s: %+v", i, rec.Operation.State, rec.Reads)
	}
	late := w.lost(101)
	w.read(late.ID)
	need.Equal(t, w.get(late.ID).Operation.State, ledger.Failed, "the list was read before")
	need.That(t, w.side.asked()-before == 1, "it was asked %d times", w.side.asked()-before)
}

// broken is a connection to the ledger that breaks while a change is asked for.
type broken struct {
	within
	at    string // the change
	while func()
}

func (s *broken) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if id == s.at {
		s.while()
		return ledger.Applied{}, errors.New("connection reset")
	}
	return s.Store.Change(ctx, at, id, rule)
}

// I2, I9: what a driver of a run sends that took over, the one before it does not call
// never sent, because its own permission for the same row got no answer.
func TestI2_AnotherDriversSendIsNotCalledNeverSent(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.proven("pay")
	q := w.shown(w.engine, RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, ChangeID: ledger.NewID(), Actor: maya})
	posted, heard, sent := make(chan bool), make(chan bool), make(chan RetryResult, 1)
	w.side.onPost = func(s *side, rw http.ResponseWriter, _ *http.Request, c charge) {
		s.apply(c)
		close(posted)
		<-heard
		rw.WriteHeader(http.StatusCreated)
	}
	other := w.engine
	w.store = &broken{within: within{w.store}, at: q.ChangeID, while: func() {
		go func() {
			res, err := other.Retry(w.ctx, q)
			need.OK(t, err)
			sent <- res
		}()
		<-posted
	}}
	_, err := w.newEngine(Options{}).Retry(w.ctx, q)
	need.That(t, err != nil, "the ledger did not answer")
	close(heard)
	need.Equal(t, (<-sent).Operation.State, ledger.Committed)
	need.Equal(t, w.get(o.ID).Attempts[1].Final(), ledger.OutcomeCommitted)
}
