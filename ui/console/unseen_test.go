package console

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/reconcile"
)

// What a check does not see, though it sees others, is no risk to be typed.
func TestRetryOfWhatIsNotSeenIsOneY(t *testing.T) {
	o := nightOptions()
	e := o.Engine.(*fakeEngine)
	e.plans[id(2)] = reconcile.Plan{Basis: ledger.BasisNotSeen, Why: "not seen: looked at 02:50:00 CEST, sees its siblings", Sender: "http",
		WillSend: "POST https://pay.example/charge", Attempt: 2}
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(2).keys("R")
	b.shows("Retry?", "ALLOWED BECAUSE", "not seen: looked at", "y send once").hides("Reason", "Type 24000")
	b.keys("enter")
	need.Must(t, len(e.retried) == 0, "Enter sent it")
	b.keys("R", "y")
	q := e.retried
	need.Must(t, len(q) == 1 && q[0].ID == id(2) && q[0].Basis == ledger.BasisNotSeen, "%+v\n%s", q, b.screen())
	need.That(t, q[0].Reason == "" && !q[0].LossTyped, "%+v", q[0])
}
