package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// leaseFor is how long a lease lasts: one page, with room for writing down. It is
// renewed for reads that take longer or wait for their turn.
func leaseFor(k *policy.Kind) time.Duration {
	return 2*pageTime(k) + 5*time.Second
}

// pageTime is the longest one page may take.
func pageTime(k *policy.Kind) time.Duration {
	if k.Timeout > 0 {
		return k.Timeout
	}
	return readTimeout
}

// holding is a lease in use.
type holding struct {
	engine *reader
	digest string
	ttl    time.Duration

	mu    sync.Mutex
	lease ledger.Lease
	lost  bool
	done  bool // given back already
}

// keep renews the lease while what holds it waits, for its turn at a downstream
// or for another's control, until stop is called.
func (h *holding) keep(ctx context.Context) (stop func()) {
	var timer *time.Timer
	h.mu.Lock()
	defer h.mu.Unlock()
	timer = time.AfterFunc(h.ttl/2, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.done || h.lost || ctx.Err() != nil {
			return
		}
		_ = h.renew(ctx) // ensure reports a lease that is lost; else it is tried again
		timer.Reset(h.ttl / 2)
	})
	return func() { timer.Stop() }
}

// ensure renews the lease where it might run out before one more page is read
// and written down.
func (h *holding) ensure(ctx context.Context, k *policy.Kind) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		return ledger.ErrLeaseLost
	}
	if h.lease.ExpiresAt.Sub(h.engine.now()) > pageTime(k)+settleRoom {
		return nil
	}
	return h.renew(ctx)
}

// renew needs h.mu.
func (h *holding) renew(ctx context.Context) error {
	renewed, err := h.engine.o.Store.Lease(ctx, h.lease.OperationID, h.engine.holder, h.digest, h.ttl)
	if err == nil && renewed.Generation == h.lease.Generation {
		h.lease = renewed
		return nil
	}
	if err == nil { // another engine had it in between
		_ = h.engine.o.Store.Release(ctx, renewed)
	} else if !errors.As(err, new(*ledger.LeasedError)) {
		return err
	}
	h.lost = true
	return ledger.ErrLeaseLost
}

// held is the lease as it stands.
func (h *holding) held() ledger.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// returned notes that the ledger has taken the lease back.
func (h *holding) returned() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
}

func (h *holding) release(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done || h.lost || h.lease.Generation == 0 {
		return
	}
	h.done = true
	if err := h.engine.o.Store.Release(context.WithoutCancel(ctx), h.lease); err != nil {
		h.engine.logf("release the lease on %s: %v", h.lease.OperationID, err)
	}
}

// lease takes the operation's lease, waiting a little for its holder.
func (e *reader) lease(ctx context.Context, id, digest string, ttl, patience time.Duration) (ledger.Lease, error) {
	until := time.Now().Add(patience)
	for {
		lease, err := e.o.Store.Lease(ctx, id, e.holder, digest, ttl)
		var held *ledger.LeasedError
		if !errors.As(err, &held) || time.Now().After(until) {
			return lease, err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return lease, err
		}
	}
}
