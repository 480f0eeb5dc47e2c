package ledgertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// settleSent settles an attempt that another desk began, and that this ledger has lost.
func (d *desk) settleSent(of ledger.BeginResult, outcome ledger.Outcome, mod ...func(*ledger.SettleRequest)) ledger.Applied {
	d.Helper()
	a := of.Attempt
	req := ledger.SettleRequest{ChangeID: d.id("change"), AttemptID: a.ID, Outcome: outcome, Status: -1, Actor: billing}
	switch outcome {
	case ledger.OutcomeFailed:
		req.Proof, req.Status = ledger.Refused, 402
	case ledger.OutcomeUncertain:
		req.ErrorClass, req.Error = ledger.ClassTimeout, "no answer after 30 s"
	}
	for _, m := range mod {
		m(&req)
	}
	sent := ledger.Sent{ChangeID: "begin-of-" + a.ID, Operation: of.Operation, Attempt: a, Marks: []string{"mark-1"}, Actor: billing}
	applied := need.Get(ledger.SettleSent(ctx, d.s, sent, req))(d)
	d.clock.Advance(time.Second)
	return applied
}

// sent are attempts that a ledger has lost, and that are settled by who remembers them.
func sent(t *testing.T, open Open) {
	t.Run("I9_WhileBeginsAreHeld", func(t *testing.T) {
		of := newDesk(t, open).begun("k")
		d := newDesk(t, open)
		d.n = 100
		d.clock.Advance(time.Minute)
		d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "all", Begins: true, Actor: maya, Reason: "restore", ChangeID: d.id("change")}))
		need.Equal(d, d.settleSent(of, ledger.OutcomeCommitted).After.State, ledger.Committed, "what was sent before")
	})
	t.Run("I9_TheFirst", func(t *testing.T) {
		of := newDesk(t, open).begun("k")
		d := newDesk(t, open)
		d.n = 100
		d.clock.Advance(time.Minute)
		o := d.settleSent(of, ledger.OutcomeCommitted, withReceipt("ch_1")).After
		if o.ID != of.Operation.ID || !o.KeyLive || o.State != ledger.Committed || o.Receipt() != "ch_1" || o.Token != of.Operation.Token || string(o.Input) != string(of.Operation.Input) {
			d.Fatalf("%+v is recorded, want %+v", o, of.Operation)
		}
		rec := d.read(o.ID)
		if a := rec.Attempt(of.Attempt.ID); a == nil || len(rec.Attempts) != 1 || a.N != 1 || !a.StartedAt.Equal(of.Attempt.StartedAt) || a.Outcome != ledger.OutcomeCommitted {
			d.Fatalf("%+v is recorded, want %+v", rec.Attempts, of.Attempt)
		}
		events := d.events(o.ID)
		need.Must(d, len(events) == 2 && events[0].Verb == "begin" && events[1].To == ledger.Committed, "the history has %+v", events)
		need.Must(d, d.settleSent(of, ledger.OutcomeCommitted, withReceipt("ch_1")).Noop, "it is recorded twice")
		if res := d.begin("k"); res.Answer != ledger.AnswerFinished {
			d.Fatalf("who asks again is told %s", res.Answer)
		}
	})
	t.Run("I10_InDoubt", func(t *testing.T) {
		of := newDesk(t, open).begun("k")
		d := newDesk(t, open)
		d.n = 100
		d.want(d.settleSent(of, ledger.OutcomeUncertain).After, ledger.Uncertain)
		d.want(d.settle(of.Attempt.ID, ledger.OutcomeCommitted, withReceipt("ch_1")), ledger.Committed)
	})
	t.Run("OfAKeyInUse", func(t *testing.T) { sentUnderAKeyInUse(t, open) })
	t.Run("I9_WhatHappenedTwiceIsRaised", func(t *testing.T) { sentBeside(t, open) })
	t.Run("I9_AnotherInItsPlace", func(t *testing.T) { sentInPlace(t, open) })
}

// besideLost is a desk that has another operation under the key of one that it has lost.
func besideLost(t *testing.T, open Open, lost, has []func(*ledger.BeginRequest)) (d *desk, of, other ledger.BeginResult) {
	of = newDesk(t, open).begun("k", lost...)
	d = newDesk(t, open)
	d.n = 100
	d.clock.Advance(10 * time.Second)
	return d, of, d.begun("k", has...)
}

// Another operation has the key: the lost one stands beside it, once, and whoever asks for
// the key is told of the other.
func sentUnderAKeyInUse(t *testing.T, open Open) {
	d, of, other := besideLost(t, open, nil, nil)
	o := d.settleSent(of, ledger.OutcomeUncertain).After
	if o.ID != of.Operation.ID || o.KeyLive || o.State != ledger.Uncertain {
		d.Fatalf("%+v is recorded", o)
	}
	rec := d.read(of.Operation.ID)
	a := rec.Attempt(of.Attempt.ID)
	if o := rec.Operation; a == nil || o.KeyLive || o.Token != of.Operation.Token || string(o.Input) != string(of.Operation.Input) || !o.CreatedAt.Equal(of.Operation.CreatedAt) ||
		!a.StartedAt.Equal(of.Attempt.StartedAt) || a.Outcome != ledger.OutcomeUncertain {
		d.Fatalf("%+v is recorded, with %+v", rec.Operation, rec.Attempts)
	}
	need.Must(d, len(rec.Related) == 1 && rec.Related[0].ID == other.Operation.ID && rec.Related[0].Overtook, "related are %+v", rec.Related)
	need.Must(d, d.settleSent(of, ledger.OutcomeUncertain).Noop, "it is recorded twice")
	if events := d.events(of.Operation.ID); len(events) != 2 || events[0].Verb != "begin" || !strings.Contains(events[0].Reason, other.Operation.ID) {
		d.Fatalf("the history has %+v", events)
	}
	if res := d.begin("k"); res.Answer != ledger.AnswerInProgress || res.Operation.ID != other.Operation.ID {
		d.Fatalf("who asks again is told %s of %s", res.Answer, res.Operation.ID)
	}
	for _, key := range []string{"elsewhere", "k"} { // a writer that takes the key from no one
		o := of.Operation
		o.ID, o.Key, o.KeyLive, o.LiveAttempt = "forged", key, false, "forged-1"
		_, err := d.s.Change(ctx, ledger.Locator{ID: o.ID}, "", func(*ledger.Record) (ledger.Change, error) {
			return ledger.Change{Operation: &o, Insert: true, Event: &ledger.Event{Verb: "set", Actor: billing}}, nil
		})
		need.Must(d, errors.Is(err, ledger.ErrGuard), "an operation without the key %s: %v", key, err)
	}
}

// sentBeside raises what may have happened twice when it landed, and nothing else.
func sentBeside(t *testing.T, open Open) {
	type mods = []func(*ledger.BeginRequest)
	keyed := func(r *ledger.BeginRequest) { r.KeyWorks = true }
	type does = func(*desk, ledger.BeginResult) ledger.Operation
	ends := func(outcome ledger.Outcome, mod ...func(*ledger.SettleRequest)) does {
		return func(d *desk, of ledger.BeginResult) ledger.Operation {
			return d.settleSent(of, outcome, mod...).After
		}
	}
	committed := func(receipt string) does { return ends(ledger.OutcomeCommitted, withReceipt(receipt)) }
	uncertain, refused := ends(ledger.OutcomeUncertain), ends(ledger.OutcomeFailed)
	found := func(d *desk, of ledger.BeginResult) ledger.Operation {
		return d.observe(uncertain(d, of), ledger.Landed, "ch_1")
	}
	flying := func(*desk, ledger.BeginResult) ledger.Operation { return ledger.Operation{} }
	for _, c := range []struct {
		name        string
		lost, has   mods
		other, mine does
		note        string // "": nothing is raised
	}{
		{name: "both landed", other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "both landed on one target", lost: mods{onTarget}, has: mods{onTarget}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "a check finds it", other: committed("ch_2"), mine: found, note: "OTHER (ch_2)"},
		{name: "the other in doubt", other: uncertain, mine: committed("ch_1"), note: "OTHER"},
		{name: "the other in flight", other: flying, mine: committed("ch_1"), note: "OTHER"},
		{name: "without receipts", other: committed(""), mine: committed(""), note: "OTHER"},
		{name: "another input", has: mods{func(r *ledger.BeginRequest) { r.Fingerprint = "p" }}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2), which has its key"},
		{name: "another input, refused", has: mods{func(r *ledger.BeginRequest) { r.Fingerprint = "p" }}, other: refused, mine: committed("ch_1")},
		{name: "no input", has: mods{func(r *ledger.BeginRequest) { r.Input, r.Fingerprint = nil, "" }}, other: uncertain, mine: found, note: "OTHER, which has its key"},
		{name: "another input, the key works twice", lost: mods{keyed}, has: mods{keyed, func(r *ledger.BeginRequest) { r.Fingerprint = "p" }}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "one key works", lost: mods{keyed}, other: committed("ch_2"), mine: committed(""), note: "OTHER (ch_2)"},
		{name: "the key works twice", lost: mods{keyed}, has: mods{keyed}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "the key works", lost: mods{keyed}, has: mods{keyed}, other: committed("ch_1"), mine: committed("")},
		{name: "the key works in doubt", lost: mods{keyed}, has: mods{keyed}, other: uncertain, mine: committed("ch_1")},
		{name: "one receipt", other: committed("ch_1"), mine: found},
		{name: "the other refused", other: refused, mine: committed("ch_1")},
		{name: "refused", other: committed("ch_2"), mine: refused},
		{name: "not there", other: committed("ch_2"), mine: func(d *desk, of ledger.BeginResult) ledger.Operation {
			return d.observe(uncertain(d, of), ledger.NotThere)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, of, other := besideLost(t, open, c.lost, c.has)
			c.other(d, other)
			o := c.mine(d, of)
			if c.note == "" {
				need.Must(d, o.Conflict == ledger.NoConflict, "%s is raised: %s", o.Conflict, o.ConflictNote)
				return
			}
			if o.State != ledger.Committed || o.Conflict != ledger.ConflictMaybeTwice || !strings.Contains(o.ConflictNote, strings.Replace(c.note, "OTHER", other.Operation.ID, 1)) {
				d.Fatalf("%s, conflict %q (%s), want maybe twice beside %s", o.State, o.Conflict, o.ConflictNote, c.note)
			}
			rows := need.Get(d.s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: d.clock.Now(), Limit: 10}))(d)
			if !slices.ContainsFunc(rows.Rows, func(r ledger.Row) bool { return r.ID == o.ID && r.LaneAt(d.clock.Now()) == ledger.LaneConflict }) {
				d.Fatalf("no one is told of it: %+v", rows.Rows)
			}
			o = d.decide(o, ledger.VerbAck, func(dec *ledger.Decision) { dec.Truth, dec.Reference = ledger.TakenBack, "re_1" })
			need.Must(d, o.State == ledger.Committed && o.Conflict == ledger.NoConflict,
				"dealt with, it is %s, conflict %q", o.State, o.Conflict)
		})
	}
	// What is in doubt beside it is decided by a person, and repeated by no recorder.
	d, of, _ := besideLost(t, open, nil, mods{func(r *ledger.BeginRequest) { r.Fingerprint = "p" }})
	d.refused(d.ownRepeat(uncertain(d, of)), "related")
}

// sentInPlace has another attempt in the place of the lost one, in flight or ended: what
// was lost is an operation of its own beside it.
func sentInPlace(t *testing.T, open Open) {
	again := func(t *testing.T) ledger.BeginResult {
		d := newDesk(t, open)
		d.allow(d.doubt("k"), ledger.BasisRiskAccepted)
		return d.begun("k")
	}
	for name, ends := range map[string]func(d *desk, attempt string){
		"in flight": func(*desk, string) {},
		"in doubt":  func(d *desk, attempt string) { d.settle(attempt, ledger.OutcomeUncertain) },
		"landed":    func(d *desk, attempt string) { d.settle(attempt, ledger.OutcomeCommitted, withReceipt("ch_2")) },
		"given up": func(d *desk, attempt string) {
			d.decide(d.settle(attempt, ledger.OutcomeUncertain), ledger.VerbAbandon)
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := again(t)
			d := newDesk(t, open)
			o := d.doubt("k")
			d.n = 100
			d.clock.Advance(10 * time.Second)
			d.allow(o, ledger.BasisRiskAccepted)
			ends(d, d.begun("k").Attempt.ID)
			before := d.read(o.ID)
			landed := d.settleSent(of, ledger.OutcomeCommitted, withReceipt("ch_1")).After
			if after := d.read(o.ID); after.Operation.Version != before.Operation.Version || len(after.Attempts) != 2 {
				d.Fatalf("the other one moved: %+v", after.Operation)
			}
			need.Must(d, d.settleSent(of, ledger.OutcomeCommitted, withReceipt("ch_1")).Noop, "it is recorded twice")
			need.Must(d, landed.ID != o.ID && landed.Conflict == ledger.ConflictMaybeTwice && strings.Contains(landed.ConflictNote, o.ID), "%+v", landed)
		})
	}
	of := again(t)
	d := newDesk(t, open) // has lost all of it
	d.n = 100
	d.settleSent(of, ledger.OutcomeUncertain)
	if res := d.begin("k"); res.Answer != ledger.AnswerInDoubt || res.Operation.AttemptCount != 1 {
		d.Fatalf("who asks again is told %s of %+v", res.Answer, res.Operation)
	}
}
