package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// fullDisk is a ledger that cannot be written for a while.
type fullDisk struct {
	ledger.Store
	err   error
	left  atomic.Int32 // questions that still fail
	asked chan time.Time
}

func (s *fullDisk) Expire(ctx context.Context, limit int) (int, error) {
	if s.left.Add(-1) < 0 {
		return s.Store.Expire(ctx, limit)
	}
	s.asked <- time.Now()
	return 0, s.err
}

// An engine whose ledger is gone ends, with what it does beside its loop.
func TestAnEngineEndsWithItsLedger(t *testing.T) {
	w := newWorld(t, payPolicy)
	gone := &fullDisk{Store: w.store, err: ledger.ErrGone, asked: make(chan time.Time, 1)}
	gone.left.Store(1)
	e := w.newEngine(Options{Notify: true})
	e.o.Store = gone
	ended := make(chan error, 1)
	go func() { ended <- e.Run(w.ctx) }()
	select {
	case err := <-ended:
		need.That(t, errors.Is(err, ledger.ErrGone), "ended with %v", err)
	case <-time.After(testPatience):
		t.Error("it does not end")
	}
}

// An engine whose ledger cannot be written asks again after a pause, and fills no disk with saying so.
func TestALedgerThatCannotBeWrittenIsLeftAPause(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		said := make(chan string, 100)
		disk := &fullDisk{Store: w.store, err: errors.New("the disk is full"), asked: make(chan time.Time, 100)}
		disk.left.Store(2)
		w.doubt("pay", 7)
		e := w.newEngine(Options{Log: func(line string) { said <- line }})
		e.o.Store = disk
		defer w.run(e)()
		first, second := <-disk.asked, <-disk.asked
		d := second.Sub(first)
		need.That(t, d >= errorPause, "asked again after %s", d)
		need.Equal(t, <-said, "the ledger could not be asked: write down deadlines that passed: the disk is full", "said")
		need.Equal(t, <-said, "the ledger can be asked again", "then said")
	})
}
