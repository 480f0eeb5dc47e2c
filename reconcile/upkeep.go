package reconcile

import (
	"context"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// upkeep writes down deadlines that have passed and prices what has no price
// under this policy. more tells that there is more of it to do.
func (e *Engine) upkeep(ctx context.Context) (more bool, err error) {
	expired, err := e.o.Store.Expire(ctx, batch)
	if err != nil {
		return false, fmt.Errorf("write down deadlines that passed: %w", err)
	}
	priced, err := e.priceBatch(ctx)
	return expired == batch || priced == batch, err
}

// priceBatch prices a batch of operations and returns how many there were.
func (e *Engine) priceBatch(ctx context.Context) (int, error) {
	pol := e.policy()
	digest := pol.Digest()
	e.rivals.under(digest)
	if e.rivals.about(e.now()) {
		return 0, nil
	}
	ops, err := e.o.Store.Unpriced(ctx, digest, batch)
	if err != nil {
		return 0, fmt.Errorf("find what has no price: %w", err)
	}
	if len(ops) == 0 {
		return 0, nil
	}
	seq, err := e.seq(ctx)
	if err != nil {
		return len(ops), err
	}
	prices := make([]quote, 0, len(ops))
	for _, op := range ops {
		rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: op.ID})
		if err != nil {
			return len(ops), err
		}
		if by := rec.Pricing.Digest; by != "" && by != digest && e.rivals.met(rec.Operation, pol.Empty(), e.now()) {
			e.logf("%v: only looking for %s", errOnlyLooking, rivalFor)
			return 0, nil
		}
		k := pol.Kind(op.Kind)
		prices = append(prices, e.priced(k, digest, rec))
		e.lookTwice(ctx, k, rec.Operation)
	}
	if err := e.price(ctx, prices...); err != nil {
		return len(ops), err
	}
	if after, err := e.seq(ctx); err != nil || after == seq {
		return len(ops), err
	}
	return len(ops), e.reprice(ctx, ops)
}

// reprice prices once more what may have moved between its reading and its
// pricing, and would otherwise carry the price of what it was.
func (e *Engine) reprice(ctx context.Context, ops []ledger.Operation) error {
	pol := e.policy()
	digest := pol.Digest()
	var prices []quote
	for _, op := range ops {
		rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: op.ID})
		if err != nil {
			return err
		}
		if rec.Operation.Version != op.Version {
			prices = append(prices, e.priced(pol.Kind(op.Kind), digest, rec))
		}
	}
	return e.price(ctx, prices...)
}

// seq is the newest event's number: whether anything moved at all.
func (e *Engine) seq(ctx context.Context) (int64, error) {
	info, err := e.o.Store.Info(ctx)
	return info.LastSeq, err
}

// lookTwice checks in the background whether a possible duplicate is one: a
// pipeline's second attempt landed while the first stayed unknown.
func (e *Engine) lookTwice(ctx context.Context, k *policy.Kind, o ledger.Operation) {
	if o.Conflict != ledger.PossibleDuplicate || o.State != ledger.Committed || k.Read == nil || k.Idempotent {
		return
	}
	d := e.downs.of(k)
	if !e.active.take(o.ID, d, e.now()) {
		return
	}
	go func() {
		defer e.active.give(o.ID, d, time.Time{})
		c := check{actor: e.checker(), recheck: e.now().Add(late(k))}
		if _, err := e.check(ctx, o.ID, c); err != nil && ctx.Err() == nil && !permanent(err) {
			e.logf("look for a second effect of %s: %v", o.ID, err)
		}
	}()
}

// late is how long after a send one more look makes sense.
func late(k *policy.Kind) time.Duration {
	d := k.RecheckAfter
	if k.LandsWithin != nil {
		d = max(d, *k.LandsWithin)
	}
	if k.VisibleWithin != nil {
		d += *k.VisibleWithin
	}
	return max(d, time.Second)
}

// postpone puts off the rows whose downstream is not to be asked now, all in
// one write, and returns the others.
func (e *Engine) postpone(ctx context.Context, rows []ledger.Row) ([]ledger.Row, error) {
	pol := e.policy()
	digest := pol.Digest()
	var off []quote
	keep := rows[:0]
	blocked := map[string]time.Time{}
	for _, row := range rows {
		k := pol.Kind(row.Kind)
		until, known := blocked[row.Kind]
		if !known {
			until, _ = e.downs.of(k).blocked()
			blocked[row.Kind] = until
		}
		// Rows that are not priced yet are read one by one: there is nothing to
		// write back that would not be made up.
		if k.Read == nil || row.Pricing.Digest == digest && time.Until(until) > patience {
			p := row.Pricing
			p.OperationID, p.ReadAt = row.ID, ledger.Never
			if k.Read != nil {
				p.ReadAt = spread(e.now().Add(time.Until(until)))
			}
			if row.Pricing.Digest == digest {
				off = append(off, quote{p, row.Version})
			}
			continue
		}
		keep = append(keep, row)
	}
	return keep, e.price(ctx, off...)
}
