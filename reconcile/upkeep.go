package reconcile

import (
	"context"
	"fmt"
	"time"

	"indoubt/ledger"
)

// expire writes down deadlines that have passed.
func (e *Engine) expire(ctx context.Context) error {
	if _, err := e.o.Store.Expire(ctx, batch); err != nil {
		return fmt.Errorf("write down deadlines that passed: %w", err)
	}
	return nil
}

// pricing is how the time is shared between reading and pricing: what is read
// is priced with it, so while there is much to read little else is priced.
type pricing struct {
	next time.Time // for the next batch
	more bool      // there is one
	last bool      // only after the reads: no list is shown meanwhile
}

// wait is until when there is nothing to price, at most as long as given.
func (p *pricing) wait(longest time.Duration) time.Duration {
	if !p.more {
		return longest
	}
	return min(longest, max(0, time.Until(p.next)))
}

const (
	pricingShare = 2   // one part in so many of the time goes to pricing while reads are made
	pricingFew   = 250 // operations priced at once then
)

// upkeep prices what a clock has changed and what has no price under this
// policy. more reports that something was priced, which may be due at once.
func (e *Engine) upkeep(ctx context.Context) (more bool, err error) {
	began, many := time.Now(), batch
	if e.active.count() > 0 {
		if many = pricingFew; e.prices.last || began.Before(e.prices.next) {
			return false, nil
		}
	}
	if err := e.repriceDue(ctx); err != nil {
		return false, err
	}
	n, err := e.priceBatch(ctx, many)
	e.prices.next, e.prices.more = began.Add(pricingShare*time.Since(began)), n == many
	return n > 0, err
}

// priceBatch prices a batch of operations and returns how many there were.
func (e *Engine) priceBatch(ctx context.Context, many int) (int, error) {
	pol := e.policy()
	digest := pol.Digest()
	if e.onlyReads(ctx) {
		return 0, nil
	}
	ops, err := e.o.Store.Unpriced(ctx, digest, many)
	if err != nil {
		return 0, fmt.Errorf("find what has no price: %w", err)
	}
	if len(ops) == 0 {
		return 0, nil
	}
	if _, err := e.mark(ctx, many); err != nil { // what no one has priced, no one may have marked
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

// postpone puts off the rows whose downstream wants no request now, all in
// one write, and returns the others and how many were put off. Of what nobody leads, whoever
// leads the ledger says when a person is asked.
func (e *Engine) postpone(ctx context.Context, rows []ledger.Row) (keep []ledger.Row, put int, err error) {
	pol := e.policy()
	digest := pol.Digest()
	var off []quote
	keep = rows[:0]
	blocked := map[string]time.Time{}
	for _, row := range rows {
		k := pol.Kind(row.Kind)
		p := row.Pricing
		p.OperationID, p.Version = row.ID, row.Version
		if k.Read != nil && !e.leads(scopeOf(k)) {
			from := e.lead.unchecked(scopeOf(k))
			if row.Pricing.Digest == digest && from.Before(ledger.Never) && e.leads(ledger.LeadLedger) {
				p.DecideAt, p.ReadAt = sooner(p.DecideAt, from), spread(e.now().Add(muteFor))
				off = append(off, quote{Pricing: p})
			}
			continue
		}
		until, known := blocked[row.Kind]
		if !known {
			if k.Read != nil {
				until, _ = e.downs.of(k).blocked()
			}
			blocked[row.Kind] = until
		}
		// Rows that are not priced yet are read one by one: there is nothing to
		// write back that would not be made up.
		if k.Read == nil || row.Pricing.Digest == digest && until.Sub(e.now()) > patience {
			if p.ReadAt = ledger.Never; k.Read != nil {
				p.ReadAt = apart(e.now(), until)
			}
			if row.Pricing.Digest == digest {
				off = append(off, quote{Pricing: p})
			}
			continue
		}
		keep = append(keep, row)
	}
	return keep, len(off), e.price(ctx, off...)
}
