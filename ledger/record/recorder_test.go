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
)

// oneRule gives every kind the same rule.
func oneRule(rule KindRule) Rules { return RulesFunc(func(string) KindRule { return rule }) }

func recorderOver(t *testing.T, rule KindRule) (*Recorder, *memory, *hands) {
	t.Helper()
	clock := newHands()
	store := newMemory(clock.read)
	return New(store, oneRule(rule), Options{Clock: clock.read, Secret: []byte("0123456789abcdef")}), store, clock
}

func begin(t *testing.T, r *Recorder, w Wish) ledger.BeginResult {
	t.Helper()
	if w.Kind == "" {
		w.Kind = "post"
	}
	res, err := r.Begin(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func settle(t *testing.T, r *Recorder, attempt string, outcome ledger.Outcome) ledger.Applied {
	t.Helper()
	req := ledger.SettleRequest{AttemptID: attempt, Outcome: outcome}
	if outcome == ledger.OutcomeFailed {
		req.Proof = ledger.Refused
	}
	applied, err := r.Settle(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func TestBeginAnswersByState(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{Deadline: time.Minute})
	wish := Wish{Key: "k1", Input: json.RawMessage(`{"a":1}`)}
	first := begin(t, r, wish)
	if first.Answer != ledger.AnswerBegun || first.Operation.Key != "k1" || first.Operation.Token == "" || first.Attempt.N != 1 {
		t.Fatalf("%+v", first)
	}
	if res := begin(t, r, wish); res.Answer != ledger.AnswerInProgress {
		t.Errorf("while in flight: %s", res.Answer)
	}
	if res := begin(t, r, Wish{Key: "k1", Input: json.RawMessage(`{"a":2}`)}); res.Answer != ledger.AnswerKeyReused {
		t.Errorf("another input: %s", res.Answer)
	}
	if res := begin(t, r, Wish{Key: "k1", Input: json.RawMessage(` { "a" : 1.0 }`)}); res.Answer != ledger.AnswerInProgress {
		t.Errorf("the same input, written otherwise: %s", res.Answer)
	}
	clock.move(2 * time.Minute)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerInDoubt || res.Operation.State != ledger.Uncertain {
		t.Errorf("after the deadline: %s, %s", res.Answer, res.Operation.State)
	}
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerFinished {
		t.Errorf("after a late success: %s", res.Answer)
	}
	refused := begin(t, r, Wish{Key: "k2", Input: wish.Input})
	settle(t, r, refused.Attempt.ID, ledger.OutcomeFailed)
	again := begin(t, r, Wish{Key: "k2", Input: wish.Input})
	if again.Answer != ledger.AnswerBegun || again.Attempt.N != 2 || again.Operation.Token != refused.Operation.Token {
		t.Errorf("after a refusal: %s, attempt %d, token %s", again.Answer, again.Attempt.N, again.Operation.Token)
	}
}

// TestI1_WhatCannotBeRecordedIsNotBegun: every trouble on the way to the ledger
// is an error, never a begun.
func TestI1_WhatCannotBeRecordedIsNotBegun(t *testing.T) {
	r, store, _ := recorderOver(t, KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"invoice"}})
	for name, w := range map[string]Wish{
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
	store.broken(errDisk)
	if res, err := r.Begin(t.Context(), Wish{Kind: "post", Key: "k", Input: json.RawMessage(`{}`)}); !errors.Is(err, errDisk) || res.Answer != "" {
		t.Errorf("a broken ledger: %v, %v", res.Answer, err)
	}
	store.broken(nil)
	bad := New(store, oneRule(KindRule{Redact: []string{"card"}}), Options{SecretPath: "/dev/null/none"})
	if _, err := bad.Begin(t.Context(), Wish{Kind: "post", Key: "k", Input: json.RawMessage(`{"card":"4242"}`)}); err == nil {
		t.Error("a secret that cannot be replaced was recorded")
	}
	if len(store.records) != 0 {
		t.Errorf("%d operations are recorded", len(store.records))
	}
}

func TestMadeKeys(t *testing.T) {
	in := func(s string) json.RawMessage { return json.RawMessage(s) }
	cases := []struct {
		name string
		rule KindRule
		a, b Wish
		same bool
	}{
		{"fields equal", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"c.id", "lines[0].n"}},
			Wish{Input: in(`{"c":{"id":7},"lines":[{"n":1}],"x":1}`)}, Wish{Input: in(`{"lines":[{"n":1.0}],"c":{"id":7},"x":1}`)}, true},
		{"fields differ", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"a", "b"}},
			Wish{Input: in(`{"a":"12","b":"3"}`)}, Wish{Input: in(`{"a":"1","b":"23"}`)}, false},
		{"a text is no number", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"a"}}, Wish{Input: in(`{"a":"1"}`)}, Wish{Input: in(`{"a":1}`)}, false},
		{"large ids differ", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"a"}}, Wish{Input: in(`{"a":9007199254740993}`)}, Wish{Input: in(`{"a":9007199254740992}`)}, false},
		{"random", KindRule{KeyStrategy: KeyRandom}, Wish{Input: in(`1`)}, Wish{Input: in(`1`)}, false},
		{"content equal", KindRule{KeyStrategy: KeyContent}, Wish{Input: in(`{"a":1,"b":2}`)}, Wish{Input: in(`{"b":2,"a":1}`)}, true},
		{"content differs", KindRule{KeyStrategy: KeyContent}, Wish{Input: in(`{"a":1}`)}, Wish{Input: in(`{"a":2}`)}, false},
		{"not stated: content", KindRule{}, Wish{Input: in(`{"a":1}`)}, Wish{Input: in(`{"a":1}`)}, true},
		{"session equal", KindRule{KeyStrategy: KeySession}, Wish{Session: "s", Input: in(`1`)}, Wish{Session: "s", Input: in(`1`)}, true},
		{"sessions differ", KindRule{KeyStrategy: KeySession}, Wish{Session: "s", Input: in(`1`)}, Wish{Session: "t", Input: in(`1`)}, false},
		{"row by id", KindRule{KeyStrategy: KeyRow}, Wish{Input: in(`{"id":1}`)}, Wish{Input: in(`{"id":2}`)}, false},
		{"row of another pipeline", KindRule{KeyStrategy: KeyRow}, Wish{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "a"}},
			Wish{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "b"}}, false},
		{"row of another run", KindRule{KeyStrategy: KeyRow}, Wish{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "a", Run: "1"}},
			Wish{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "a", Run: "2"}}, true},
		{"another scope", KindRule{KeyStrategy: KeyContent}, Wish{Scope: "x", Input: in(`1`)}, Wish{Scope: "y", Input: in(`1`)}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, _, _ := recorderOver(t, c.rule)
			a, b := begin(t, r, c.a), begin(t, r, c.b)
			if a.Answer != ledger.AnswerBegun || (a.Operation.ID == b.Operation.ID) != c.same {
				t.Errorf("%s %s / %s %s", a.Answer, a.Operation.Key, b.Answer, b.Operation.Key)
			}
		})
	}
	r, _, _ := recorderOver(t, KindRule{KeyStrategy: KeySession})
	if _, err := r.Begin(t.Context(), Wish{Kind: "post", Input: in(`1`)}); err == nil {
		t.Error("a key per session, without a session")
	}
}

// TestWindowSlides: a made key stands for the same wish until the window after
// its settlement; then a new wish gets a new key, because the downstream may
// still remember the old one.
func TestWindowSlides(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"i"}, Window: time.Hour, TTL: 24 * time.Hour, Deadline: time.Minute})
	wish := Wish{Input: json.RawMessage(`{"i":"INV-1","note":"x"}`)}
	keys := map[string]bool{}
	for n := range 9 {
		res := begin(t, r, wish)
		if res.Answer != ledger.AnswerBegun || keys[res.Operation.Key] {
			t.Fatalf("wish %d: %s under %s", n, res.Answer, res.Operation.Key)
		}
		keys[res.Operation.Key] = true
		settle(t, r, res.Attempt.ID, ledger.OutcomeCommitted)
		clock.move(59 * time.Minute)
		if res := begin(t, r, wish); res.Answer != ledger.AnswerFinished {
			t.Fatalf("wish %d, within the window: %s", n, res.Answer)
		}
		clock.move(2 * time.Minute)
	}
	inFlight := begin(t, r, wish)
	clock.move(72 * time.Hour)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerInDoubt || res.Operation.ID != inFlight.Operation.ID {
		t.Errorf("what is in doubt is passed over after its window: %s", res.Answer)
	}
	other := Wish{Input: json.RawMessage(`{"i":"INV-1","note":"y"}`)}
	if res := begin(t, r, other); res.Answer != ledger.AnswerKeyReused {
		t.Errorf("other input under the same fields: %s", res.Answer)
	}
}

// TestUnstatedStrategyEndsWithACommit: without a key and without a policy the
// same input is one wish until it is committed.
func TestUnstatedStrategyEndsWithACommit(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{Deadline: time.Minute})
	wish := Wish{Input: json.RawMessage(`{"a":1}`)}
	first := begin(t, r, wish)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerInProgress {
		t.Errorf("in flight: %s", res.Answer)
	}
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	second := begin(t, r, wish)
	if second.Answer != ledger.AnswerBegun || second.Operation.ID == first.Operation.ID {
		t.Errorf("after a commit: %s", second.Answer)
	}
	clock.move(time.Hour)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerInDoubt || res.Operation.ID != second.Operation.ID {
		t.Errorf("in doubt: %s", res.Answer)
	}
}

// TestRemembersOutlivesTTL: a key is kept at least as long as the downstream
// remembers it.
func TestRemembersOutlivesTTL(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{TTL: time.Hour, Remembers: 24 * time.Hour})
	wish := Wish{Key: "k", Input: json.RawMessage(`1`)}
	first := begin(t, r, wish)
	if !first.Attempt.KeyWorks {
		t.Error("the downstream remembers keys, and the attempt does not say so")
	}
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	clock.move(23 * time.Hour)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerFinished {
		t.Errorf("while it is remembered: %s", res.Answer)
	}
	clock.move(2 * time.Hour)
	if res := begin(t, r, wish); res.Answer != ledger.AnswerBegun || res.Operation.ID == first.Operation.ID {
		t.Errorf("afterwards: %s", res.Answer)
	}
	if res := begin(t, r, Wish{Key: "k2", Sender: "command", Input: json.RawMessage(`1`)}); res.Attempt.KeyWorks {
		t.Error("a command that does not carry the key cannot have it work")
	}
}

func TestPricedAtBegin(t *testing.T) {
	r, store, _ := recorderOver(t, KindRule{
		Title:  func(o ledger.Operation) string { return "charge " + string(o.Input) },
		Target: func(ledger.Operation) string { return "invoice 1" },
		Price:  func(rec ledger.Record) ledger.Pricing { return ledger.Pricing{Rank: float64(rec.Operation.Version)} },
	})
	res := begin(t, r, Wish{Key: "k", Input: json.RawMessage(`7`)})
	if res.Operation.Title != "charge 7" || res.Operation.Target != "invoice 1" {
		t.Errorf("%q, %q", res.Operation.Title, res.Operation.Target)
	}
	if len(store.prices) != 1 || store.prices[0].OperationID != res.Operation.ID || store.prices[0].Rank != 1 {
		t.Errorf("%+v", store.prices)
	}
}

type readerFunc func(ctx context.Context, id string) (ledger.Operation, error)

func (f readerFunc) ReadNow(ctx context.Context, id string) (ledger.Operation, error) {
	return f(ctx, id)
}

func TestReconcileBeforeAnswering(t *testing.T) {
	r, _, clock := recorderOver(t, KindRule{Deadline: time.Minute})
	wish := Wish{Key: "k", Input: json.RawMessage(`1`), Reconcile: true}
	first := begin(t, r, wish)
	clock.move(time.Hour)
	reads := 0
	r.options.Reader = readerFunc(func(ctx context.Context, id string) (ledger.Operation, error) {
		reads++
		return ledger.Operation{}, errors.New("the downstream is down")
	})
	if res := begin(t, r, wish); res.Answer != ledger.AnswerInDoubt || !strings.Contains(res.Why, "down") || reads != 1 {
		t.Errorf("%s (%s) after %d reads", res.Answer, res.Why, reads)
	}
	r.options.Reader = readerFunc(func(ctx context.Context, id string) (ledger.Operation, error) {
		reads++
		return settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted).After, nil
	})
	if res := begin(t, r, wish); res.Answer != ledger.AnswerFinished || reads != 2 {
		t.Errorf("%s after %d reads", res.Answer, reads)
	}
}

func TestWaitEndsWithSettlementOrDeadline(t *testing.T) {
	store := newMemory(nil)
	r := New(store, nil, Options{})
	first := begin(t, r, Wish{Key: "k", Input: json.RawMessage(`1`)})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			res, err := r.Begin(context.Background(), Wish{Kind: "post", Key: "k", Input: json.RawMessage(`1`), Wait: true})
			if err != nil || res.Answer != ledger.AnswerFinished {
				t.Errorf("waited for %s, %v", res.Answer, err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	wg.Wait()

	short := begin(t, r, Wish{Key: "short", Input: json.RawMessage(`1`), Deadline: 40 * time.Millisecond})
	o, err := r.Wait(t.Context(), ledger.Locator{ID: short.Operation.ID})
	if err != nil || o.StateAt(time.Now()) != ledger.Uncertain {
		t.Errorf("%s, %v", o.State, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	long := begin(t, r, Wish{Key: "long", Input: json.RawMessage(`1`)})
	if _, err := r.Wait(ctx, ledger.Locator{ID: long.Operation.ID}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := r.Wait(t.Context(), ledger.Locator{ID: "none"}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// TestI3_OneOfManyBegins: of many at once exactly one may send.
func TestI3_OneOfManyBegins(t *testing.T) {
	for name, rule := range map[string]KindRule{"given": {}, "made": {KeyStrategy: KeyFields, KeyFrom: []string{"i"}, Window: time.Hour}} {
		r := New(newMemory(nil), oneRule(rule), Options{})
		key := map[string]string{"given": "k"}[name]
		var mu sync.Mutex
		answers := map[ledger.BeginAnswer]int{}
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				res, err := r.Begin(context.Background(), Wish{Kind: "post", Key: key, Input: json.RawMessage(`{"i":1}`)})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				answers[res.Answer]++
			})
		}
		wg.Wait()
		if answers[ledger.AnswerBegun] != 1 || answers[ledger.AnswerInProgress] != 31 {
			t.Errorf("%s key: %v", name, answers)
		}
	}
}
