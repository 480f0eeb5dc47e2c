package reconcile

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// maxClocks bounds how many operations are kept by their clock; those beyond it
// are priced anew when they move or are read.
const maxClocks = 100_000

// clocks are the coming moments at which time alone changes what a policy says
// of an operation: a proof becomes possible, a key is forgotten, a person is to
// be asked. They are kept so that nothing has to be polled.
type clocks struct {
	mu   sync.Mutex
	heap clockHeap
	next map[string]time.Time // by operation; an entry of the heap that differs is stale
}

type clockAt struct {
	id string
	at time.Time
}

// note takes over the moments of new prices.
func (c *clocks) note(quotes []quote, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = map[string]time.Time{}
	}
	for _, q := range quotes {
		if !q.changes.After(now) || !q.changes.Before(ledger.Never) || len(c.heap) >= maxClocks {
			delete(c.next, q.OperationID)
			continue
		}
		if !c.next[q.OperationID].Equal(q.changes) {
			c.next[q.OperationID] = q.changes
			heap.Push(&c.heap, clockAt{q.OperationID, q.changes})
		}
	}
}

// due takes out the operations whose moment has come, at most limit.
func (c *clocks) due(now time.Time, limit int) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.heap) > 0 && !c.heap[0].at.After(now) && len(ids) < limit {
		top := heap.Pop(&c.heap).(clockAt)
		if c.next[top.id].Equal(top.at) {
			delete(c.next, top.id)
			ids = append(ids, top.id)
		}
	}
	return ids
}

// again makes them due once more.
func (c *clocks) again(ids []string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.next[id] = now
		heap.Push(&c.heap, clockAt{id, now})
	}
}

// wait is how long until the next moment, at most the time given.
func (c *clocks) wait(now time.Time, most time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heap) == 0 {
		return most
	}
	return min(most, max(c.heap[0].at.Sub(now), 0))
}

// all makes every clock due: the wall clock was set, and they were set by it.
func (c *clocks) all(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heap = c.heap[:0]
	for id := range c.next {
		c.next[id] = now
		c.heap = append(c.heap, clockAt{id, now})
	}
}

// asOf is the record as the clocks stand at the moment. What is computed from a
// record goes by its clocks, and the wall clock may have been set since it was read.
func asOf(rec ledger.Record, at ledger.Moment) ledger.Record {
	rec.Now, rec.Steady = at.Wall, at.Steady
	return rec
}

// checkClock notices that the wall clock was set. Only the first engine to do so
// writes it down; all of them price anew what they had set by it.
func (e *Engine) checkClock(ctx context.Context) error {
	now := e.moment()
	first := e.clock.Boot == ""
	if !first && now.ClockLead().Step(e.clock) == 0 {
		return nil
	}
	step, err := e.o.Store.Stepped(ctx)
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	if step != 0 {
		e.logf("%s", ledger.StepEvent(step).Reason)
	}
	if e.clock = now.ClockLead(); !first {
		e.clocks.all(now.Wall)
	}
	return nil
}

// nextChange is the next moment at which a clock changes what the policy says of
// the operation; the zero time when none does.
func nextChange(k *policy.Kind, rec ledger.Record, p ledger.Pricing, now time.Time) time.Time {
	var next time.Time
	soonest := func(at time.Time) {
		if at.After(now) && at.Before(ledger.Never) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if proof, ok := k.ProofAt(rec); ok && rec.Operation.State == ledger.Uncertain {
		soonest(proof)
	}
	soonest(k.KeySafeUntil(rec))
	soonest(p.DecideAt)
	soonest(rec.Operation.ParkedUntil)
	return next
}

// repriceDue prices anew what a clock has changed. The new prices notify the
// ledger's watchers, so that consoles read again.
func (e *Engine) repriceDue(ctx context.Context) error {
	ids := e.clocks.due(e.now(), batch)
	if len(ids) == 0 || e.onlyReads(ctx) {
		return nil
	}
	err := e.reprice(ctx, ids, func(ledger.Record, quote) bool { return true })
	if err != nil {
		e.clocks.again(ids, e.now())
	}
	return err
}

// reprice prices operations anew as they stand now, where that is wanted. What has no
// price of this policy is priced as unpriced, or has left the list.
func (e *Engine) reprice(ctx context.Context, ids []string, wanted func(ledger.Record, quote) bool) error {
	recs, err := e.o.Store.Records(ctx, ids)
	if err != nil {
		return fmt.Errorf("read what is priced anew: %w", err)
	}
	pol := e.policy()
	digest := pol.Digest()
	var quotes []quote
	for _, rec := range recs {
		if rec.Pricing.Digest != digest {
			continue
		}
		if q := e.priced(pol.Kind(rec.Operation.Kind), digest, rec); wanted(rec, q) {
			quotes = append(quotes, q)
		}
	}
	return e.price(ctx, quotes...)
}

// PriceAsSeen prices anew those of the operations whose odds have moved with the ledger's
// history since they were priced, where this process leads: a list's sum is to be that of the
// rows a person sees.
func (e *Engine) PriceAsSeen(ctx context.Context, ids []string) error {
	if e.o.ReadOnly || e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
		return nil
	}
	return e.reprice(ctx, ids, func(rec ledger.Record, q quote) bool { return q.Rank != rec.Pricing.Rank })
}

type clockHeap []clockAt

func (h clockHeap) Len() int           { return len(h) }
func (h clockHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h clockHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *clockHeap) Push(x any)        { *h = append(*h, x.(clockAt)) }
func (h *clockHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
