package reconcile

import (
	"net/http"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// While answers are waited for, the loop has nothing else to wake it for what is
// still to be priced.
func TestPricingGoesOnWhileReadsAreWaitedFor(t *testing.T) {
	w := newWorld(t, payPolicy)
	release := make(chan struct{})
	w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool { <-release; return true }
	defer func() { close(release); w.engine.active.idle.Wait() }()
	for range pricingFew + 1 {
		w.doubt("pay", 1)
	}
	e := w.engine
	need.Get(e.pass(w.ctx, nil, e.readInBackground))(t)
	if e.active.count() == 0 || !e.prices.more {
		t.Fatalf("%d reads in hand, more to price: %t", e.active.count(), e.prices.more)
	}
	if wait := e.prices.wait(time.Hour); wait == time.Hour {
		t.Errorf("the loop sleeps for %s", wait)
	}
	for e.prices.more {
		e.prices.next = time.Time{}
		need.Get(e.pass(w.ctx, nil, e.readInBackground))(t)
	}
	if ops, err := w.store.Unpriced(w.ctx, w.inForce().Digest(), 1); err != nil || len(ops) > 0 {
		t.Errorf("%d without a price, %v", len(ops), err)
	}
	if wait := e.prices.wait(time.Hour); wait != time.Hour {
		t.Errorf("with nothing to price it sleeps for %s", wait)
	}
}
