package reconcile

import (
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	// rivalFor is how long an engine only looks after it noticed another policy at
	// work on its ledger.
	rivalFor = time.Minute
	// rivalMemory is how long ago a price may have been written for its loss to
	// mean that another engine is at work, and not that one was at work before.
	rivalMemory = 30 * time.Second
	rivalRows   = 50_000
)

// rivals notices engines that work on the same ledger under another policy.
// Each writes its prices over the other's; whoever sees its own undone, with
// nothing moved, only looks from then on: it neither prices, settles nor sends.
type rivals struct {
	mu     sync.Mutex
	mine   map[string]ownPrice // by operation
	until  time.Time
	digest string
}

// ownPrice is when this engine has priced an operation, and as what version.
type ownPrice struct {
	at      time.Time
	version int64
}

// priced notes prices that this engine has written.
func (r *rivals) priced(quotes []quote, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mine == nil || len(r.mine) > rivalRows {
		r.mine = map[string]ownPrice{}
	}
	for _, q := range quotes {
		r.mine[q.OperationID] = ownPrice{now, q.version}
	}
}

// met is told of an operation that carries another policy's price, and returns
// whether that is a rival's work. An engine without a policy file gives way to
// any that has one.
func (r *rivals) met(o ledger.Operation, empty bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, was := r.mine[o.ID]
	if !empty && (!was || own.version != o.Version || now.Sub(own.at) > rivalMemory) {
		return false
	}
	r.until = now.Add(rivalFor)
	r.mine = nil
	return true
}

// about tells whether a rival was noticed lately.
func (r *rivals) about(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until)
}

// under says which policy this engine works under now; another one than before
// makes its earlier prices outdated, not undone.
func (r *rivals) under(digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.digest != digest {
		r.digest, r.mine, r.until = digest, nil, time.Time{}
	}
}
