package reconcile

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// While answers are waited for, what is still to be priced is priced.
func TestPricingGoesOnWhileReadsAreWaitedFor(t *testing.T) {
	w := newWorld(t, payPolicy)
	release := make(chan struct{})
	w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool { <-release; return true }
	defer func() { close(release); w.engine.background.Wait() }()
	for range priceAtOnce + 1 {
		w.doubt("pay", 1)
	}
	e := w.leading()
	for more, checks := true, 0; more; {
		begun, again, err := e.pass(w.ctx, w.now(), func(ReadResult, error) {})
		checks, more = checks+begun, again
		need.Must(t, err == nil && checks == inHand*politeness, "%d checks in hand, %v", checks, err)
	}
	ops, err := w.store.Unpriced(w.ctx, w.inForce().Digest(), 1)
	need.That(t, err == nil && len(ops) == 0, "%d without a price, %v", len(ops), err)
}

// halfDeaf is a ledger that tells only what is due of downstreams.
type halfDeaf struct{ ledger.Store }

func (h halfDeaf) Due(ctx context.Context, downstream string, now time.Time, limit int) ([]ledger.Due, error) {
	if downstream == "" {
		return nil, ledger.ErrBusy
	}
	return h.Store.Due(ctx, downstream, now, limit)
}

// What was due when the ledger failed to tell the rest is checked when it tells again.
func TestALedgerThatTellsHalfOfWhatIsDueLosesNothing(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420, 420)
	e := w.leading()
	need.Get(e.priceBatch(w.ctx))(t)
	e.o.Store = halfDeaf{w.store}
	_, _, err := e.pass(w.ctx, w.now(), func(ReadResult, error) {})
	need.Must(t, errors.Is(err, ledger.ErrBusy), "%v", err)
	e.o.Store = w.store
	_, _, err = e.pass(w.ctx, w.now(), func(ReadResult, error) {})
	need.OK(t, err)
	e.background.Wait()
	need.Equal(t, w.get(o.ID).Operation.State, ledger.Committed)
}

// spoilt is a ledger with a deadline that it refuses to have written down.
type spoilt struct{ within }

func (spoilt) Expire(context.Context, int) (int, error) {
	return 0, &ledger.GuardError{Message: "no"}
}

// What the ledger refuses to have written down is told, and keeps nothing from being checked.
func TestARefusedDeadlineKeepsNothingFromBeingChecked(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420, 420)
	e := w.leading()
	need.Get(e.priceBatch(w.ctx))(t)
	e.o.Store = spoilt{within{w.store}}
	_, _, err := e.pass(w.ctx, w.now(), func(ReadResult, error) {})
	need.Must(t, errors.Is(err, ledger.ErrGuard), "%v", err)
	e.background.Wait()
	need.Equal(t, w.get(o.ID).Operation.State, ledger.Committed)
}
