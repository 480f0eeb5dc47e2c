package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const deployPolicy = `
version: 1
defaults: { deadline: 10s, retry: { max: 3, backoff: 1ms..5ms } }
downstreams:
  pay: { base: %q, concurrency: 1, headers: { Authorization: "Bearer ${env.PAY_KEY}" } }
kinds:
  deploy:
    downstream: pay
    target: web
    effect: safe
    resend: here
`

// What is safe to repeat is so until a later operation on its target: also one
// that began while the repeat waited for its turn.
func TestI5_OvertakenWhileWaitingForItsTurn(t *testing.T) {
	w := newWorld(t, deployPolicy)
	begin := func() ledger.BeginResult {
		w.n++
		res := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
			ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "deploy", Key: fmt.Sprint(w.n),
			Token: ledger.NewToken(), Fingerprint: fmt.Sprint(w.n), Target: "web", Input: json.RawMessage(`{}`), Request: w.recorded("pay", `{}`),
			Sender: "pipeline", KeyWorks: true, Deadline: time.Minute, Actor: pipeline,
		}))(t)
		return res
	}
	o := w.settle(begin(), ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	d := w.engine.downs.of(w.inForce().Kind("deploy"))
	d.slots <- struct{}{}
	done := make(chan error, 1)
	go func() {
		_, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisKeySafe})
		done <- err
	}()
	time.Sleep(100 * time.Millisecond) // it waits; where it does not yet, the refusal comes earlier
	begin()
	<-d.slots
	err := <-done
	need.That(t, code(err) == "related" || code(err) == "refused", "%v", err)
	need.Equal(t, w.side.posted(), 0, "sent")
}

const sharedPolicy = payPolicy + "    target: web\n"

// What happens beside a doubt moves it between those that need a person and those that
// are checked, without a poll of them all: what came later on its target, whatever becomes
// of that.
func TestADoubtIsPricedAnewForWhatIsBesideIt(t *testing.T) {
	begun := func(w *world, mod func(*ledger.BeginRequest)) ledger.BeginResult {
		w.n++
		req := ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: fmt.Sprint("beside ", w.n),
			Token: ledger.NewToken(), Fingerprint: fmt.Sprint("other ", w.n), Input: json.RawMessage(`{"amount":1}`), Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: pipeline}
		mod(&req)
		return need.Get(ledger.Begin(w.ctx, w.store, req))(w)
	}
	asks := func(r *ledger.BeginRequest) { r.Gate = strings.Repeat("a", 64) }
	for name, c := range map[string]struct {
		policy     string
		first, mod func(*ledger.BeginRequest)
	}{
		"the policy names it": {sharedPolicy, func(r *ledger.BeginRequest) { r.Target = "web" }, func(r *ledger.BeginRequest) { r.Target = "web" }},
		"the same request":    {payPolicy, asks, asks},
	} {
		t.Run(name, func(t *testing.T) {
			w, mod := newWorld(t, c.policy), c.mod
			store := &counted{Store: w.store}
			e := w.leading()
			e.o.Store = store
			o := w.settle(begun(w, c.first), ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1, Passes: true})
			look := func() ledger.Lane { // what a pass does but for the checks
				t.Helper()
				e.after.next = time.Time{}
				need.Get(e.follow(w.ctx))(t)
				need.Get(e.priceBatch(w.ctx))(t)
				return w.lane(o.ID)
			}
			need.Equal(t, look(), ledger.LaneReading, "nothing is beside it")
			other := begun(w, mod)
			need.Equal(t, look(), ledger.LaneDecide, "another is in flight")
			writes := store.price.Load()
			look()
			need.Equal(t, store.price.Load(), writes, "prices written though nothing moved")
			w.settle(other, ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused, Status: 400})
			need.Equal(t, look(), ledger.LaneReading, "the other was refused")
			other = begun(w, mod)
			need.Equal(t, look(), ledger.LaneDecide, "one more is in flight")
			w.settle(other, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201})
			need.Equal(t, look(), ledger.LaneDecide, "it landed")

			// A check that was on its way meanwhile writes the price it was begun with.
			d := e.downs.of(w.inForce().Kind("pay"))
			d.enter(o.ID)
			begun(w, mod)
			look()
			stale := w.get(o.ID).Pricing
			stale.DecideAt = w.now().Add(time.Hour)
			need.OK(t, w.store.Price(w.ctx, []ledger.Pricing{stale}))
			d.leave(o.ID, false)
			need.Equal(t, look(), ledger.LaneDecide, "a check ended")
		})
	}
}

// A writer in plain SQL names no target: the policy does, when it prices what came later.
func TestADoubtIsPricedAnewForWhatThePolicyNames(t *testing.T) {
	w := newWorldInFile(t, sharedPolicy)
	w.leading()
	o := w.doubt("pay", 1)
	need.Get(w.engine.priceBatch(w.ctx))(t)
	need.Equal(t, w.lane(o.ID), ledger.LaneReading, "alone")
	w.doubt("pay", 2)
	need.Get(w.engine.follow(w.ctx))(t)
	need.Equal(t, w.lane(o.ID), ledger.LaneReading, "the other has no name yet")
	need.Get(w.engine.priceBatch(w.ctx))(t)
	need.Equal(t, w.lane(o.ID), ledger.LaneDecide, "the other has a name")
}
