package record

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

var errDisk = errors.New("disk I/O error")

// oneRule gives every kind the same rule.
func oneRule(rule KindRule) Rules { return Rules(func(string) KindRule { return rule }) }

func recorderOver(t *testing.T, rule KindRule) (*Recorder, *ledgertest.Breakable, *ledgertest.Clock) {
	t.Helper()
	clock := ledgertest.NewClock()
	store := ledgertest.NewBreakable(clock)
	return New(store, oneRule(rule), Options{Clock: clock.Now}), store, clock
}

func begin(t *testing.T, r *Recorder, w Request) ledger.BeginResult {
	t.Helper()
	if w.Kind == "" {
		w.Kind = "post"
	}
	res := need.Get(r.Begin(t.Context(), w))(t)
	return res
}

func settle(t *testing.T, r *Recorder, attempt string, outcome ledger.Outcome) ledger.Applied {
	t.Helper()
	req := ledger.SettleRequest{AttemptID: attempt, Outcome: outcome}
	if outcome == ledger.OutcomeFailed {
		req.Proof = ledger.Refused
	}
	applied := need.Get(r.Settle(t.Context(), req))(t)
	return applied
}

func TestBeginAnswersByState(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{Deadline: time.Minute})
	request := Request{Key: "k1", Input: json.RawMessage(`{"a":1}`)}
	first := begin(t, r, request)
	if first.Answer != ledger.AnswerBegun || first.Operation.Key != "k1" || first.Operation.Token == "" || first.Attempt.N != 1 {
		t.Fatalf("%+v", first)
	}
	need.Equal(t, begin(t, r, request).Answer, ledger.AnswerInProgress, "while in flight")
	need.Equal(t, begin(t, r, Request{Key: "k1", Input: json.RawMessage(`{"a":2}`)}).Answer, ledger.AnswerKeyReused, "another input")
	need.Equal(t, begin(t, r, Request{Key: "k1", Input: json.RawMessage(` { "a" : 1.0 }`)}).Answer, ledger.AnswerInProgress, "the same input, written otherwise")
	clock.Advance(2 * time.Minute)
	if res := begin(t, r, request); res.Answer != ledger.AnswerInDoubt || res.Operation.State != ledger.Uncertain {
		t.Errorf("after the deadline: %s, %s", res.Answer, res.Operation.State)
	}
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	if res := begin(t, r, request); res.Answer != ledger.AnswerFinished {
		t.Errorf("after a late success: %s", res.Answer)
	}
	other := json.RawMessage(`{"a":3}`)
	refused := begin(t, r, Request{Key: "k2", Input: other})
	settle(t, r, refused.Attempt.ID, ledger.OutcomeFailed)
	again := begin(t, r, Request{Key: "k2", Input: other})
	if again.Answer != ledger.AnswerBegun || again.Attempt.N != 2 || again.Operation.Token != refused.Operation.Token {
		t.Errorf("after a refusal: %s, attempt %d, token %s", again.Answer, again.Attempt.N, again.Operation.Token)
	}
}

// TestI1_WhatCannotBeRecordedIsNotBegun: every trouble on the way to the ledger
// is an error, never a begun.
func TestI1_WhatCannotBeRecordedIsNotBegun(t *testing.T) {
	r, store, _ := recorderOver(t, KindRule{KeyFrom: []string{"invoice"}})
	for name, w := range map[string]Request{
		"no kind":          {Key: "k", Input: json.RawMessage(`{}`)},
		"not JSON":         {Kind: "post", Key: "k", Input: json.RawMessage(`{`)},
		"two values":       {Kind: "post", Key: "k", Input: json.RawMessage(`{} {}`)},
		"a member twice":   {Kind: "post", Key: "k", Input: json.RawMessage(`{"a":1,"a":2}`)},
		"no key field":     {Kind: "post", Input: json.RawMessage(`{"other":1}`)},
		"null key field":   {Kind: "post", Input: json.RawMessage(`{"invoice":null}`)},
		"no input":         {Kind: "post"},
		"absurd deadline":  {Kind: "post", Key: "k", Deadline: time.Nanosecond},
		"eternal deadline": {Kind: "post", Key: "k", Deadline: 100 * 24 * time.Hour},
	} {
		if res, err := r.Begin(t.Context(), w); err == nil {
			t.Errorf("%s: %s", name, res.Answer)
		}
	}
	store.Break(errDisk)
	if res, err := r.Begin(t.Context(), Request{Kind: "post", Key: "k", Input: json.RawMessage(`{}`)}); !errors.Is(err, errDisk) || res.Answer != "" {
		t.Errorf("a broken ledger: %v, %v", res.Answer, err)
	}
	store.Break(nil)
	bad := New(keyless{store}, oneRule(KindRule{Redact: []string{"card"}}), Options{})
	if _, err := bad.Begin(t.Context(), Request{Kind: "post", Key: "k", Input: json.RawMessage(`{"card":"4242"}`)}); !errors.Is(err, errDisk) {
		t.Errorf("a secret that cannot be replaced: %v", err)
	}
	need.Equal(t, len(store.Changed()), 0, "operations are recorded")
}

func TestPricedAtBegin(t *testing.T) {
	var priced []ledger.Record
	r, store, _ := recorderOver(t, KindRule{
		Title:  func(o ledger.Operation) string { return "charge " + string(o.Input) },
		Target: func(ledger.Operation) string { return "invoice 1" },
		Price: func(rec ledger.Record) ledger.Pricing {
			priced = append(priced, rec)
			return ledger.Pricing{Rank: float64(rec.Operation.Version), Digest: "d"}
		},
	})
	res := begin(t, r, Request{Key: "k", Input: json.RawMessage(`7`)})
	need.That(t, res.Operation.Title == "charge 7" && res.Operation.Target == "invoice 1", "%q, %q", res.Operation.Title, res.Operation.Target)
	need.That(t, len(priced) == 1 && priced[0].Operation.ID == res.Operation.ID && priced[0].Operation.Version == 1, "%+v", priced)
	if left, err := store.Unpriced(t.Context(), "d", 10); err != nil || len(left) != 0 {
		t.Errorf("its price is not stored: %v, %v", left, err)
	}
}

type readerFunc func(ctx context.Context, id string) (ledger.Operation, error)

func (f readerFunc) ReadNow(ctx context.Context, id string) (ledger.Operation, error) {
	return f(ctx, id)
}

func TestReconcileBeforeAnswering(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{Deadline: time.Minute})
	request := Request{Key: "k", Input: json.RawMessage(`1`), Reconcile: true}
	first := begin(t, r, request)
	clock.Advance(time.Hour)
	reads := 0
	r.options.Reader = readerFunc(func(ctx context.Context, id string) (ledger.Operation, error) {
		reads++
		return ledger.Operation{}, errors.New("the downstream is down")
	})
	if res := begin(t, r, request); res.Answer != ledger.AnswerInDoubt || !strings.Contains(res.Why, "down") || reads != 1 {
		t.Errorf("%s (%s) after %d reads", res.Answer, res.Why, reads)
	}
	r.options.Reader = readerFunc(func(ctx context.Context, id string) (ledger.Operation, error) {
		return ledger.Operation{}, &ledger.RefusedError{Verb: "check", Why: "the policy knows no check for post"}
	})
	if res := begin(t, r, request); res.Why != "it cannot be checked: the policy knows no check for post" {
		t.Errorf("told %q", res.Why)
	}
	r.options.Reader = readerFunc(func(ctx context.Context, id string) (ledger.Operation, error) {
		reads++
		return settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted).After, nil
	})
	if res := begin(t, r, request); res.Answer != ledger.AnswerFinished || reads != 2 {
		t.Errorf("%s after %d reads", res.Answer, reads)
	}
}

func TestWaitEndsWithSettlementOrDeadline(t *testing.T) {
	store := ledgertest.NewBreakable(nil)
	r := New(store, nil, Options{})
	first := begin(t, r, Request{Key: "k", Input: json.RawMessage(`1`)})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			res, err := r.Begin(context.Background(), Request{Kind: "post", Key: "k", Input: json.RawMessage(`1`), Wait: true})
			need.That(t, err == nil && res.Answer == ledger.AnswerFinished, "waited for %s, %v", res.Answer, err)
		})
	}
	time.Sleep(20 * time.Millisecond)
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	wg.Wait()

	short := begin(t, r, Request{Key: "short", Input: json.RawMessage(`1`), Deadline: 40 * time.Millisecond})
	o, err := r.Wait(t.Context(), ledger.Locator{ID: short.Operation.ID})
	need.That(t, err == nil && o.StateAt(time.Now()) == ledger.Uncertain, "%s, %v", o.State, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	long := begin(t, r, Request{Key: "long", Input: json.RawMessage(`1`)})
	if _, err := r.Wait(ctx, ledger.Locator{ID: long.Operation.ID}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := r.Wait(t.Context(), ledger.Locator{ID: "none"}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// TestI3_OneOfManyBegins: of many at once exactly one may send.
func TestI3_OneOfManyBegins(t *testing.T) {
	for name, rule := range map[string]KindRule{"given": {}, "made": {KeyFrom: []string{"i"}}} {
		r := New(ledgertest.NewBreakable(nil), oneRule(rule), Options{})
		key := map[string]string{"given": "k"}[name]
		var mu sync.Mutex
		answers := map[ledger.BeginAnswer]int{}
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				res, err := r.Begin(context.Background(), Request{Kind: "post", Key: key, Input: json.RawMessage(`{"i":1}`)})
				need.That(t, err == nil, "%v", err)
				mu.Lock()
				defer mu.Unlock()
				answers[res.Answer]++
			})
		}
		wg.Wait()
		need.That(t, answers[ledger.AnswerBegun] == 1 && answers[ledger.AnswerInProgress] == 31, "%s key: %v", name, answers)
	}
}

// keyless is a ledger whose key cannot be read.
type keyless struct{ ledger.Store }

func (keyless) DigestKey(context.Context) ([]byte, error) { return nil, errDisk }
