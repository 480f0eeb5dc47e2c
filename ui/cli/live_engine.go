package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/console"
)

// liveEngine runs the console's engine over the ledger that is shown. When the ledger's file
// was replaced and opened again, a new engine takes over; one before it that still waits for
// an answer is waited for.
type liveEngine struct {
	make func(ledger.Store) *reconcile.Engine
	ctx  context.Context
	look bool // nothing runs by itself

	shown chan struct{} // closed with the first frame, before which no loop begins

	all     []*reconcile.Engine
	stop    context.CancelFunc // of the newest's loop
	running sync.WaitGroup
}

// over lets a new engine take over, on another store.
func (l *liveEngine) over(s ledger.Store) console.Engine {
	if l.stop != nil {
		l.stop()
	}
	e := l.make(s)
	l.all = append(l.all, e)
	ctx, stop := context.WithCancel(l.ctx)
	l.stop = stop
	if l.look {
		return e
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
	return e
}

// end stops the loops and waits for what is in flight.
func (l *liveEngine) end(ctx context.Context) {
	l.stop()
	l.running.Wait()
	for _, e := range l.all {
		e.Drain(ctx)
	}
}
