package record

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
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
	return New(store, oneRule(rule), Options{Clock: clock.Now}), store, clock
}

func TestMadeKeys(t *testing.T) {
	in := func(s string) json.RawMessage { return json.RawMessage(s) }
	cases := []struct {
		name string
		rule KindRule
		a, b Request
		same bool
	}{
		{"fields equal", KindRule{KeyFrom: []string{"c.id", "lines[0].n"}},
			Request{Input: in(`{"c":{"id":7},"lines":[{"n":1}],"x":1}`)}, Request{Input: in(`{"lines":[{"n":1.0}],"c":{"id":7},"x":1}`)}, true},
		{"fields differ", KindRule{KeyFrom: []string{"a", "b"}},
			Request{Input: in(`{"a":"12","b":"3"}`)}, Request{Input: in(`{"a":"1","b":"23"}`)}, false},
		{"a text is no number", KindRule{KeyFrom: []string{"a"}}, Request{Input: in(`{"a":"1"}`)}, Request{Input: in(`{"a":1}`)}, false},
		{"large ids differ", KindRule{KeyFrom: []string{"a"}}, Request{Input: in(`{"a":9007199254740993}`)}, Request{Input: in(`{"a":9007199254740992}`)}, false},
		{"fields, whatever the caller's key", KindRule{KeyFrom: []string{"a"}}, Request{Key: "k1", Input: in(`{"a":1,"nonce":1}`)}, Request{Key: "k2", Input: in(`{"a":1,"nonce":2}`)}, true},
		{"fields, the kind renamed", KindRule{KeyFrom: []string{"a"}, Match: "POST /c"}, Request{Kind: "charge", Place: "POST h /c", Input: in(`{"a":1,"nonce":1}`)},
			Request{Kind: "billing.charge", Place: "POST h /c", Input: in(`{"a":1,"nonce":2}`)}, true},
		{"fields of two kinds", KindRule{KeyFrom: []string{"a"}}, Request{Kind: "charge", Place: "POST h /c", Input: in(`{"a":1,"nonce":1}`)},
			Request{Kind: "refund", Place: "POST h /c", Input: in(`{"a":1,"nonce":2}`)}, false},
		{"identical ones are normal", KindRule{Repeat: RepeatAllow}, Request{Input: in(`1`)}, Request{Input: in(`1`)}, false},
		{"input equal", KindRule{}, Request{Input: in(`{"a":1,"b":2}`)}, Request{Input: in(`{"b":2,"a":1}`)}, true},
		{"input differs", KindRule{}, Request{Input: in(`{"a":1}`)}, Request{Input: in(`{"a":2}`)}, false},
		{"what was asked differs", KindRule{}, Request{Asked: "POST /a", Input: in(`1`)}, Request{Asked: "POST /b", Input: in(`1`)}, false},
		{"what was asked is the same", KindRule{}, Request{Asked: "POST /a", Input: in(`1`)}, Request{Asked: "POST /a", Input: in(`{"as":"kept"}`)}, true},
		{"another scope, held by the gate", KindRule{}, Request{Scope: "x", Input: in(`1`)}, Request{Scope: "y", Input: in(`1`)}, true},
		{"two keys of begins", KindRule{}, Request{Key: "evt_1", Input: in(`1`)}, Request{Key: "evt_2", Input: in(`1`)}, false},
		{"two keys for one request", KindRule{}, Request{Key: "k1", Asked: "POST /a", Input: in(`1`)}, Request{Key: "k2", Asked: "POST /a", Input: in(`1`)}, true},
		{"no input, two keys", KindRule{}, Request{Key: "k1"}, Request{Key: "k2"}, false},
		{"one key of two kinds", KindRule{}, Request{Kind: "deploy", Key: "evt_2", Input: in(`1`)}, Request{Kind: "notify", Key: "evt_2", Input: in(`1`)}, false},
		{"one key of two kinds, no input", KindRule{}, Request{Kind: "deploy", Key: "evt_2"}, Request{Kind: "notify", Key: "evt_2"}, false},
		{"one key of two kinds that are made of fields", KindRule{KeyFrom: []string{"a"}}, Request{Kind: "deploy", Input: in(`{"a":1}`)}, Request{Kind: "notify", Input: in(`{"a":1}`)}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, _, _ := ledgerOver(t, c.rule)
			a, b := begin(t, r, c.a), begin(t, r, c.b)
			need.That(t, a.Answer == ledger.AnswerBegun && (a.Operation.ID == b.Operation.ID) == c.same, "%s %s / %s %s", a.Answer, a.Operation.Key, b.Answer, b.Operation.Key)
		})
	}
	r, _, _ := ledgerOver(t, KindRule{KeyFrom: []string{"a"}})
	if _, err := r.Begin(t.Context(), Request{Kind: "post", Input: in(`{"b":1}`)}); err == nil {
		t.Error("a key of fields, without one of them")
	}
	need.Equal(t, begin(t, r, Request{Key: "own", Input: in(`{"b":1}`)}).Operation.Key, "own", "without a field its own key names it")
}

// I4: while one is open, it holds what the policy called the same when it was begun, whatever
// names a request since.
func TestI4_FieldsThatNameAKindAreEditedInDoubt(t *testing.T) {
	const place, all = "POST h /c", "POST h /*"
	in := func(customer string, at int) Request {
		return Request{Kind: "charge", Place: place, Input: json.RawMessage(fmt.Sprintf(`{"invoice":"I1","customer":%q,"at":%d}`, customer, at))}
	}
	renamed := func(w Request) Request {
		w.Kind = "billing.charge"
		return w
	}
	inBody := func(at int) Request {
		w := in("c1", at)
		w.HTTP, w.Input = &ledger.Request{Method: "POST", Origin: "http://h"}, json.RawMessage(`{"path":"/c","body":`+string(w.Input)+`}`)
		return w
	}
	for name, c := range map[string]struct {
		before, after []string
		match, since  string
		input         string // of the policy before, and none since
		repeat        Request
		holds         bool
	}{
		"its input is all":    {before: []string{"invoice"}, after: []string{"body.invoice"}, match: place, since: place, input: "body", repeat: inBody(2), holds: true},
		"named no more":       {before: []string{"invoice"}, match: place, input: "body", repeat: renamed(inBody(2)), holds: true},
		"one more":            {before: []string{"invoice"}, after: []string{"invoice", "customer"}, repeat: in("c1", 2), holds: true},
		"one more, of HTTP":   {before: []string{"invoice"}, after: []string{"invoice", "customer"}, match: place, since: place, repeat: in("c1", 2), holds: true},
		"another match":       {before: []string{"invoice"}, after: []string{"invoice"}, match: place, since: all, repeat: in("c1", 2), holds: true},
		"match and fields":    {before: []string{"invoice"}, after: []string{"customer"}, match: place, since: all, repeat: in("c1", 2), holds: true},
		"all and a new name":  {before: []string{"invoice"}, after: []string{"customer"}, match: all, since: place, repeat: renamed(in("c1", 2)), holds: true},
		"of another path":     {before: []string{"invoice"}, after: []string{"invoice"}, match: "POST h /d", since: all, repeat: in("c1", 2)},
		"one less":            {before: []string{"invoice", "customer"}, after: []string{"invoice"}, repeat: in("c1", 2), holds: true},
		"in another order":    {before: []string{"invoice", "customer"}, after: []string{"customer", "invoice"}, repeat: in("c1", 2), holds: true},
		"others":              {before: []string{"invoice"}, after: []string{"customer"}, repeat: in("c1", 2), holds: true},
		"none any more":       {before: []string{"invoice"}, repeat: in("c1", 2), holds: true},
		"none, under a key":   {before: []string{"invoice"}, repeat: Request{Kind: "charge", Key: "k2", Input: in("c1", 2).Input}, holds: true},
		"another one of both": {before: []string{"customer"}, after: []string{"customer", "invoice"}, repeat: in("c2", 2)},
		"another kind":        {before: []string{"invoice"}, after: []string{"customer"}, repeat: Request{Kind: "refund", Input: in("c1", 2).Input}},
	} {
		t.Run(name, func(t *testing.T) {
			rule := KindRule{KeyFrom: c.before, Match: c.match, Input: c.input, Covers: func(match, asked string) bool { return match == asked || match == all }}
			clock := ledgertest.NewClock()
			store := newLedger(t, clock.Now, hostclock.With(clock.Now))
			recorder := func() *Recorder {
				return New(store, Rules(func(string) KindRule { return rule }), Options{Clock: clock.Now})
			}
			running := recorder()
			one := in("c1", 1)
			if c.input != "" {
				one = inBody(1)
			}
			first := begin(t, running, one)
			settle(t, running, first.Attempt.ID, ledger.OutcomeUncertain)
			rule.KeyFrom, rule.Match, rule.Input = c.after, c.since, ""
			for who, r := range map[string]*Recorder{"running": running, "started since": recorder()} {
				res := begin(t, r, c.repeat)
				need.That(t, (res.Answer == ledger.AnswerInDoubt && res.Operation.ID == first.Operation.ID) == c.holds, "%s: %s %s", who, res.Answer, res.Operation.ID)
				if !c.holds {
					return
				}
			}
			settle(t, running, first.Attempt.ID, ledger.OutcomeCommitted)
			need.Equal(t, begin(t, running, c.repeat).Operation.ID == first.Operation.ID, c.match == c.since && ledger.FieldsKey("", c.before, "") == ledger.FieldsKey("", c.after, ""), "what ended has the name that it had")
		})
	}
}

// I4: the key that goes out is the first caller's, or the operation's own; none is made of
// what is asked, which the other side may remember of another operation.
func TestI4_TheKeyThatGoesOut(t *testing.T) {
	in := json.RawMessage(`{"a":1}`)
	r, _, _ := ledgerOver(t, KindRule{KeyFrom: []string{"a"}})
	first := begin(t, r, Request{Key: "k1", Input: in})
	need.Equal(t, first.Operation.KeyToSend(), "k1")
	settle(t, r, first.Attempt.ID, ledger.OutcomeFailed)
	again := begin(t, r, Request{Key: "k2", Input: in})
	need.That(t, again.Attempt.N == 2 && again.Operation.KeyToSend() == "k1", "attempt %d under %s", again.Attempt.N, again.Operation.KeyToSend())
	r, _, _ = ledgerOver(t, KindRule{})
	one := begin(t, r, Request{Input: in})
	settle(t, r, one.Attempt.ID, ledger.OutcomeCommitted)
	two := begin(t, r, Request{Input: in})
	need.That(t, one.Operation.KeyToSend() == "k-"+one.Operation.ID && two.Operation.KeyToSend() == "k-"+two.Operation.ID && one.Operation.ID != two.Operation.ID,
		"%s, %s", one.Operation.KeyToSend(), two.Operation.KeyToSend())
}

// An answer that proves nothing, of a kind that no policy names, is told once to who asks
// the same again, and holds nothing back after that. A lost one holds.
func TestAnAnswerThatProvesNothingIsToldOnce(t *testing.T) {
	for name, c := range map[string]struct {
		rule  KindRule
		class ledger.ErrorClass
		holds bool
	}{
		"answered": {class: ledger.ClassToolError}, "lost": {class: ledger.ClassReset, holds: true},
		"answered, named": {class: ledger.ClassToolError, rule: KindRule{Named: true}, holds: true},
	} {
		r, store, _ := ledgerOver(t, c.rule)
		request := Request{Input: json.RawMessage(`{"a":1}`), Sender: "mcp", AwaitsDelivery: true}
		first := begin(t, r, request)
		need.Get(r.Settle(t.Context(), ledger.SettleRequest{AttemptID: first.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: c.class, Status: -1}))(t)
		told := begin(t, r, request)
		need.That(t, told.Answer == ledger.AnswerInDoubt && told.Operation.ID == first.Operation.ID, "%s: %s", name, told.Answer)
		second := begin(t, r, request)
		if c.holds {
			need.Equal(t, second.Answer, ledger.AnswerInDoubt, name)
			continue
		}
		need.That(t, second.Answer == ledger.AnswerBegun && second.Operation.ID != first.Operation.ID, "%s: %s", name, second.Answer)
		settle(t, r, second.Attempt.ID, ledger.OutcomeCommitted)
		need.Equal(t, recorded(t, store, second.Operation.ID).Operation.Conflict, ledger.ConflictMaybeTwice, name)
	}
}

// An agent that lost an answer calls the tool again in other words, and is told of it once. Then
// those calls go out, the one that was told among them; the identical one does not.
func TestACallLikeALostOneIsToldOnce(t *testing.T) {
	call := func(n int) Request {
		return Request{Sender: "mcp", Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), AwaitsDelivery: true}
	}
	given := call(-1)
	given.Key = "own"
	for name, c := range map[string]struct {
		rule   KindRule
		class  ledger.ErrorClass
		before []ledger.ErrorClass // of calls that were in doubt before that
		again  bool                // by a process that was not there
		told   int
	}{
		"lost":                              {class: ledger.ClassReset, told: 1},
		"lost, named":                       {class: ledger.ClassReset, rule: KindRule{Named: true}, told: 1},
		"lost before this process":          {class: ledger.ClassReset, again: true, told: 1},
		"lost before one that was answered": {class: ledger.ClassToolError, before: []ledger.ErrorClass{ledger.ClassReset}, again: true, told: 1},
		"an error, whose cause was mended":  {class: ledger.ClassToolError},
		"so, named":                         {class: ledger.ClassToolError, rule: KindRule{Named: true}},
		"so, before this process":           {class: ledger.ClassToolError, again: true},
		"lost, and identical ones normal":   {class: ledger.ClassReset, rule: KindRule{Repeat: RepeatAllow}},
	} {
		t.Run(name, func(t *testing.T) {
			r, store, clock := ledgerOver(t, c.rule)
			var doubt ledger.BeginResult
			for i, class := range append(c.before, c.class) {
				clock.Advance(time.Second)
				w := call(1000 + i)
				if i > 0 {
					w.Key = "so nobody is told"
				}
				doubt = begin(t, r, w)
				need.Get(r.Settle(t.Context(), ledger.SettleRequest{AttemptID: doubt.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: class, Status: -1}))(t)
			}
			if c.again {
				r = New(store, oneRule(c.rule), Options{Clock: clock.Now})
			}
			need.Equal(t, begin(t, r, given).Answer, ledger.AnswerBegun, "under a key")
			if c.class == ledger.ClassReset && c.rule.Repeat == "" {
				same := begin(t, r, call(1000))
				need.That(t, same.Answer == ledger.AnswerInDoubt && !same.Told, "the identical one: %s, told %v", same.Answer, same.Told)
			}
			told := 0
			for n := range 50 {
				res := begin(t, r, call(n))
				if res.Answer != ledger.AnswerBegun {
					told++
					need.Must(t, res.Answer == ledger.AnswerInDoubt && res.Told && res.Like && res.Operation.ErrorClass == ledger.ClassReset, "%d: %s, %+v", n, res.Answer, res.Operation)
					res = begin(t, r, call(n))
				}
				need.Must(t, res.Answer == ledger.AnswerBegun, "%d: %s", n, res.Answer)
				settle(t, r, res.Attempt.ID, ledger.OutcomeCommitted)
			}
			need.Equal(t, told, c.told, "told")
			if c.class == ledger.ClassReset && c.rule.Repeat == "" {
				need.Equal(t, begin(t, r, call(1000)).Answer, ledger.AnswerInDoubt, "the identical one, after all")
			}
		})
	}
}

// TestRollback: what sets a state runs again once another one on its target may have
// taken its place, under a key that it is given and under one that is made.
func TestRollback(t *testing.T) {
	rule := KindRule{KeyFrom: []string{"image"}, Deadline: time.Minute, Supersedes: true, Safe: true,
		Target: func(ledger.Operation) string { return "web" }}
	for name, request := range map[string]func(image string) Request{
		"made key": func(image string) Request { return Request{Input: json.RawMessage(`{"image":"` + image + `"}`)} },
		"own key": func(image string) Request {
			return Request{Key: image, Input: json.RawMessage(`{"of":"` + image + `"}`)}
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

// TestWhatItsInputNamesEndsWithACommit: without a key and without a policy the
// same input is one request until it is committed.
func TestWhatItsInputNamesEndsWithACommit(t *testing.T) {
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

// TestNothingOpenExpires: pending, in doubt, allowed, abandoned or in conflict, an
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
		{"allowed", func(t *testing.T, r *Recorder, store ledger.Store, clock *ledgertest.Clock, res ledger.BeginResult) {
			settle(t, r, res.Attempt.ID, ledger.OutcomeUncertain)
			o := recorded(t, store, res.Operation.ID).Operation
			need.Get(ledger.Allow(t.Context(), store, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: o.ID, Version: o.Version,
				Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: person, Reason: "rather twice", ExpiresAt: clock.Now().Add(100 * time.Hour)}))(t)
		}, ledger.AnswerBegun},
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
			for _, key := range []string{"k", ""} { // a given one, and one made of the input
				r, store, clock := ledgerOver(t, KindRule{TTL: time.Hour, Deadline: 60 * time.Hour})
				first := begin(t, r, Request{Key: key, Input: json.RawMessage(`1`)})
				c.make(t, r, store, clock, first)
				clock.Advance(50 * time.Hour)
				res := begin(t, r, Request{Key: key, Input: json.RawMessage(`1`)})
				need.That(t, res.Operation.ID == first.Operation.ID, "key %q: it became %s under %s", key, res.Operation.ID, res.Operation.Key)
				need.Equal(t, res.Answer, c.want, key, "key")
			}
		})
	}
}

// TestI9_ACommitIsLookedAtOnceMore: also where its own answer said so.
func TestI9_ACommitIsLookedAtOnceMore(t *testing.T) {
	r, store, clock := recorderOver(t, KindRule{Looks: ledger.Looks{Check: true, Verify: 10 * time.Minute}})
	landed, lost := begin(t, r, Request{Key: "landed"}), begin(t, r, Request{Key: "failed"})
	settle(t, r, landed.Attempt.ID, ledger.OutcomeCommitted)
	settle(t, r, lost.Attempt.ID, ledger.OutcomeFailed)
	due := func() []ledger.Due { return need.Get(store.Due(t.Context(), "", clock.Now(), 10))(t) }
	clock.Advance(9 * time.Minute)
	need.Equal(t, len(due()), 0)
	clock.Advance(2 * time.Minute)
	rows := due()
	need.That(t, len(rows) == 1 && rows[0].ID == landed.Operation.ID, "%+v", rows)
}
