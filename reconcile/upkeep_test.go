package reconcile

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What settles in an outage before an engine sees it is in the sum of its money.
func TestWhatSettledWithoutAPriceIsPriced(t *testing.T) {
	offices(t, "", func(o *office) {
		op := o.fail(5)
		need.Get(ledger.Decide(o.ctx, o.store, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbConfirm, Receipts: []string{"r"}, Reason: "seen", Actor: maya}))(o)
		landed := func() ledger.Sum {
			ins := need.Get(o.store.Outages(o.ctx, o.now(), 1))(o)
			need.OK(o, o.store.Sums(o.ctx, ins, o.now()))
			return ins[0].Fates[ledger.FateLanded]
		}
		need.Equal(o, landed(), ledger.Sum{N: 1, Unpriced: 1})
		o.run(o.engine())
		eventually(o, "priced", func() bool { return landed() == ledger.Sum{N: 1, Miss: 10, Twice: 10} })
	})
}

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
	e := w.leading()
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
	ops, err := w.store.Unpriced(w.ctx, w.inForce().Digest(), 1)
	need.That(t, err == nil && len(ops) <= 0, "%d without a price, %v", len(ops), err)
	need.Equal(t, e.prices.wait(time.Hour), time.Hour, "with nothing to price it sleeps for")
}

// endless has always more that is due, of a kind without a check.
type endless struct {
	ledger.Store
	read int
}

func (e *endless) Due(_ context.Context, _ time.Time, limit int) ([]ledger.Row, error) {
	e.read += limit
	return slices.Repeat([]ledger.Row{{Kind: "unknown"}}, limit), nil
}

// What has no check waits for its price, and is not read again before each batch of prices.
func TestWhatHasNoCheckIsNotReadWithEachBatch(t *testing.T) {
	w := newWorld(t, payPolicy)
	s := &endless{Store: w.store}
	w.engine.o.Store = s
	read := func() int {
		s.read = 0
		need.OK(t, w.engine.startReads(w.ctx, nil, w.engine.readInBackground))
		return s.read
	}
	first := read()
	need.Must(t, first >= maxBacklog, "only %d rows are read for one that has a check", first)
	again := read()
	need.That(t, again <= maxBacklog/10, "%d rows are read again at once", again)
}
