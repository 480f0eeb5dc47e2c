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

// An engine whose ledger cannot be written asks again after a pause, whatever
// clock is due meanwhile, and fills no disk with saying so.
func TestALedgerThatCannotBeWrittenIsLeftAPause(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		said := make(chan string, 100)
		disk := &fullDisk{Store: w.store, err: errors.New("the disk is full"), asked: make(chan time.Time, 100)}
		disk.left.Store(2)
		o := w.doubt("pay", 7)
		e := w.newEngine(Options{Log: func(line string) { said <- line }})
		e.o.Store = disk
		e.clocks.note([]quote{{Pricing: ledger.Pricing{OperationID: o.ID}, changes: w.now().Add(time.Millisecond)}}, w.now())
		defer w.run(e)()
		first, second := <-disk.asked, <-disk.asked
		d := second.Sub(first)
		need.That(t, d >= errorPause, "asked again after %s", d)
		need.Equal(t, <-said, "the ledger could not be asked: write down deadlines that passed: the disk is full", "said")
		need.Equal(t, <-said, "the ledger can be asked again", "then said")
	})
}

// busyStore is a ledger that somebody has locked.
type busyStore struct{ ledger.Store }

func (busyStore) Price(context.Context, []ledger.Pricing) error { return ledger.ErrBusy }

// A clock that strikes while the ledger cannot be written strikes again. What is
// no more in the ledger, after a backup came back, has no clock.
func TestAClockIsNotLostToALockedLedger(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 7)
	e := w.newEngine(Options{})
	need.Get(e.priceBatch(w.ctx))(t)
	now := w.now()
	for _, id := range []string{"gone", o.ID} {
		e.clocks.note([]quote{{Pricing: ledger.Pricing{OperationID: id}, changes: now.Add(time.Second)}}, now)
	}
	w.pass(2 * time.Second)
	e.o.Store = busyStore{w.store}
	err := e.repriceDue(w.ctx)
	need.Must(t, errors.Is(err, ledger.ErrBusy), "%v", err)
	need.Equal(t, e.clocks.wait(w.now(), time.Hour), 0, "the clock strikes again in")
	e.o.Store = w.store
	need.OK(t, e.repriceDue(w.ctx))
	ids := e.clocks.due(w.now(), 10)
	need.That(t, len(ids) == 0, "%v is left", ids)
}

// What an event's detail says is counted, not how its reason ends.
func TestReplayedAnswersAreCountedByTheDetailOfTheirEvent(t *testing.T) {
	for _, c := range []struct {
		settle   ledger.SettleRequest
		replayed bool
	}{
		{ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Already: true}, true},
		{ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Receipt: "ch: already there"}, false},
	} {
		w := newWorldAlone(t, carriedPolicy)
		o := w.settle(w.beginAs("told", nil, nil), c.settle)
		events := need.Get(w.store.History(w.ctx, ledger.HistoryQuery{Operation: o.ID, Limit: 10}))(t)
		if told := told(events[len(events)-1]); !told.committed || told.replayed != c.replayed {
			t.Errorf("%s: %+v", events[len(events)-1].Reason, told)
		}
	}
}
