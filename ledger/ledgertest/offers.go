package ledgertest

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
)

// offers are attempts that a ledger has lost, and that their recorder records again.
func offers(t *testing.T, open Open) {
	offer := func(d *desk, of ledger.BeginResult) (ledger.Applied, error) {
		a := of.Attempt
		a.OperationID = of.Operation.ID
		return ledger.Offer(ctx, d.s, ledger.OfferRequest{ChangeID: "begin-of-" + a.ID, Operation: of.Operation, Attempt: a, Marks: []string{"mark-1"}, Actor: billing})
	}
	for _, c := range []struct {
		name       string
		sent, have func(*desk) ledger.BeginResult
		moved      bool
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
		{name: "InItsPlaceIsAnother", moved: true, sent: func(d *desk) ledger.BeginResult {
			d.grant(d.doubt("k"), ledger.BasisRiskAccepted)
			return d.begun("k")
		}, have: func(d *desk) ledger.BeginResult { return d.begun("k") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := c.sent(newDesk(t, open))
			d := newDesk(t, open)
			d.clock.Advance(time.Minute)
			if c.have != nil {
				c.have(d)
			}
			applied, err := offer(d, of)
			if c.moved {
				if !errors.Is(err, ledger.ErrMoved) {
					d.Fatalf("%v, want that it moved", err)
				}
				return
			}
			d.ok(err)
			rec := d.read(of.Operation.ID)
			a := rec.Attempt(of.Attempt.ID)
			if a == nil || applied.Noop || a.N != of.Attempt.N || !a.DeadlineAt.Equal(of.Attempt.DeadlineAt) || !a.StartedAt.Equal(of.Attempt.StartedAt) || a.GrantID != of.Attempt.GrantID {
				d.Fatalf("%+v is recorded, want %+v", a, of.Attempt)
			}
			if o := rec.Operation; o.LiveAttempt != a.ID || o.Key != "k" || o.Token != of.Operation.Token || string(o.Input) != string(of.Operation.Input) {
				d.Fatalf("%+v is recorded, want %+v", o, of.Operation)
			}
			if rec.OpenGrant() != nil {
				d.Fatalf("it may be sent again")
			}
			if applied, err = offer(d, of); err != nil || !applied.Noop {
				d.Fatalf("a second time: %+v, %v", applied, err)
			}
			events := d.events(of.Operation.ID)
			if last := events[len(events)-1]; last.Verb != "offer" {
				d.Fatalf("the last event is %s", last.Verb)
			}
			d.want(d.settle(of.Attempt.ID, ledger.OutcomeCommitted, withReceipt("ch_1")), ledger.Committed)
		})
	}
	t.Run("OfAKeyInUse", func(t *testing.T) {
		of := newDesk(t, open).begun("k")
		d := newDesk(t, open)
		d.begun("other")
		d.begun("k")
		of.Operation.ID, of.Attempt.ID = "lost", "lost-1"
		of.Operation.LiveAttempt = "lost-1"
		if _, err := offer(d, of); err == nil {
			d.Fatalf("two operations have one key")
		}
	})
}
