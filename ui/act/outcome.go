package act

import (
	"context"
	"errors"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Engine plans and makes retries.
type Engine interface {
	Retry(ctx context.Context, q reconcile.RetryRequest) (reconcile.RetryResult, error)
}

// Hands carry out what a run decides, for whom and with what.
type Hands struct {
	Store  ledger.Decider
	Engine Engine // nil: nothing can be sent
	Actor  ledger.Actor
	// Looks is when an operation of a kind that is decided now is looked for again.
	Looks func(kind string) ledger.Looks
}

// Step is the step of a run as its record says.
func (h Hands) Step(run ledger.DecisionRun) Step {
	return func(ctx context.Context, it ledger.RunItem, change string) Outcome {
		if run.Sends() {
			return h.send(ctx, run, it, change)
		}
		terms := run.Terms
		_, err := ledger.Decide(ctx, h.Store, ledger.Decision{ChangeID: change, ID: it.OperationID, Version: it.Version,
			Verb: ledger.Verb(run.Verb), Reason: terms.Reason, Actor: h.Actor, Receipts: terms.Receipts, Reference: terms.Reference,
			Truth: terms.Truth, Until: terms.Until, Key: terms.Key, Looks: h.Looks(it.Kind)})
		return Decided(err)
	}
}

// send sends what was shown as the set was frozen (I7). A risk is taken one at a time.
func (h Hands) send(ctx context.Context, run ledger.DecisionRun, it ledger.RunItem, change string) Outcome {
	if h.Engine == nil {
		return Outcome{Left: errors.New("nothing can be sent from here")}
	}
	q := reconcile.RetryRequest{ID: it.OperationID, Version: it.Version, Basis: it.Basis, Reason: run.Terms.Reason,
		Actor: h.Actor, ChangeID: change, Showing: reconcile.Shown(it.Request)}
	if it.Request == "" || it.Basis == "" || it.Basis == ledger.BasisRiskAccepted {
		return Outcome{Came: ledger.CameSkipped, Word: "without proof: by itself only"}
	}
	return Sent(h.Engine.Retry(ctx, q))
}

// Decided is what became of a decision.
func Decided(err error) Outcome {
	if err == nil {
		return Outcome{Came: ledger.CameDecided}
	}
	return refused(err)
}

// Sent is what became of a send. An answer that was lost again, or one that says it
// did not land, tells that the outage is not over as much as an error does.
func Sent(res reconcile.RetryResult, err error) Outcome {
	o := res.Operation
	switch {
	case err != nil && res.Did == reconcile.DidSend: // how that ended could not be written down
		return Outcome{Came: ledger.CameUnclear, Word: err.Error()}
	case err != nil:
		return refused(err)
	case res.Did == reconcile.DidRefuse:
		return Outcome{Came: ledger.CameSkipped, Word: res.Why}
	case res.Did == reconcile.DidLand && o.State == ledger.Uncertain:
		return Outcome{Came: ledger.CameSkipped, Word: res.Why + "; only a person settles this one"}
	case res.Did == reconcile.DidLand:
		return Outcome{Came: ledger.CameAlready}
	case res.Did == reconcile.DidAllow:
		return Outcome{Came: ledger.CameAllowed}
	}
	came, word := ledger.RunFate{Attempt: &res.Attempt, Conflict: o.Conflict, Note: o.ConflictNote}.Sent(ledger.Never)
	return Outcome{Came: came, Word: word}
}

// refused is what became of an item that an error kept from being done.
func refused(err error) Outcome {
	var no *ledger.RefusedError
	var changed *reconcile.ChangedError
	var moved *ledger.MovedError
	switch {
	case errors.Is(err, context.Canceled):
		return Outcome{Left: err}
	case errors.As(err, &moved) && moved.State == ledger.Committed && ledger.ReservedActor(moved.Actor):
		return Outcome{Came: ledger.CameAlready}
	case moved != nil:
		return Outcome{Came: ledger.CameMoved, By: moved.Actor}
	case errors.As(err, &no):
		switch no.Code {
		case "hold", "throttled":
			return Outcome{Came: ledger.CameHeld, Word: no.Why}
		case "quitting", "read_only": // another driver may do what this one cannot
			return Outcome{Left: err}
		}
		return Outcome{Came: ledger.CameSkipped, Word: no.Why}
	case errors.As(err, &changed): // the policy makes another request of it: so it may of each that follows
		return Outcome{Came: ledger.CameHeld, Word: err.Error()}
	}
	return Outcome{Came: ledger.CameBroken, Word: err.Error()}
}

// Words says what became of a retry, and what is its own: its receipt or why it was
// not sent.
func Words(r reconcile.RetryResult) (word, own safe.Text) {
	out := Sent(r, nil)
	switch out.Came {
	case ledger.CameLanded, ledger.CameAlready, ledger.CameAllowed, ledger.CameFailed:
		if out.Came == ledger.CameLanded && out.Word != "" {
			own = safe.Say(", receipt %s", out.Word)
		}
		return safe.Say(said[out.Came].one), own
	case ledger.CameNever:
		return safe.Say(said[out.Came].one), ticket.Colon(out.Word)
	case ledger.CameTwice:
		return safe.Say("sent, and it happened twice"), ticket.Colon(out.Word)
	case ledger.CameUnclear:
		return safe.Say("sent, no clear answer: in doubt again"), own
	}
	return safe.Say("not sent"), ticket.Colon(out.Word)
}
