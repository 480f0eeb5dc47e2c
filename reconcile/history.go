package reconcile

import (
	"context"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// historyAge is how old counts may be before they are fetched again.
const historyAge = 5 * time.Second

// History lets a policy's odds learn from how the ledger's own doubts ended. It
// is cheap to call all the time: the ledger keeps the counts, and they are
// fetched every few seconds at most. It is safe for use by many goroutines.
type History struct {
	store ledger.Statistics

	mu      sync.Mutex
	fetched time.Time
	past    *policy.Past
	from    *policy.Policy // the last one that was given
	wise    *policy.Policy // and the same with its history
}

// NewHistory makes the history of a ledger.
func NewHistory(store ledger.Statistics) *History { return &History{store: store} }

// Policy is the policy with odds that rest on the ledger's history. Where the
// ledger cannot tell, the newest history that is known serves.
func (h *History) Policy(ctx context.Context, p *policy.Policy) *policy.Policy {
	if p == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.fetched) > historyAge {
		h.fetched = now
		if counts, err := h.store.DoubtCounts(ctx); err == nil {
			h.past, h.from = policy.History(counts), nil
		}
	}
	if h.from != p {
		h.from, h.wise = p, p.WithHistory(h.past)
	}
	return h.wise
}

// WithHistory is the policy with odds that rest on the ledger's history as it
// is now, for programs that end soon.
func WithHistory(ctx context.Context, store ledger.Statistics, p *policy.Policy) *policy.Policy {
	return NewHistory(store).Policy(ctx, p)
}
