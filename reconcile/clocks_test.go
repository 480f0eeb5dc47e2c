package reconcile

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Nothing is polled, and yet what a clock changes is priced anew when it does.
func TestAClockChangesThePrice(t *testing.T) {
	w := newWorld(t, payPolicy)
	c := &counted{Store: w.store}
	e := New(Options{Store: c, Policy: w.inForce, Clock: w.now, Steady: w.steady, Actor: maya})
	o := w.doubt("pay", 420)
	w.doubt("fax", 1) // no clock runs for it
	pass := func() {
		t.Helper()
		need.Get(e.priceBatch(w.ctx, batch))(t)
		need.OK(t, e.repriceDue(w.ctx))
	}
	pass()
	start := c.price.Load()
	for _, tc := range []struct {
		later time.Duration
		turns int64
		why   string
	}{{time.Second, 0, "nothing has changed"}, {pastProof, 1, "absence can be proven"}, {time.Minute, 1, ""}, {16 * time.Minute, 2, "it needs a person"}, {48 * time.Hour, 2, ""}} {
		w.pass(tc.later)
		pass()
		need.Equal(t, c.price.Load()-start, tc.turns, "after", tc.later, tc.why)
	}
	need.Equal(t, e.clocks.wait(w.now(), time.Second), time.Second, "the next look is in")
	if got := w.get(o.ID); got.Row().LaneAt(w.now()) != ledger.LaneDecide {
		t.Errorf("it stands in %s", got.Row().LaneAt(w.now()))
	}
}

func TestOddsRestOnTheLedger(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	var settled []ledger.Operation
	for range 8 {
		settled = append(settled, w.doubt("pay", 420, 420))
	}
	for _, o := range settled {
		w.read(o.ID)
	}
	o := w.doubt("pay", 1)
	h := NewHistory(w.store, w.now)
	wise := h.Policy(w.ctx, w.inForce())
	odds, blank := wise.Kind("pay").Odds(w.get(o.ID)), w.inForce().Kind("pay").Odds(w.get(o.ID))
	need.That(t, odds.N == 8 && odds.P > blank.P && blank.N == 0 && wise.Digest() == w.inForce().Digest(), "%+v, without its history %+v", odds, blank)
	need.Equal(t, h.Policy(w.ctx, w.inForce()), h.Policy(w.ctx, w.inForce()), "a history makes a new policy each time it is asked")
}

// What is read by no check is priced when it comes; what is learned afterwards moves it in
// the list all the same, in one walk for all that was learned.
func TestAPriceFollowsTheHistory(t *testing.T) {
	w := newWorld(t, payPolicy+"  legacy:\n    cost: { duplicate: 100, miss: 100 }\n")
	w.known("pay")
	o := w.doubt("legacy", 1)
	var others []ledger.Operation
	for range 8 {
		others = append(others, w.doubt("pay", 420, 420))
	}
	c := &counted{Store: w.store}
	e := New(Options{Store: c, Policy: w.inForce, Clock: w.now, Steady: w.steady, Actor: maya})
	walk := func() {
		t.Helper()
		w.pass(historyAge + time.Second)
		for more, err := true, error(nil); more; {
			more, err = e.revalue(w.ctx)
			need.OK(t, err)
		}
	}
	need.Get(e.priceBatch(w.ctx, batch))(t)
	walk()
	before := w.get(o.ID).Pricing
	need.Equal(t, before.Rank, 50.0, "rank without a history")
	for _, other := range others {
		w.read(other.ID)
	}
	priced := c.price.Load()
	walk()
	after := w.get(o.ID).Pricing
	want := w.inForce().WithHistory(e.past.known()).Kind("legacy").Price(w.get(o.ID))
	need.That(t, after.Rank < 20 && after.Rank == want.Rank && after.ReadAt.Equal(before.ReadAt) && after.DecideAt.Equal(before.DecideAt), "%+v", after)
	need.Equal(t, c.price.Load()-priced, int64(1), "writes")
	walk()
	need.Equal(t, c.price.Load()-priced, int64(1), "writes, where nothing was learned")
}
