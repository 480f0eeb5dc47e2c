package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
)

// liveEngine is the console's engine over the ledger that is shown now. When
// the ledger's file was replaced and opened again, a new engine takes over; one
// before it that still waits for an answer is waited for.
type liveEngine struct {
	make func(ledger.Store) *reconcile.Engine
	ctx  context.Context
	look bool // nothing runs by itself

	shown chan struct{} // closed with the first frame, before which no loop begins

	mu      sync.RWMutex
	all     []*reconcile.Engine // the newest last
	stop    context.CancelFunc  // of the newest's loop
	running sync.WaitGroup
}

// over lets a new engine take over, on another store.
func (l *liveEngine) over(s ledger.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
	e := l.make(s)
	l.all = append(l.all, e)
	ctx, stop := context.WithCancel(l.ctx)
	l.stop = stop
	if l.look {
		return
	}
	l.running.Go(func() {
		select { // both would wait for connections, and for the processor
		case <-l.shown:
		case <-ctx.Done():
			return
		}
		// What goes wrong is shown as the health of a downstream or of the ledger. A
		// ledger that is gone may come back; another one in its place gets an engine
		// of its own.
		for errors.Is(e.Run(ctx), ledger.ErrGone) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
}

// end stops the loops and waits for what is in flight.
func (l *liveEngine) end(ctx context.Context) {
	l.mu.RLock()
	l.stop()
	l.mu.RUnlock()
	l.running.Wait()
	l.Drain(ctx)
}

func (l *liveEngine) now() *reconcile.Engine {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[len(l.all)-1]
}

func (l *liveEngine) engines() []*reconcile.Engine {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return append([]*reconcile.Engine(nil), l.all...)
}

// ReadNow, Plan, Retry and Health ask the engine over the ledger that is shown.
func (l *liveEngine) ReadNow(ctx context.Context, id string) (reconcile.ReadResult, error) {
	return l.now().ReadNow(ctx, id)
}

func (l *liveEngine) Plan(ctx context.Context, id string) (reconcile.Plan, error) {
	return l.now().Plan(ctx, id)
}

func (l *liveEngine) Retry(ctx context.Context, q reconcile.RetryRequest) (reconcile.RetryResult, error) {
	return l.now().Retry(ctx, q)
}

func (l *liveEngine) Health() []reconcile.Health { return l.now().Health() }

// OnlyReads reports whether this host does not have the policy in force.
func (l *liveEngine) OnlyReads() bool { return l.now().OnlyReads() }

// CheckedBy is who makes the checks.
func (l *liveEngine) CheckedBy() string { return l.now().CheckedBy() }

// PriceAsSeen prices rows anew that are seen with other odds.
func (l *liveEngine) PriceAsSeen(ctx context.Context, ids []string) error {
	return l.now().PriceAsSeen(ctx, ids)
}

// Busy counts what any of them has in flight.
func (l *liveEngine) Busy() int {
	n := 0
	for _, e := range l.engines() {
		n += e.Busy()
	}
	return n
}

// Drain waits for all of them.
func (l *liveEngine) Drain(ctx context.Context) {
	for _, e := range l.engines() {
		e.Drain(ctx)
	}
}
