package reconcile

import (
	"context"
	"fmt"

	"indoubt/ledger"
)

// priceAtOnce is how many operations are priced at once: checks that ended wait meanwhile.
const priceAtOnce = 250

// priceBatch prices a batch of operations and returns how many there were.
func (e *Engine) priceBatch(ctx context.Context) (int, error) {
	pol := e.policy()
	digest := pol.Digest()
	if e.onlyReads(ctx) {
		return 0, nil
	}
	ops, err := e.o.Store.Unpriced(ctx, digest, priceAtOnce)
	if err != nil {
		return 0, fmt.Errorf("find what has no price: %w", err)
	}
	if len(ops) == 0 {
		return 0, nil
	}
	if _, err := e.mark(ctx, priceAtOnce); err != nil { // what no one has priced, no one may have marked
		return len(ops), fmt.Errorf("mark operations: %w", err)
	}
	ids := ledger.Each(ops, func(o ledger.Operation) string { return o.ID })
	recs, err := e.o.Store.Records(ctx, ids)
	if err != nil {
		return len(ops), err
	}
	prices := make([]ledger.Pricing, 0, len(recs))
	var twice []string
	for _, rec := range recs {
		prices = append(prices, e.priced(pol.Kind(rec.Operation.Kind), digest, rec))
		if rec.Operation.Conflict == ledger.PossibleDuplicate {
			twice = append(twice, rec.Operation.ID)
		}
	}
	if err := e.lookAgain(ctx, twice); err != nil {
		return len(ops), err
	}
	if err := e.price(ctx, prices...); err != nil {
		return len(ops), err
	}
	return len(ops), e.priceBeside(ctx, ids) // a price and its marks may name for the first time what it is about
}

// reprice prices operations anew as they stand now, where that is wanted. What has no
// price of this policy is priced as unpriced, or has left the list.
func (e *Engine) reprice(ctx context.Context, ids []string, wanted func(ledger.Record, ledger.Pricing) bool) error {
	recs, err := e.o.Store.Records(ctx, ids)
	if err != nil {
		return fmt.Errorf("read what is priced anew: %w", err)
	}
	pol := e.policy()
	digest := pol.Digest()
	var prices []ledger.Pricing
	for _, rec := range recs {
		if rec.Pricing.Digest != digest {
			continue
		}
		if p := e.priced(pol.Kind(rec.Operation.Kind), digest, rec); wanted(rec, p) {
			prices = append(prices, p)
		}
	}
	return e.price(ctx, prices...)
}

// PriceAsSeen prices anew those of the operations whose odds have moved with the ledger's
// history since they were priced, where this process leads: a list's sum is to be that of the
// rows a person sees.
func (e *Engine) PriceAsSeen(ctx context.Context, ids []string) error {
	if e.o.ReadOnly || e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
		return nil
	}
	return e.reprice(ctx, ids, func(rec ledger.Record, p ledger.Pricing) bool { return p.Rank != rec.Pricing.Rank })
}
