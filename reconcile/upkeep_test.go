package reconcile

import (
	"net/http"
	"testing"

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

// While answers are waited for, what is still to be priced is priced.
func TestPricingGoesOnWhileReadsAreWaitedFor(t *testing.T) {
	w := newWorld(t, payPolicy)
	release := make(chan struct{})
	w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool { <-release; return true }
	defer func() { close(release); w.engine.background.Wait() }()
	for range priceAtOnce + 1 {
		w.doubt("pay", 1)
	}
	e := w.leading()
	for more, checks := true, 0; more; {
		begun, again, err := e.pass(w.ctx, w.now(), func(ReadResult, error) {})
		checks, more = checks+begun, again
		need.Must(t, err == nil && checks == 2*politeness, "%d checks in hand, %v", checks, err)
	}
	ops, err := w.store.Unpriced(w.ctx, w.inForce().Digest(), 1)
	need.That(t, err == nil && len(ops) == 0, "%d without a price, %v", len(ops), err)
}
