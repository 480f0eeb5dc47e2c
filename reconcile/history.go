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
// fetched every few seconds at most, while those of before serve. It is safe for use by
// many goroutines.
type History struct {
	store ledger.Statistics

	mu       sync.Mutex
	fetching bool
	fetched  time.Time // zero: never
	past     *policy.Past
	from     *policy.Policy // the last one that was given
	wise     *policy.Policy // and the same with its history
}

// NewHistory makes the history of a ledger.
func NewHistory(store ledger.Statistics) *History { return &History{store: store} }

// Policy is the policy with odds that rest on the ledger's history. Where the
// ledger cannot tell, the newest history that is known serves. Only the first call waits
// for the ledger: a screen is drawn while its server is silent.
func (h *History) Policy(ctx context.Context, p *policy.Policy) *policy.Policy {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.fetched.IsZero():
		h.take(h.store.DoubtCounts(ctx))
	case !h.fetching && time.Since(h.fetched) > historyAge:
		h.fetching = true
		go func() {
			counts, err := h.store.DoubtCounts(ctx)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.take(counts, err)
		}()
	}
	if h.from != p {
		h.from, h.wise = p, p.WithHistory(h.past)
	}
	return h.wise
}

// take takes in what was fetched.
func (h *History) take(counts []ledger.DoubtCount, err error) {
	h.fetching, h.fetched = false, time.Now()
	if err == nil {
		h.past, h.from = policy.History(counts), nil
	}
}
