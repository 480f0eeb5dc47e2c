package ledgertest

import (
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// inputNamed is the name of a request that brings no key.
var inputNamed = ledger.InputKey(strings.Repeat("a", 64))

// gated is a request with a gate.
func gated(gate string, more ...func(*ledger.BeginRequest)) func(*ledger.BeginRequest) {
	return func(r *ledger.BeginRequest) {
		r.Gate = gate
		for _, m := range more {
			m(r)
		}
	}
}

// gateHolds: what is in flight or in doubt holds the same request back, whatever its kind,
// scope and key are called, until it is settled.
func gateHolds(d *desk) {
	kind := func(r *ledger.BeginRequest) { r.Kind = "other" }
	scope := func(r *ledger.BeginRequest) { r.Scope = "other" }
	caller := func(r *ledger.BeginRequest) {
		r.Request = &ledger.Request{Callers: map[string]string{"Authorization": "another"}}
	}
	for name, c := range map[string]struct {
		asked string
		how   func(*ledger.BeginRequest)
		free  bool
	}{
		"another key":      {asked: "INV-1"},
		"another kind":     {asked: "INV-0", how: kind},
		"another scope":    {asked: "INV-0", how: scope},
		"another caller":   {asked: "INV-1", how: caller},
		"named by input":   {asked: inputNamed},
		"another gate":     {asked: "INV-1", how: func(r *ledger.BeginRequest) { r.Gate += "!" }, free: true},
		"without one":      {asked: "INV-1", how: func(r *ledger.BeginRequest) { r.Gate = "" }, free: true},
		"sent before":      {asked: "INV-1", how: func(r *ledger.BeginRequest) { r.SentAt = d.clock.Now() }, free: true},
		"a safe one waits": {asked: "INV-1", how: func(r *ledger.BeginRequest) { r.Safe = true }},
	} {
		first := d.begun("INV-0 of "+name, gated(name))
		ask := func(want ledger.BeginAnswer) {
			d.Helper()
			res := d.begin(c.asked+" of "+name, gated(name), func(r *ledger.BeginRequest) {
				if c.how != nil {
					c.how(r)
				}
			})
			if c.free {
				want = ledger.AnswerBegun
			}
			need.Must(d, res.Answer == want && res.Gated == !c.free && (res.Operation.ID == first.Operation.ID) == !c.free,
				"%s: %s of %s, want %s", name, res.Answer, res.Operation.Key, want)
		}
		ask(ledger.AnswerInProgress)
		if c.free {
			continue
		}
		o := d.settle(first.Attempt.ID, ledger.OutcomeUncertain)
		if name == "a safe one waits" {
			res := d.begin(c.asked+" of "+name, gated(name), func(r *ledger.BeginRequest) { r.Safe = true })
			need.Must(d, res.Answer == ledger.AnswerBegun && res.Operation.ID == o.ID && res.Attempt.N == 2 && res.Attempt.Basis == ledger.BasisKeySafe,
				"a safe one is sent again: %s of %s", res.Answer, res.Operation.Key)
			o = d.settle(res.Attempt.ID, ledger.OutcomeCommitted)
			need.Must(d, o.State == ledger.Committed && o.Conflict == ledger.NoConflict, "%s, conflict %q", o.State, o.Conflict)
		} else {
			ask(ledger.AnswerInDoubt)
			d.allow(o, ledger.BasisRiskAccepted)
			ask(ledger.AnswerInDoubt) // for its own key
			d.decide(d.read(o.ID).Operation, ledger.VerbConfirm)
		}
		res := d.begin(c.asked+" of "+name, gated(name), func(r *ledger.BeginRequest) {
			if c.how != nil {
				c.how(r)
			}
		})
		need.That(d, res.Answer == ledger.AnswerBegun && !res.Gated, "%s: settled, another is %s", name, res.Answer)
	}
}

// gateOfCallers: callers that are told apart by the same headers pass beside each other. What is
// open since callers were told apart by others, or by none, may be anyone's, and holds them all.
func gateOfCallers(d *desk) {
	of := func(names, value string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) {
			if r.Gate = strings.Repeat("c", 32); names != "" {
				r.Gate, r.Scope = ledger.ForCaller(r.Gate, strings.Repeat(names, 32), strings.Repeat(value, 32)), names+value
			}
		}
	}
	for i, first := range []string{"", "1a", "2a"} {
		key := "INV-" + string(rune('0'+i))
		on := func(who string) func(*ledger.BeginRequest) {
			if who == "" {
				return of("", "")
			}
			return of(who[:1], who[1:])
		}
		was := d.begun(key, on(first))
		ask := func(want ledger.BeginAnswer) {
			d.Helper()
			for _, who := range []string{"", "1a", "1b", "2a", "2b"} {
				res := d.begin(key+who+string(want), on(who))
				if first != "" && who != "" && first[:1] == who[:1] && first != who {
					need.Must(d, res.Answer == ledger.AnswerBegun, "%q beside %q: %s", who, first, res.Answer)
					d.settle(res.Attempt.ID, ledger.OutcomeCommitted)
					continue
				}
				need.Must(d, res.Answer == want && res.Operation.ID == was.Operation.ID, "%q beside %q: %s", who, first, res.Answer)
			}
		}
		ask(ledger.AnswerInProgress)
		o := d.settle(was.Attempt.ID, ledger.OutcomeUncertain)
		ask(ledger.AnswerInDoubt)
		d.decide(d.read(o.ID).Operation, ledger.VerbConfirm)
	}
	for _, who := range []string{"1a", "1b"} { // of one name and one input, in the scopes of two callers
		need.Equal(d, d.begin(inputNamed, of(who[:1], who[1:])).Answer, ledger.AnswerBegun, who)
	}
}

// gateHoldsItsOwn: so it does where the operation under the asked key would be sent again,
// or anew, unless who allowed that saw what is in doubt.
func gateHoldsItsOwn(d *desk) {
	for name, c := range map[string]struct {
		own        ledger.Outcome
		after      time.Duration
		permission bool
		seen       bool
		want       ledger.BeginAnswer
	}{
		"failed":                 {own: ledger.OutcomeFailed, want: ledger.AnswerInDoubt},
		"expired":                {own: ledger.OutcomeCommitted, after: 2 * time.Hour, want: ledger.AnswerInDoubt},
		"committed":              {own: ledger.OutcomeCommitted, want: ledger.AnswerFinished},
		"allowed, and not shown": {own: ledger.OutcomeUncertain, permission: true, want: ledger.AnswerInDoubt},
		"allowed beside it":      {own: ledger.OutcomeUncertain, permission: true, seen: true, want: ledger.AnswerBegun},
	} {
		asks := gated(name, func(r *ledger.BeginRequest) { r.TTL, r.Deadline = time.Hour, 3*time.Hour })
		own := d.begun("own "+name, asks)
		d.settle(own.Attempt.ID, c.own)
		doubt := d.doubt("other "+name, asks, func(r *ledger.BeginRequest) {
			r.SentAt, r.Kind, r.Fingerprint = d.clock.Now(), "other", ""
			if c.seen {
				r.Kind, r.Fingerprint = "card.charge", "print of own "+name
			}
		})
		d.clock.Advance(c.after)
		if c.permission {
			d.allow(d.read(own.Operation.ID).Operation, ledger.BasisRiskAccepted)
		}
		res := d.begin("own "+name, asks)
		held := c.want == ledger.AnswerInDoubt
		need.Must(d, res.Answer == c.want && res.Gated == (held && c.own != ledger.OutcomeUncertain) || held && d.read(doubt.ID).Operation.Gate == "",
			"%s: %s of %s (%s), want %s", name, res.Answer, res.Operation.Key, res.Why, c.want)
	}
}

// gateOfASafeOne: a further attempt of what cannot act twice needs no one, unless something
// later may have acted on its target.
func gateOfASafeOne(d *desk) {
	safe := func(r *ledger.BeginRequest) { r.Safe, r.Target = true, "web" }
	first := d.doubt("4.3", gated("deploy 4.3", safe))
	again := d.begun("4.3", gated("deploy 4.3", safe))
	need.Must(d, again.Operation.ID == first.ID && again.Attempt.N == 2, "attempt %d of %s", again.Attempt.N, again.Operation.ID)
	d.settle(again.Attempt.ID, ledger.OutcomeUncertain)
	d.settle(d.begun("4.2", gated("deploy 4.2", safe)).Attempt.ID, ledger.OutcomeCommitted)
	res := d.begin("4.3", gated("deploy 4.3", safe))
	need.That(d, res.Answer == ledger.AnswerInDoubt && strings.Contains(res.Why, "on the same target"), "4.3 after 4.2: %s (%s)", res.Answer, res.Why)
	// What is known to have failed is wanted now by who asks in the same words; under a key it
	// may be a late repeat, and what is not safe a second payment.
	once := func(r *ledger.BeginRequest) { r.Target = "web" }
	for name, c := range map[string]struct {
		key  string
		how  func(*ledger.BeginRequest)
		want ledger.BeginAnswer
	}{
		"input": {inputNamed, safe, ledger.AnswerBegun}, "key": {"4.4", safe, ledger.AnswerRefused},
		"once": {ledger.InputKey(strings.Repeat("b", 64)), once, ledger.AnswerRefused},
	} {
		failed := d.settle(d.begun(c.key, gated(name, c.how)).Attempt.ID, ledger.OutcomeFailed, delivered)
		d.settle(d.begun("after "+name, gated("after "+name, safe)).Attempt.ID, ledger.OutcomeCommitted)
		res := d.begin(c.key, gated(name, c.how))
		same := res.Operation.ID == failed.ID
		need.That(d, res.Answer == c.want && same == (c.want == ledger.AnswerRefused), "%s: %s (%s)", name, res.Answer, res.Why)
	}
}

func delivered(s *ledger.SettleRequest) { s.Delivered = true }

// gatePasses: an answer that proves nothing, of a kind that no policy names, holds back
// nothing; what goes out beside it is raised where both land.
func gatePasses(d *desk) {
	asks := gated(strings.Repeat("a", 64), func(r *ledger.BeginRequest) { r.AwaitsDelivery, r.Fingerprint = true, "print" })
	first := d.begun(inputNamed, asks)
	passes := func(s *ledger.SettleRequest) { s.Passes, s.ErrorClass = true, ledger.ClassToolError }
	o := d.settle(first.Attempt.ID, ledger.OutcomeUncertain, passes)
	need.Must(d, o.State == ledger.Uncertain && o.Gate == "" && !o.KeyLive, "%s, gate %q, key live %v", o.State, o.Gate, o.KeyLive)
	second := d.begun(inputNamed, asks, func(r *ledger.BeginRequest) { r.Beside = o.ID })
	need.Must(d, second.Operation.ID != o.ID, "the same one")
	o = d.settle(second.Attempt.ID, ledger.OutcomeCommitted)
	need.Must(d, o.Conflict == ledger.ConflictMaybeTwice && strings.Contains(o.ConflictNote, first.Operation.ID), "conflict %q (%s)", o.Conflict, o.ConflictNote)
	// A given key is kept: only the gate is left.
	given := d.settle(d.begun("INV-7", gated("7")).Attempt.ID, ledger.OutcomeUncertain, passes)
	need.Must(d, given.Gate == "" && given.KeyLive, "gate %q, key live %v", given.Gate, given.KeyLive)
	need.Equal(d, d.begin("INV-7", gated("7")).Answer, ledger.AnswerInDoubt)
}

// gateOfOneThatReturns: an undo never takes the gate from what is open under it.
func gateOfOneThatReturns(d *desk) {
	first := d.settle(d.begun("first", gated("g")).Attempt.ID, ledger.OutcomeCommitted)
	second := d.begun("second", gated("g"))
	back := d.decide(first, ledger.VerbUndo)
	need.Must(d, back.State == ledger.Uncertain && back.Gate == "", "%s, gate %q", back.State, back.Gate)
	res := d.begin("third", gated("g"))
	need.That(d, res.Answer == ledger.AnswerInProgress && res.Operation.ID == second.Operation.ID, "%s of %s", res.Answer, res.Operation.Key)
}

// inputIsOver: what its input alone names is over once its answer was delivered; undelivered,
// denied or abandoned after a day.
func inputIsOver(d *desk) {
	key := func(s string) string { return ledger.InputKey(strings.Repeat(s, 64)) }
	day := 20*time.Hour + time.Minute
	d.settle(d.begun(key("0")).Attempt.ID, ledger.OutcomeCommitted, delivered)
	need.Equal(d, d.begin(key("0")).Answer, ledger.AnswerBegun, "a nightly job")

	awaits := func(r *ledger.BeginRequest) { r.AwaitsDelivery, r.Deadline = true, 100*time.Hour }
	o := d.settle(d.begun(key("1"), awaits).Attempt.ID, ledger.OutcomeCommitted)
	need.Equal(d, d.begin(key("1"), awaits).Answer, ledger.AnswerFinished, "undelivered")
	follows := func(r *ledger.BeginRequest) { r.Follows = o.ID }
	d.ok(ledger.Deliver(ctx, d.s, o.ID))
	need.Equal(d, d.begin(key("1"), awaits, follows).Answer, ledger.AnswerFinished, "it was waited for")
	need.Equal(d, d.begin(key("1"), awaits, func(r *ledger.BeginRequest) { r.Replay = true }).Answer, ledger.AnswerFinished, "it is replayed")
	need.Equal(d, d.begin(key("1"), awaits).Answer, ledger.AnswerBegun, "delivered")

	doubt := d.doubt(key("2"))
	d.decide(doubt, ledger.VerbConfirm)
	need.Equal(d, d.begin(key("2")).Answer, ledger.AnswerFinished, "its caller was told of a doubt")
	for i, verb := range []ledger.Verb{ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon} {
		k := key(string(rune('3' + i)))
		d.decide(d.doubt(k), verb)
		need.Must(d, d.begin(k).Answer != ledger.AnswerBegun, "%s: it is over at once", verb)
		d.clock.Advance(day)
		need.Equal(d, d.begin(k).Answer, ledger.AnswerBegun, string(verb))
	}
	// A person says in the morning what became of last night's job: tonight's runs.
	night := d.doubt(key("6"))
	d.clock.Advance(9 * time.Hour)
	d.decide(night, ledger.VerbConfirm)
	need.Equal(d, d.begin(key("6")).Answer, ledger.AnswerFinished, "its caller asks still")
	d.clock.Advance(15 * time.Hour)
	need.Equal(d, d.begin(key("6")).Answer, ledger.AnswerBegun, "a nightly job that was in doubt")
	// A key with a ttl is given up by what was abandoned, too.
	short := func(r *ledger.BeginRequest) { r.TTL = time.Hour }
	d.decide(d.doubt("short", short), ledger.VerbAbandon)
	need.Equal(d, d.begin("short", short).Answer, ledger.AnswerRefused, "abandoned")
	d.clock.Advance(time.Hour + time.Second)
	need.Equal(d, d.begin("short", short).Answer, ledger.AnswerBegun, "abandoned longer ago than its ttl")
	late := d.doubt(key("7"))
	d.clock.Advance(25 * time.Hour)
	d.decide(late, ledger.VerbConfirm)
	need.Equal(d, d.begin(key("7")).Answer, ledger.AnswerFinished, "its caller has asked for a day")
	byFields := ledger.FieldsKey("card.charge", []string{"n"}, strings.Repeat("c", 32))
	d.begun(byFields)
	another := func(r *ledger.BeginRequest) { r.Fingerprint = "another" }
	need.Equal(d, d.begin(byFields, another).Answer, ledger.AnswerInProgress, "its fields name it")
}
