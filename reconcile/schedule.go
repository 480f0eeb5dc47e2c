package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/transport"
)

const (
	readMin = time.Second // first pause between two reads of one operation
	readMax = time.Hour   // longest
	// readFloor keeps jitter from asking again at once.
	readFloor = 250 * time.Millisecond
	// afterProof is how long after the proof time the deciding read is made, and
	// proofSpread how far those of an outage are drawn apart.
	afterProof  = 50 * time.Millisecond
	proofSpread = 2 * time.Second
)

// nextRead is when an operation in doubt is read again after done reads: an
// exponentially growing pause with full jitter, cut short so that one read
// begins just after the moment from which absence can be proven.
func nextRead(done int, now, proofAt time.Time, provable bool, random func() float64) time.Time {
	pause := readMax
	if done < 13 {
		pause = min(readMax, readMin<<max(done-1, 0))
	}
	next := now.Add(max(readFloor, time.Duration(random()*float64(pause))))
	if provable {
		at := proofAt.Add(afterProof)
		if at.After(now) {
			at = at.Add(time.Duration(random() * float64(min(proofSpread, at.Sub(now)/20))))
			if next.After(at) {
				next = at
			}
		}
	}
	return next
}

// priced is what the policy says of an operation, with its reads scheduled.
// rec.Pricing says what was scheduled before.
func (e *reader) priced(k *policy.Kind, digest string, rec ledger.Record) ledger.Pricing {
	asked := ledger.Never
	if rec.Operation.State == ledger.Uncertain {
		if err := k.NoCheck(rec); transport.LackedHere(err) {
			asked = e.lead.unchecked(scopeOf(k))
			rec.Pricing.Digest, rec.Pricing.DecideAt = digest, asked // until then another process is taken to check it
		}
	}
	p := k.Price(rec)
	p.OperationID, p.Digest = rec.Operation.ID, digest
	p.Reads, p.ReadAt = rec.Pricing.Reads, rec.Pricing.ReadAt
	p.DecideAt = sooner(p.DecideAt, asked)
	switch {
	case k.Read == nil:
		p.ReadAt = ledger.Never
	case p.ReadAt.Equal(ledger.Never): // the policy has a check now
		p.ReadAt = time.Time{}
	}
	return p
}

func (e *reader) afterRead(k *policy.Kind, digest string, rec ledger.Record, wait time.Time) ledger.Pricing {
	now := e.now()
	proofAt, provable := k.ProofAt(rec)
	rec.Pricing.ReadAt = nextRead(rec.Pricing.Reads, now, proofAt, provable, rand.Float64)
	if wait.After(rec.Pricing.ReadAt) {
		rec.Pricing.ReadAt = apart(now, wait)
	}
	return e.priced(k, digest, rec)
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// spread draws what was postponed to one moment apart.
func spread(at time.Time) time.Time {
	return at.Add(time.Duration(rand.Float64() * float64(2*time.Second)))
}

// apart draws what waits for a downstream that is down or throttled apart, after it
// may be read again: the longer it waited, the further apart.
func apart(now, until time.Time) time.Time {
	return until.Add(time.Duration(rand.Float64() * float64(max(2*time.Second, until.Sub(now)/2))))
}

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
		if rec.Operation.Conflict == ledger.ConflictMaybeTwice {
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
