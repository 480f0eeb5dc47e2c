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

// offer records an attempt of another desk again, which this ledger has lost.
func (d *desk) offer(of ledger.BeginResult) (ledger.Applied, error) {
	a := of.Attempt
	a.OperationID = of.Operation.ID
	return ledger.Offer(ctx, d.s, ledger.OfferRequest{ChangeID: "begin-of-" + a.ID, Operation: of.Operation, Attempt: a, Marks: []string{"mark-1"}, Actor: billing})
}

// offers are attempts that a ledger has lost, and that their recorder records again.
func offers(t *testing.T, open Open) {
	for _, c := range []struct {
		name       string
		sent, have func(*desk) ledger.BeginResult
	}{
		{name: "TheFirst", sent: func(d *desk) ledger.BeginResult { return d.begun("k") }},
		{name: "AfterAProof", sent: func(d *desk) ledger.BeginResult {
			d.settle(d.begun("k").Attempt.ID, ledger.OutcomeFailed, func(s *ledger.SettleRequest) { s.Proof = ledger.NeverSent })
			return d.begun("k")
		}, have: func(d *desk) ledger.BeginResult {
			d.settle(d.begun("k").Attempt.ID, ledger.OutcomeFailed, func(s *ledger.SettleRequest) { s.Proof = ledger.NeverSent })
			return ledger.BeginResult{}
		}},
		{name: "Allowed", sent: func(d *desk) ledger.BeginResult {
			d.grant(d.doubt("k"), ledger.BasisRiskAccepted)
			return d.begun("k")
		}, have: func(d *desk) ledger.BeginResult {
			d.grant(d.doubt("k"), ledger.BasisRiskAccepted)
			return ledger.BeginResult{}
		}},
		{name: "AllowedAndThatIsLostToo", sent: func(d *desk) ledger.BeginResult {
			d.grant(d.doubt("k"), ledger.BasisRiskAccepted)
			return d.begun("k")
		}, have: func(d *desk) ledger.BeginResult { d.doubt("k"); return ledger.BeginResult{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := c.sent(newDesk(t, open))
			d := newDesk(t, open)
			d.clock.Advance(time.Minute)
			if c.have != nil {
				c.have(d)
			}
			applied, err := d.offer(of)
			d.ok(err)
			rec := d.read(of.Operation.ID)
			a := rec.Attempt(of.Attempt.ID)
			if a == nil || applied.Noop || a.N != of.Attempt.N || !a.DeadlineAt.Equal(of.Attempt.DeadlineAt) || !a.StartedAt.Equal(of.Attempt.StartedAt) || a.GrantID != of.Attempt.GrantID {
				d.Fatalf("%+v is recorded, want %+v", a, of.Attempt)
			}
			if o := rec.Operation; o.LiveAttempt != a.ID || o.Key != "k" || o.Token != of.Operation.Token || string(o.Input) != string(of.Operation.Input) {
				d.Fatalf("%+v is recorded, want %+v", o, of.Operation)
			}
			need.Must(d, rec.OpenGrant() == nil, "it may be sent again")
			if applied, err = d.offer(of); err != nil || !applied.Noop {
				d.Fatalf("a second time: %+v, %v", applied, err)
			}
			events := d.events(of.Operation.ID)
			if last := events[len(events)-1]; last.Verb != "offer" {
				d.Fatalf("the last event is %s", last.Verb)
			}
			d.want(d.settle(of.Attempt.ID, ledger.OutcomeCommitted, withReceipt("ch_1")), ledger.Committed)
		})
	}
	t.Run("OfAKeyInUse", func(t *testing.T) { offersOfAKeyInUse(t, open) })
	t.Run("I9_WhatHappenedTwiceIsRaised", func(t *testing.T) { offeredBeside(t, open) })
	t.Run("I9_AnotherInItsPlace", func(t *testing.T) { offeredInPlace(t, open) })
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
func offersOfAKeyInUse(t *testing.T, open Open) {
	d, of, other := besideLost(t, open, nil, nil)
	applied, err := d.offer(of)
	d.ok(err)
	if o := applied.After; o.ID != of.Operation.ID || o.KeyLive || o.State != ledger.Pending || applied.Noop {
		d.Fatalf("%+v is recorded", o)
	}
	rec := d.read(of.Operation.ID)
	a := rec.Attempt(of.Attempt.ID)
	if o := rec.Operation; a == nil || o.KeyLive || o.Token != of.Operation.Token || string(o.Input) != string(of.Operation.Input) || !o.CreatedAt.Equal(of.Operation.CreatedAt) ||
		!a.StartedAt.Equal(of.Attempt.StartedAt) || !a.DeadlineAt.Equal(of.Attempt.DeadlineAt) {
		d.Fatalf("%+v is recorded, with %+v", rec.Operation, rec.Attempts)
	}
	need.Must(d, len(rec.Related) == 1 && rec.Related[0].ID == other.Operation.ID && rec.Related[0].SameKey,
		"related are %+v", rec.Related)
	if applied, err = d.offer(of); err != nil || !applied.Noop {
		d.Fatalf("a second time: %+v, %v", applied, err)
	}
	if events := d.events(of.Operation.ID); len(events) != 1 || events[0].Verb != "offer" || !strings.Contains(events[0].Reason, other.Operation.ID) {
		d.Fatalf("the history has %+v", events)
	}
	if res := d.begin("k"); res.Answer != ledger.AnswerInProgress || res.Operation.ID != other.Operation.ID {
		d.Fatalf("who asks again is told %s of %s", res.Answer, res.Operation.ID)
	}
	for _, key := range []string{"elsewhere", "k"} { // a writer that takes the key from no one
		o := of.Operation
		o.ID, o.Key, o.KeyLive, o.LiveAttempt = "forged", key, false, "forged-1"
		_, err := d.s.Change(ctx, ledger.Locator{ID: o.ID}, "", func(*ledger.Record) (ledger.Change, error) {
			return ledger.Change{Operation: &o, Insert: true, Event: &ledger.Event{Verb: "begin", Actor: billing}}, nil
		})
		need.Must(d, errors.Is(err, ledger.ErrGuard), "an operation without the key %s: %v", key, err)
	}
}

// offeredBeside raises what may have happened twice when it landed, and nothing else.
func offeredBeside(t *testing.T, open Open) {
	type mods = []func(*ledger.BeginRequest)
	keyed := func(r *ledger.BeginRequest) { r.KeyWorks = true }
	committed := func(receipt string) func(*desk, string) ledger.Operation {
		return func(d *desk, attempt string) ledger.Operation {
			return d.settle(attempt, ledger.OutcomeCommitted, withReceipt(receipt))
		}
	}
	uncertain := func(d *desk, attempt string) ledger.Operation { return d.settle(attempt, ledger.OutcomeUncertain) }
	refused := func(d *desk, attempt string) ledger.Operation { return d.settle(attempt, ledger.OutcomeFailed) }
	found := func(d *desk, attempt string) ledger.Operation {
		return d.observe(uncertain(d, attempt), ledger.Landed, "ch_1")
	}
	flying := func(d *desk, attempt string) ledger.Operation { return ledger.Operation{} }
	for _, c := range []struct {
		name        string
		lost, has   mods
		other, mine func(d *desk, attempt string) ledger.Operation
		note        string // "": nothing is raised
	}{
		{name: "both landed", other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "both landed on one target", lost: mods{onTarget}, has: mods{onTarget}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "a check finds it", other: committed("ch_2"), mine: found, note: "OTHER (ch_2)"},
		{name: "the other in doubt", other: uncertain, mine: committed("ch_1"), note: "OTHER"},
		{name: "the other in flight", other: flying, mine: committed("ch_1"), note: "OTHER"},
		{name: "without receipts", other: committed(""), mine: committed(""), note: "OTHER"},
		{name: "another input", has: mods{func(r *ledger.BeginRequest) { r.Fingerprint, r.Marks.Fields = "p", "f" }}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2), which has its key"},
		{name: "another input, refused", has: mods{func(r *ledger.BeginRequest) { r.Fingerprint, r.Marks.Fields = "p", "f" }}, other: refused, mine: committed("ch_1")},
		{name: "no input", has: mods{func(r *ledger.BeginRequest) { r.Input, r.Fingerprint, r.Marks.Fields = nil, "", "" }}, other: uncertain, mine: found, note: "OTHER, which has its key"},
		{name: "another input, the key works twice", lost: mods{keyed}, has: mods{keyed, func(r *ledger.BeginRequest) { r.Fingerprint, r.Marks.Fields = "p", "f" }}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "one key works", lost: mods{keyed}, other: committed("ch_2"), mine: committed(""), note: "OTHER (ch_2)"},
		{name: "the key works twice", lost: mods{keyed}, has: mods{keyed}, other: committed("ch_2"), mine: committed("ch_1"), note: "OTHER (ch_2)"},
		{name: "the key works", lost: mods{keyed}, has: mods{keyed}, other: committed("ch_1"), mine: committed("")},
		{name: "the key works in doubt", lost: mods{keyed}, has: mods{keyed}, other: uncertain, mine: committed("ch_1")},
		{name: "one receipt", other: committed("ch_1"), mine: found},
		{name: "the other refused", other: refused, mine: committed("ch_1")},
		{name: "refused", other: committed("ch_2"), mine: refused},
		{name: "absent", other: committed("ch_2"), mine: func(d *desk, attempt string) ledger.Operation { return d.observe(uncertain(d, attempt), ledger.Absent) }},
		{name: "archived", other: func(d *desk, attempt string) ledger.Operation {
			o := committed("ch_2")(d, attempt)
			d.done("newest")
			need.Must(d, slices.Contains(d.shelve(), o.ID), "it is not archived")
			return o
		}, mine: committed("ch_1"), note: "OTHER (ch_2), which has its key"},
		{name: "archived, another input", has: mods{func(r *ledger.BeginRequest) { r.Fingerprint, r.Marks.Fields = "p", "f" }}, other: func(d *desk, attempt string) ledger.Operation {
			o := committed("ch_2")(d, attempt)
			d.done("newest")
			need.Must(d, slices.Contains(d.shelve(), o.ID), "it is not archived")
			return o
		}, mine: found, note: "OTHER (ch_2), which has its key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, of, other := besideLost(t, open, c.lost, c.has)
			c.other(d, other.Attempt.ID)
			need.Get(d.offer(of))(t)
			o := c.mine(d, of.Attempt.ID)
			if c.note == "" {
				need.Must(d, o.Conflict == ledger.NoConflict, "%s is raised: %s", o.Conflict, o.ConflictNote)
				return
			}
			if o.State != ledger.Committed || o.Conflict != ledger.PossibleDuplicate || !strings.Contains(o.ConflictNote, strings.Replace(c.note, "OTHER", other.Operation.ID, 1)) {
				d.Fatalf("%s, conflict %q (%s), want a possible duplicate of %s", o.State, o.Conflict, o.ConflictNote, c.note)
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
	// What is in doubt beside it is decided by a person, and sent by no machine.
	d, of, _ := besideLost(t, open, nil, mods{func(r *ledger.BeginRequest) { r.Fingerprint, r.Marks.Fields = "p", "f" }})
	need.Get(d.offer(of))(t)
	absent := d.observe(uncertain(d, of.Attempt.ID), ledger.Absent)
	g := d.grantRequest(absent, ledger.BasisAbsent)
	g.Actor = engine
	d.refused(g, "related")
}

// offeredInPlace has another attempt in the place of the lost one, in flight or ended: what
// was lost is an operation of its own beside it.
func offeredInPlace(t *testing.T, open Open) {
	for name, ends := range map[string]func(d *desk, attempt string){
		"in flight": func(*desk, string) {},
		"in doubt":  func(d *desk, attempt string) { d.settle(attempt, ledger.OutcomeUncertain) },
		"landed":    func(d *desk, attempt string) { d.settle(attempt, ledger.OutcomeCommitted, withReceipt("ch_2")) },
		"given up": func(d *desk, attempt string) {
			d.decide(d.settle(attempt, ledger.OutcomeUncertain), ledger.VerbAbandon)
		},
	} {
		t.Run(name, func(t *testing.T) {
			lost := newDesk(t, open)
			lost.grant(lost.doubt("k"), ledger.BasisRiskAccepted)
			of := lost.begun("k")
			d := newDesk(t, open)
			o := d.doubt("k")
			d.n = 100
			d.clock.Advance(10 * time.Second)
			d.grant(o, ledger.BasisRiskAccepted)
			again := d.begun("k")
			ends(d, again.Attempt.ID)
			before := d.read(o.ID)
			applied := need.Get(d.offer(of))(t)
			if after := d.read(o.ID); after.Operation.Version != before.Operation.Version || len(after.Attempts) != 2 {
				d.Fatalf("the other one moved: %+v", after.Operation)
			}
			if again := need.Get(d.offer(of))(t); !again.Noop {
				d.Fatalf("it is recorded twice: %+v", again)
			}
			landed := d.settle(of.Attempt.ID, ledger.OutcomeCommitted, withReceipt("ch_1"))
			need.Must(d, landed.ID == applied.After.ID && landed.Conflict == ledger.PossibleDuplicate && strings.Contains(landed.ConflictNote, o.ID), "%+v", landed)
		})
	}
	lost := newDesk(t, open)
	lost.grant(lost.doubt("k"), ledger.BasisRiskAccepted)
	of := lost.begun("k")
	d := newDesk(t, open) // has lost all of it
	need.Get(d.offer(of))(t)
	if res := d.begin("k"); res.Answer != ledger.AnswerInProgress || res.Operation.LiveAttempt != of.Attempt.ID {
		d.Fatalf("who asks again is told %s of %s", res.Answer, res.Operation.ID)
	}
}
