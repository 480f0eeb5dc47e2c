package record

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/archive"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// newLedger is where these tests record. In the soak lane it is a file.
var newLedger = func(_ testing.TB, now ledger.Clock, steady ledger.SteadyClock) ledger.Store {
	return ledgertest.NewMemory(now, steady)
}

// ledgerOver is a recorder over a ledger with a clock that moves when it is told to.
func ledgerOver(t *testing.T, rule KindRule) (*Recorder, ledger.Store, *ledgertest.Clock) {
	t.Helper()
	clock := ledgertest.NewClock()
	store := newLedger(t, clock.Now, hostclock.With(clock.Now))
	return New(store, oneRule(rule), Options{Clock: clock.Now, Secret: []byte("0123456789abcdef")}), store, clock
}

func TestMadeKeys(t *testing.T) {
	in := func(s string) json.RawMessage { return json.RawMessage(s) }
	cases := []struct {
		name string
		rule KindRule
		a, b Request
		same bool
	}{
		{"fields equal", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"c.id", "lines[0].n"}},
			Request{Input: in(`{"c":{"id":7},"lines":[{"n":1}],"x":1}`)}, Request{Input: in(`{"lines":[{"n":1.0}],"c":{"id":7},"x":1}`)}, true},
		{"fields differ", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"a", "b"}},
			Request{Input: in(`{"a":"12","b":"3"}`)}, Request{Input: in(`{"a":"1","b":"23"}`)}, false},
		{"a text is no number", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"a"}}, Request{Input: in(`{"a":"1"}`)}, Request{Input: in(`{"a":1}`)}, false},
		{"large ids differ", KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"a"}}, Request{Input: in(`{"a":9007199254740993}`)}, Request{Input: in(`{"a":9007199254740992}`)}, false},
		{"random", KindRule{KeyStrategy: KeyRandom}, Request{Input: in(`1`)}, Request{Input: in(`1`)}, false},
		{"content equal", KindRule{KeyStrategy: KeyContent}, Request{Input: in(`{"a":1,"b":2}`)}, Request{Input: in(`{"b":2,"a":1}`)}, true},
		{"content differs", KindRule{KeyStrategy: KeyContent}, Request{Input: in(`{"a":1}`)}, Request{Input: in(`{"a":2}`)}, false},
		{"not stated: content", KindRule{}, Request{Input: in(`{"a":1}`)}, Request{Input: in(`{"a":1}`)}, true},
		{"session equal", KindRule{KeyStrategy: KeySession}, Request{Session: "s", Input: in(`1`)}, Request{Session: "s", Input: in(`1`)}, true},
		{"sessions differ", KindRule{KeyStrategy: KeySession}, Request{Session: "s", Input: in(`1`)}, Request{Session: "t", Input: in(`1`)}, false},
		{"row by id", KindRule{KeyStrategy: KeyRow}, Request{Input: in(`{"id":1}`)}, Request{Input: in(`{"id":2}`)}, false},
		{"row of another pipeline", KindRule{KeyStrategy: KeyRow}, Request{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "a"}},
			Request{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "b"}}, false},
		{"row of another run", KindRule{KeyStrategy: KeyRow}, Request{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "a", Run: "1"}},
			Request{Input: in(`{"id":1}`), Source: ledger.Source{Pipeline: "a", Run: "2"}}, true},
		{"another scope", KindRule{KeyStrategy: KeyContent}, Request{Scope: "x", Input: in(`1`)}, Request{Scope: "y", Input: in(`1`)}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, _, _ := ledgerOver(t, c.rule)
			a, b := begin(t, r, c.a), begin(t, r, c.b)
			need.That(t, a.Answer == ledger.AnswerBegun && (a.Operation.ID == b.Operation.ID) == c.same, "%s %s / %s %s", a.Answer, a.Operation.Key, b.Answer, b.Operation.Key)
		})
	}
	r, _, _ := ledgerOver(t, KindRule{KeyStrategy: KeySession})
	if _, err := r.Begin(t.Context(), Request{Kind: "post", Input: in(`1`)}); err == nil {
		t.Error("a key per session, without a session")
	}
}

// TestWindowSlides: a made key stands for the same request until the window after
// its settlement; then a new request gets a new key, because the downstream may
// still remember the old one.
func TestWindowSlides(t *testing.T) {
	r, _, clock := ledgerOver(t, KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"i"}, Window: time.Hour, TTL: 24 * time.Hour, Deadline: time.Minute})
	request := Request{Input: json.RawMessage(`{"i":"INV-1","note":"x"}`)}
	keys := map[string]bool{}
	for n := range 9 {
		res := begin(t, r, request)
		need.Must(t, res.Answer == ledger.AnswerBegun && !keys[res.Operation.Key],
			"request %d: %s under %s", n, res.Answer, res.Operation.Key)
		keys[res.Operation.Key] = true
		settle(t, r, res.Attempt.ID, ledger.OutcomeCommitted)
		clock.Advance(59 * time.Minute)
		if res := begin(t, r, request); res.Answer != ledger.AnswerFinished {
			t.Fatalf("request %d, within the window: %s", n, res.Answer)
		}
		clock.Advance(2 * time.Minute)
	}
	inFlight := begin(t, r, request)
	clock.Advance(72 * time.Hour)
	if res := begin(t, r, request); res.Answer != ledger.AnswerInDoubt || res.Operation.ID != inFlight.Operation.ID {
		t.Errorf("what is in doubt is passed over after its window: %s", res.Answer)
	}
	other := Request{Input: json.RawMessage(`{"i":"INV-1","note":"y"}`)}
	need.Equal(t, begin(t, r, other).Answer, ledger.AnswerKeyReused, "other input under the same fields")
}

// TestRollback: what sets a state runs again once another one on its target may have
// taken its place, under a key that it is given and under one that is made.
func TestRollback(t *testing.T) {
	rule := KindRule{KeyStrategy: KeyFields, KeyFrom: []string{"image"}, Window: time.Hour, Deadline: time.Minute, Supersedes: true, Idempotent: true,
		Target: func(ledger.Operation) string { return "web" }}
	for name, request := range map[string]func(image string) Request{
		"made key": func(image string) Request { return Request{Input: json.RawMessage(`{"image":"` + image + `"}`)} },
		"own key": func(image string) Request {
			return Request{Key: image, Input: json.RawMessage(`{"image":"` + image + `"}`)}
		},
	} {
		r, _, clock := ledgerOver(t, rule)
		deploy := func(image, sender string, want ledger.BeginAnswer) {
			t.Helper()
			clock.Advance(time.Second)
			w := request(image)
			w.Sender = sender
			res := begin(t, r, w)
			need.Must(t, res.Answer == want, "%s: %s by %s: %s, want %s", name, image, sender, res.Answer, want)
			if want == ledger.AnswerBegun {
				settle(t, r, res.Attempt.ID, ledger.OutcomeCommitted)
			}
		}
		deploy("4.17", "command", ledger.AnswerBegun)
		deploy("4.17", "command", ledger.AnswerFinished)
		deploy("4.18", "command", ledger.AnswerBegun)
		deploy("4.17", "http", ledger.AnswerFinished) // it may have lost its answer
		for range 3 {
			deploy("4.17", "command", ledger.AnswerBegun)
			deploy("4.17", "command", ledger.AnswerFinished)
			deploy("4.18", "command", ledger.AnswerBegun)
		}
	}
}

// TestUnstatedStrategyEndsWithACommit: without a key and without a policy the
// same input is one request until it is committed.
func TestUnstatedStrategyEndsWithACommit(t *testing.T) {
	r, _, clock := ledgerOver(t, KindRule{Deadline: time.Minute})
	request := Request{Input: json.RawMessage(`{"a":1}`)}
	first := begin(t, r, request)
	if res := begin(t, r, request); res.Answer != ledger.AnswerInProgress {
		t.Errorf("in flight: %s", res.Answer)
	}
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	second := begin(t, r, request)
	need.That(t, second.Answer == ledger.AnswerBegun && second.Operation.ID != first.Operation.ID, "after a commit: %s", second.Answer)
	clock.Advance(time.Hour)
	if res := begin(t, r, request); res.Answer != ledger.AnswerInDoubt || res.Operation.ID != second.Operation.ID {
		t.Errorf("in doubt: %s", res.Answer)
	}
}

// TestRemembersOutlivesTTL: a key is kept at least as long as the downstream
// remembers it.
func TestRemembersOutlivesTTL(t *testing.T) {
	r, _, clock := ledgerOver(t, KindRule{TTL: time.Hour, Remembers: 24 * time.Hour})
	request := Request{Key: "k", Input: json.RawMessage(`1`)}
	first := begin(t, r, request)
	need.That(t, first.Attempt.KeyWorks, "the downstream remembers keys, and the attempt does not say so")
	settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
	clock.Advance(23 * time.Hour)
	need.Equal(t, begin(t, r, request).Answer, ledger.AnswerFinished, "while it is remembered")
	clock.Advance(2 * time.Hour)
	if res := begin(t, r, request); res.Answer != ledger.AnswerBegun || res.Operation.ID == first.Operation.ID {
		t.Errorf("afterwards: %s", res.Answer)
	}
	if res := begin(t, r, Request{Key: "k2", Sender: "command", Input: json.RawMessage(`1`)}); res.Attempt.KeyWorks {
		t.Error("a command that does not carry the key cannot have it work")
	}
}

// TestGenerationsAreFoundWithoutMemory: a recorder that has seen nothing finds the
// same key as one that has been there all along.
func TestGenerationsAreFoundWithoutMemory(t *testing.T) {
	r, store, clock := ledgerOver(t, KindRule{})
	request := Request{Input: json.RawMessage(`{"a":1}`)}
	for n := 1; n <= 12; n++ {
		res := begin(t, r, request)
		stranger := New(store, nil, Options{Clock: clock.Now})
		if met := begin(t, stranger, request); met.Answer != ledger.AnswerInProgress || met.Operation.ID != res.Operation.ID {
			t.Fatalf("request %d: %s under %s, not %s", n, met.Answer, met.Operation.Key, res.Operation.Key)
		}
		settle(t, r, res.Attempt.ID, ledger.OutcomeCommitted)
		if n%3 == 0 { // what others do while this one is not looking
			for range n {
				settle(t, r, begin(t, stranger, request).Attempt.ID, ledger.OutcomeCommitted)
			}
		}
	}
}

// I4: what was archived under a made key stays known when its time is over: without it, a
// recorder that begins to count anew sends beside a later request under the same key.
func TestI4_AMadeKeyIsNotForgotten(t *testing.T) {
	for _, strategy := range []string{KeyContent, KeyFields, KeySession, KeyRow} {
		rule := KindRule{KeyStrategy: strategy, KeyFrom: []string{"a"}, TTL: time.Hour, Window: time.Hour, Deadline: time.Minute}
		r, store, clock := ledgerOver(t, rule)
		request := Request{Session: "s", Input: json.RawMessage(`{"a":1}`)}
		shelve := func() (n int) {
			for range 2 { // the newest of all stays
				settle(t, r, begin(t, r, Request{Kind: "other", Key: ledger.NewID()}).Attempt.ID, ledger.OutcomeCommitted)
				clock.Advance(time.Second)
			}
			return need.Get(archive.Run(t.Context(), store, archive.Options{Dir: t.TempDir(), Before: clock.Now(), Actor: ledger.Actor{Name: "ana"}}))(t).Removed
		}
		settle(t, r, begin(t, r, request).Attempt.ID, ledger.OutcomeCommitted)
		need.That(t, shelve() > 0, "nothing is archived")
		clock.Advance(2 * time.Hour)
		second := begin(t, r, request)
		need.Equal(t, second.Answer, ledger.AnswerBegun, strategy)
		settle(t, r, second.Attempt.ID, ledger.OutcomeUncertain)
		need.That(t, shelve() > 0, "nothing is archived")
		res := begin(t, New(store, oneRule(rule), Options{Clock: clock.Now, Secret: []byte("0123456789abcdef")}), request)
		need.That(t, res.Answer == ledger.AnswerInDoubt && res.Operation.ID == second.Operation.ID, "%s: beside one in doubt it is %s", strategy, res.Answer)
	}
}

// looked is a ledger that notes what parts of a record each change reads.
type looked struct {
	ledger.Store
	at []ledger.Parts
}

func (l *looked) Change(ctx context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	l.at = append(l.at, ledger.AllParts&^at.Skip)
	return l.Store.Change(ctx, at, changeID, rule)
}

// TestOneThatIsNoNewKeyIsNotReadForIt: the first begin under a made key only asks
// whether the key is new, and one that stands for the request is read with all that its
// rule looks at.
func TestOneThatIsNoNewKeyIsNotReadForIt(t *testing.T) {
	r, store, clock := ledgerOver(t, KindRule{})
	l := &looked{Store: store}
	request := Request{Input: json.RawMessage(`{"a":1}`)}
	settle(t, r, begin(t, r, request).Attempt.ID, ledger.OutcomeCommitted)
	res := begin(t, New(l, oneRule(KindRule{}), Options{Clock: clock.Now}), request)
	need.Equal(t, res.Answer, ledger.AnswerBegun, "after a commit")
	need.That(t, slices.Equal(l.at, []ledger.Parts{0, ledger.PartHolds | ledger.PartRelated}), "the changes read %v", l.at)
}

// TestATTLGivesTheKeyBack: a finished operation keeps its key for its TTL; then
// the same key begins a new operation, also with another input.
func TestATTLGivesTheKeyBack(t *testing.T) {
	for _, outcome := range []ledger.Outcome{ledger.OutcomeCommitted, ledger.OutcomeFailed} {
		r, store, clock := ledgerOver(t, KindRule{TTL: time.Hour, Deadline: time.Minute})
		first := begin(t, r, Request{Key: "k", Input: json.RawMessage(`1`)})
		settle(t, r, first.Attempt.ID, outcome)
		clock.Advance(time.Hour)
		if res := begin(t, r, Request{Key: "k", Input: json.RawMessage(`2`)}); res.Answer != ledger.AnswerKeyReused {
			t.Errorf("%s, at its end: %s", outcome, res.Answer)
		}
		clock.Advance(time.Second)
		second := begin(t, r, Request{Key: "k", Input: json.RawMessage(`2`)})
		if second.Answer != ledger.AnswerBegun || second.Operation.ID == first.Operation.ID || second.Attempt.N != 1 || second.Operation.Token == first.Operation.Token {
			t.Fatalf("%s, after its end: %s %+v", outcome, second.Answer, second.Operation)
		}
		old := recorded(t, store, first.Operation.ID).Operation
		need.That(t, !old.KeyLive && old.Key == "k" && string(old.Input) == "1" && old.State != ledger.Pending, "the old one: %+v", old)
		if rec, err := store.Read(t.Context(), ledger.Locator{Kind: "post", Key: "k"}); err != nil || rec.Operation.ID != second.Operation.ID {
			t.Errorf("the key leads to %s, %v", rec.Operation.ID, err)
		}
		// A late answer of the old attempt is still its own (I9).
		settle(t, r, first.Attempt.ID, ledger.OutcomeCommitted)
		if o := recorded(t, store, second.Operation.ID).Operation; o.State != ledger.Pending {
			t.Errorf("the new one is %s after the old one's answer", o.State)
		}
	}
}

// TestNothingOpenExpires: pending, in doubt, granted, abandoned or in conflict, an
// operation keeps its key.
func TestNothingOpenExpires(t *testing.T) {
	person := ledger.Actor{Name: "ana", Terminal: true}
	decide := func(t *testing.T, store ledger.Store, id string, verb ledger.Verb) {
		t.Helper()
		d := ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: recorded(t, store, id).Operation.Version, Verb: verb, Reason: "looked", Actor: person}
		need.Get(ledger.Decide(t.Context(), store, d))(t)
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, r *Recorder, store ledger.Store, clock *ledgertest.Clock, res ledger.BeginResult)
		want ledger.BeginAnswer
	}{
		{"pending", func(*testing.T, *Recorder, ledger.Store, *ledgertest.Clock, ledger.BeginResult) {}, ledger.AnswerInProgress},
		{"uncertain", func(t *testing.T, r *Recorder, _ ledger.Store, _ *ledgertest.Clock, res ledger.BeginResult) {
			settle(t, r, res.Attempt.ID, ledger.OutcomeUncertain)
		}, ledger.AnswerInDoubt},
		{"granted", func(t *testing.T, r *Recorder, store ledger.Store, clock *ledgertest.Clock, res ledger.BeginResult) {
			settle(t, r, res.Attempt.ID, ledger.OutcomeUncertain)
			o := recorded(t, store, res.Operation.ID).Operation
			need.Get(ledger.Allow(t.Context(), store, ledger.GrantRequest{ChangeID: ledger.NewID(), GrantID: ledger.NewID(), OperationID: o.ID, Version: o.Version,
				Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: person, Reason: "rather twice", ExpiresAt: clock.Now().Add(100 * time.Hour), MaxAttempts: 3}))(t)
		}, ledger.AnswerBegun},
		{"abandoned", func(t *testing.T, r *Recorder, store ledger.Store, _ *ledgertest.Clock, res ledger.BeginResult) {
			settle(t, r, res.Attempt.ID, ledger.OutcomeUncertain)
			decide(t, store, res.Operation.ID, ledger.VerbAbandon)
		}, ledger.AnswerRefused},
		{"in conflict", func(t *testing.T, r *Recorder, store ledger.Store, _ *ledgertest.Clock, res ledger.BeginResult) {
			settle(t, r, res.Attempt.ID, ledger.OutcomeUncertain)
			decide(t, store, res.Operation.ID, ledger.VerbDeny)
			settle(t, r, res.Attempt.ID, ledger.OutcomeCommitted)
			if o := recorded(t, store, res.Operation.ID).Operation; o.Conflict == ledger.NoConflict {
				t.Fatalf("%s without a conflict", o.State)
			}
		}, ledger.AnswerRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, key := range []string{"k", ""} { // a given one, and one made with a window
				r, store, clock := ledgerOver(t, KindRule{TTL: time.Hour, Window: time.Minute, KeyStrategy: KeyContent, Deadline: 60 * time.Hour})
				first := begin(t, r, Request{Key: key, Input: json.RawMessage(`1`)})
				c.make(t, r, store, clock, first)
				clock.Advance(50 * time.Hour)
				res := begin(t, r, Request{Key: key, Input: json.RawMessage(`1`)})
				if key == "" && c.name == "abandoned" { // it decides about one request, and a later one is another
					c.want = ledger.AnswerBegun
					need.That(t, res.Operation.ID != first.Operation.ID, "abandoned, and sent")
				} else if res.Operation.ID != first.Operation.ID {
					t.Errorf("key %q: it became %s under %s", key, res.Operation.ID, res.Operation.Key)
				}
				need.Equal(t, res.Answer, c.want, key, "key")
			}
		})
	}
}
