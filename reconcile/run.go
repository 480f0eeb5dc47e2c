package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	passEvery  = 20 * time.Millisecond // least time between two passes
	pollEvery  = time.Second           // longest, for writers that do not notify
	errorPause = 2 * time.Second       // after the ledger could not be read
	batch      = 500                   // rows taken from the ledger at once
	troubleFor = 5 * time.Second       // before an operation that made trouble is read again
)

// activeReads are the operations the run loop has taken, and those it leaves alone
// for a while because reading them failed.
type activeReads struct {
	mu   sync.Mutex
	busy map[string]bool
	rest map[string]time.Time
	each map[*downstream]int
	idle sync.WaitGroup
}

// take takes an operation, unless it is taken, rests, or its downstream has as many
// as it can deal with soon.
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
	if a.busy[id] || a.each[d] >= d.queueLimit() {
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

// Run takes the lead of what nobody leads, and there expires, prices, reads what is due and
// settles until ctx ends; with Options.Notify it also tells people. It sends no operation (I5). It survives a
// ledger that cannot be read for a while. A read-only engine only waits. Errors:
// ErrReadOnly and ErrCopied of a ledger that may not be written, *ledger.AwayError of one
// that has moved, ErrGone of one that is not where it was.
func (e *Engine) Run(ctx context.Context) error {
	if e.o.ReadOnly {
		<-ctx.Done()
		return nil
	}
	e.apply(ctx)
	defer e.claim()()
	defer e.active.idle.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // what is waited for ends with the loop, whatever ended that
	if e.o.Notify {
		e.active.idle.Add(1)
		go func() {
			defer e.active.idle.Done()
			e.notify.run(ctx)
		}()
	}
	watch := e.o.Store.Watch(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	trouble := "" // what was said last
	for ctx.Err() == nil {
		began := time.Now()
		more, err := e.pass(ctx, nil, e.readInBackground)
		switch {
		case err == nil && trouble != "":
			trouble = ""
			e.logf("the ledger can be asked again")
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ledger.ErrReadOnly), errors.Is(err, ledger.ErrCopied), errors.Is(err, ledger.ErrGone):
			return err
		default: // whatever is due meanwhile waits too, and is not told of each time
			if info, bad := e.o.Store.Info(ctx); bad == nil && info.MovedTo != "" {
				return &ledger.AwayError{Ledger: info.Path, To: info.MovedTo}
			}
			if err.Error() != trouble {
				trouble = err.Error()
				e.logf("the ledger could not be asked: %s", trouble)
			}
			if sleep(ctx, errorPause) != nil {
				return nil
			}
			continue
		}
		if sleep(ctx, passEvery-time.Since(began)) != nil {
			return nil
		}
		if more {
			continue
		}
		timer.Reset(e.clocks.wait(e.now(), e.prices.wait(e.lead.wait(e.now(), pollEvery))))
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

// dueRead is one read of an operation that is due, with all it takes to make it.
type dueRead struct {
	row  ledger.Row
	down *downstream
	rec  ledger.Record
	free func() // the operation's lock in this process
}

// pass does all that is due now and starts the reads there is room for, of
// operations that are wanted. more reports that there is more to do at once.
func (e *Engine) pass(ctx context.Context, wanted func(ledger.Row) bool, start func(context.Context, *dueRead)) (more bool, err error) {
	if err := e.checkClock(ctx); err != nil {
		return false, err
	}
	if err := e.expire(ctx); err != nil {
		return false, err
	}
	reads := e.onlyReads(ctx)
	if err := e.asked(); err != nil {
		return false, err
	}
	if !reads { // what cannot be scheduled again would be read without end
		if err := e.startReads(ctx, wanted, start); err != nil {
			return false, err
		}
	}
	if err := e.follow(ctx); err != nil {
		return false, err
	}
	if !e.leads(ledger.LeadLedger) {
		return false, nil
	}
	return e.upkeep(ctx)
}

// backlog is what was due when the ledger was last read, and could not be
// begun yet. Only the loop touches it.
type backlog struct {
	rows  []ledger.Row
	at    time.Time // when it was read
	full  bool      // there may be more than this
	limit int       // rows to read; grows while slow downstreams hide others
	put   int       // rows that were put off when it was read
	dig   time.Time // before this, what stands behind is not read
}

const (
	maxBacklog  = 1 << 14
	freshEnough = 250 * time.Millisecond // for what is due to be taken from the backlog
	digEvery    = time.Second
)

// startReads begins what is due and has room.
func (e *Engine) startReads(ctx context.Context, wanted func(ledger.Row) bool, start func(context.Context, *dueRead)) error {
	b := &e.backlog
	for ctx.Err() == nil {
		fetched, err := b.fill(ctx, e)
		if err != nil {
			return err
		}
		ready, err := e.acquire(ctx, wanted)
		if err != nil {
			return err
		}
		for _, r := range ready {
			start(ctx, r)
		}
		busy := e.active.count()
		switch {
		case len(ready) > 0 || busy >= e.o.Width:
			b.limit = 0
			return nil
		case !fetched || b.put > 0: // read anew, and what stands behind those put off
		case !b.full || time.Now().Before(b.dig):
			return nil
		case b.limit >= maxBacklog:
			b.limit, b.dig = 0, time.Now().Add(digEvery)
			return nil
		default:
			b.limit *= 2
		}
		b.rows = nil
	}
	return nil
}

// fill reads from the ledger what is due, unless that was done a moment ago and not
// all of it is begun. It reports whether it did.
func (b *backlog) fill(ctx context.Context, e *Engine) (bool, error) {
	if len(b.rows) > 0 && time.Since(b.at) < freshEnough {
		return false, nil
	}
	b.limit = max(b.limit, 8*e.o.Width)
	due, err := e.o.Store.Due(ctx, e.now(), b.limit)
	if err != nil {
		return false, fmt.Errorf("find what is due: %w", err)
	}
	b.full, b.at = len(due) == b.limit, time.Now()
	b.rows, b.put, err = e.postpone(ctx, due)
	return true, err
}

// acquire takes the rows that their downstreams have room for, with their records.
func (e *Engine) acquire(ctx context.Context, wanted func(ledger.Row) bool) ([]*dueRead, error) {
	pol, now := e.policy(), e.now()
	rows := e.backlog.rows
	e.backlog.rows = rows[:0]
	var took []*dueRead
	var ids []string
	for _, row := range rows {
		k := pol.Kind(row.Kind)
		d := e.downs.of(k)
		if wanted != nil && !wanted(row) {
			continue
		}
		if !e.active.take(row.ID, d, now) {
			e.backlog.rows = append(e.backlog.rows, row)
			continue
		}
		free, ok := e.ops.try(row.ID)
		if !ok { // another goroutine is at it
			e.active.give(row.ID, d, time.Time{})
			continue
		}
		took = append(took, &dueRead{row: row, down: d, free: free})
		ids = append(ids, row.ID)
	}
	if len(took) == 0 {
		return nil, nil
	}
	recs, err := e.o.Store.Records(ctx, ids) // in the order of ids
	var ready []*dueRead
	for _, r := range took {
		if len(recs) > 0 && recs[0].Operation.ID == r.row.ID {
			r.rec, recs = recs[0], recs[1:]
			ready = append(ready, r)
			continue
		}
		r.free()
		e.active.give(r.row.ID, r.down, time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("read what is due: %w", err)
	}
	return ready, nil
}

// readInBackground reads one operation and wakes the loop when it is done.
func (e *Engine) readInBackground(ctx context.Context, r *dueRead) {
	go func() {
		rest := time.Time{}
		if _, err := e.readDue(ctx, r); err != nil && ctx.Err() == nil {
			rest = e.now().Add(troubleFor)
			e.logf("check %s: %v", r.row.ID, err)
		}
		e.active.give(r.row.ID, r.down, rest)
		e.nudge()
	}()
}

// readDue reads one operation that is due, in a goroutine of its own. It returns no error
// where it was moved, or read by another process.
func (e *Engine) readDue(ctx context.Context, r *dueRead) (ReadResult, error) {
	result, err := e.checkLocked(ctx, r.row.ID, check{actor: e.checker(), due: &r.row, rec: r.rec})
	r.free()
	switch {
	case errors.Is(err, ledger.ErrRefused), errors.Is(err, errNotDue):
		return ReadResult{}, nil
	}
	return result, err
}
