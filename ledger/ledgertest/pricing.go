package ledgertest

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// stalePrices come from an engine that looked before the operation moved: it failed
// and was to be looked at in an hour, and meanwhile it was sent again and is in
// doubt anew.
func stalePrices(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.doubt("k")
	d.observe(o, ledger.NotThere)
	seen := d.read(o.ID).Operation
	stale := ledger.Pricing{OperationID: o.ID, Version: seen.Version, Digest: "p1", Rank: 7, ReadAt: d.clock.Now().Add(time.Hour), Reads: 2}
	d.settle(d.begun("k").Attempt.ID, ledger.OutcomeUncertain)
	due := func() int {
		d.Helper()
		rows := need.Get(d.s.Due(ctx, "", d.clock.Now(), 10))(d)
		return len(rows)
	}
	need.Must(d, due() == 1, "an operation that is in doubt anew is not due")
	d.ok(d.s.Price(ctx, []ledger.Pricing{stale}))
	if rec := d.read(o.ID); due() != 1 || rec.Pricing.Digest == "p1" || rec.Pricing.Rank == 7 {
		d.Fatalf("the price of what it was before counts: %+v", rec.Pricing)
	}
	stale.Version = d.read(o.ID).Operation.Version
	d.ok(d.s.Price(ctx, []ledger.Pricing{stale}))
	stale.Version = 0
	if got := d.read(o.ID).Pricing; got != stale || due() != 0 {
		d.Fatalf("priced as %+v\nread back  %+v", stale, got)
	}

	// What is in flight is not in the list before it has a price.
	fresh := d.begun("in flight").Operation
	d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: fresh.ID, Version: fresh.Version + 1, Digest: "p1"}}))
	if got := d.read(fresh.ID).Pricing.Digest; got != "" {
		d.Fatalf("priced under %q as what it is not", got)
	}
	d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: fresh.ID, Version: fresh.Version, Digest: "p1"}}))
	d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: fresh.ID, Version: fresh.Version + 1, Digest: "p2"}}))
	need.Equal(d, d.read(fresh.ID).Pricing.Digest, "p1", "priced under")
}
