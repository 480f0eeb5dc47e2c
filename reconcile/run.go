package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
)

const (
	passEvery  = 20 * time.Millisecond // least time between two looks at the ledger
	pollEvery  = time.Second           // longest, for writers that ring no bell
	errorPause = 2 * time.Second       // after the ledger could not be asked
	autoEvery  = 15 * time.Second      // between two searches for what may be sent by itself
	batch      = 500                   // rows taken from the ledger at once
	troubleFor = 5 * time.Second       // before an operation that made trouble is read again
)

// activeReads are the operations the run loop has in hand, and those it leaves
// alone for a while because reading them failed.
type activeReads struct {
	mu    sync.Mutex
	busy  map[string]bool
	rest  map[string]time.Time
	each  map[*downstream]int
	idle  sync.WaitGroup
	limit atomic.Int64 // rows asked of the ledger at once; grows while slow downstreams hide others
}

// take puts an operation into hand, unless it is there, rests, or its
// downstream has as many as it can deal with soon.
func (a *activeReads) take(id string, d *downstream, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy == nil {
		a.busy, a.rest, a.each = map[string]bool{}, map[string]time.Time{}, map[*downstream]int{}
	}
	if until, resting := a.rest[id]; resting {
		if now.Before(until) {
			return false
		}
		delete(a.rest, id)
	}
	if a.busy[id] || a.each[d] >= d.inHand() {
		return false
	}
	a.busy[id] = true
	a.each[d]++
	a.idle.Add(1)
	return true
}

func (a *activeReads) give(id string, d *downstream, restUntil time.Time) {
	a.mu.Lock()
	delete(a.busy, id)
	if a.each[d]--; a.each[d] == 0 {
		delete(a.each, d)
	}
	if !restUntil.IsZero() {
		a.rest[id] = restUntil
	}
	a.mu.Unlock()
	a.idle.Done()
}

func (a *activeReads) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.busy)
}

// Run expires, prices, reads what is due and settles until ctx ends; with
// Options.Send it also sends where the policy says so. It survives a ledger
// that cannot be asked for a while. A read-only engine only waits. Errors:
// ErrReadOnly and ErrCopied of a ledger that may not be written.
func (e *Engine) Run(ctx context.Context) error {
	if e.o.ReadOnly {
		<-ctx.Done()
		return nil
	}
	defer e.active.idle.Wait()
	watch := e.o.Store.Watch(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	lastAuto := time.Time{}
	for ctx.Err() == nil {
		began := time.Now()
		rest := pollEvery
		more, err := e.pass(ctx, e.readInBackground)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ledger.ErrReadOnly), errors.Is(err, ledger.ErrCopied):
			return err
		default:
			e.logf("the ledger could not be asked: %v", err)
			rest = errorPause
		}
		if e.o.Send && time.Since(lastAuto) >= autoEvery {
			lastAuto = time.Now()
			e.sendWhatMayBe(ctx)
		}
		if sleep(ctx, passEvery-time.Since(began)) != nil {
			return nil
		}
		if more {
			continue
		}
		timer.Reset(rest)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-e.wake:
		case _, open := <-watch:
			if !open {
				watch = nil
			}
		}
	}
	return nil
}

// pass looks at the ledger once and starts the reads there is room for. more
// tells that there is more to do at once.
func (e *Engine) pass(ctx context.Context, start func(context.Context, ledger.Row, *downstream)) (more bool, err error) {
	more, err = e.upkeep(ctx)
	if err != nil {
		return false, err
	}
	now := e.now()
	if e.rivals.about(now) {
		return false, nil // what cannot be scheduled again would be read without end
	}
	limit := max(int(e.active.limit.Load()), 2*e.o.Width)
	due, err := e.o.Store.Due(ctx, now, limit)
	if err != nil {
		return false, fmt.Errorf("find what is due: %w", err)
	}
	rows, err := e.postpone(ctx, due)
	if err != nil {
		return false, err
	}
	pol, started := e.policy(), 0
	for _, row := range rows {
		if d := e.downs.of(pol.Kind(row.Kind)); e.active.take(row.ID, d, now) {
			started++
			start(ctx, row, d)
		}
	}
	e.active.limit.Store(0)
	if started == 0 && len(due) == limit && limit < 1<<14 && e.active.count() < e.o.Width {
		e.active.limit.Store(int64(2 * limit)) // others may stand behind those that have to wait
	}
	return more || len(rows) < len(due), nil
}

// readInBackground reads one operation and wakes the loop when it is done.
func (e *Engine) readInBackground(ctx context.Context, row ledger.Row, d *downstream) {
	go func() {
		rest := time.Time{}
		if _, err := e.readDue(ctx, row); err != nil && ctx.Err() == nil {
			rest = e.now().Add(troubleFor)
			e.logf("check %s: %v", row.ID, err)
		}
		e.active.give(row.ID, d, rest)
		e.nudge()
	}()
}

// readDue reads one operation that is due. Somebody else having it, or having
// moved it, is no error.
func (e *Engine) readDue(ctx context.Context, row ledger.Row) (ReadResult, error) {
	result, err := e.check(ctx, row.ID, check{actor: e.checker(), due: true, kind: row.Kind})
	var leased *ledger.LeasedError
	switch {
	case errors.As(err, &leased), errors.Is(err, ledger.ErrLeaseLost), errors.Is(err, ledger.ErrRefused), errors.Is(err, errNotDue):
		return ReadResult{}, nil
	case err != nil:
		return result, err
	}
	if e.o.Send && mayEver(e.policy().Kind(row.Kind)) {
		e.consider(ctx, result.Operation.ID)
	}
	return result, nil
}
