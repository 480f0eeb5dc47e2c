package console

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
)

// The demonstration says what happened as soon as it is seen, and leads through the
// outage on request: each step comes when the one before it is done.
func TestTheDemonstrationLeadsANewcomer(t *testing.T) {
	pace := sendPacing
	t.Cleanup(func() { sendPacing = pace })
	sendPacing = 0
	o := nightOptions()
	outageStore(t, o.Store.(*memory))
	o.Banner = "demo: a simulated outage"
	b := newBench(t, 80, 24, o).judged(nightFacts)
	for n := range 12 {
		b.engine().plans[outageRow(n)] = reconcile.Plan{Basis: ledger.BasisAbsent, Sender: "http", Showing: reconcile.Showing{Digest: "shown"}}
	}
	b.shows("stripe: 20 lost answers in row +: j moves, ↵ opens, ? then t tours, q quits", "? help")
	b.keys("?").shows("t leads through this outage in six steps").keys("t").shows("1/6  The row that begins with +").hides("20 lost answers in row")
	b.keys("j", "enter").shows("2/6", "W says that you are on it")
	b.keys("W").shows("3/6", "then R").wait(3 * time.Second)
	b.keys("R").shows("4/6  Type the number").keys("esc").shows("3/6")
	b.keys("R").text("12").keys("tab", "enter").shows("5/6  Three go first").wait(time.Second).keys("G").shows("6/6  Sent.")
	b.keys("esc").shows("That was the tour")
	b.keys("?", "t").shows("1/6").keys("?", "t").shows("the tour is over").hides("1/6")
	b.keys("enter").hides("2 Checking").keys("?", "t").shows("1/6", "2 Checking") // its first step is about the list

	nightBench(t, 80, 24).keys("?").hides("six steps").keys("t").hides("1/6")
}
