package reconcile

import (
	"context"
	"fmt"

	"indoubt/ledger"
)

// expire writes down deadlines that have passed.
func (e *Engine) expire(ctx context.Context) error {
	if _, err := e.o.Store.Expire(ctx, batch); err != nil {
		return fmt.Errorf("write down deadlines that passed: %w", err)
	}
	return nil
}

// priceAtOnce is how many operations are priced at once: checks that ended wait meanwhile.
const priceAtOnce = 250

// upkeep prices what a clock has changed and what has no price under this
// policy. more reports that something was priced, which may be due at once.
func (e *Engine) upkeep(ctx context.Context) (more bool, err error) {
	if err := e.repriceDue(ctx); err != nil {
		return false, err
	}
	n, err := e.priceBatch(ctx)
	return n > 0, err
}

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
	ids := make([]string, len(ops))
	for i, op := range ops {
		ids[i] = op.ID
	}
	recs, err := e.o.Store.Records(ctx, ids)
	if err != nil {
		return len(ops), err
	}
	prices := make([]quote, 0, len(recs))
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
