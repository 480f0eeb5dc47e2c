//go:build soak

package reconcile

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func TestI6_AForwardStepOfTheClockProvesNothing(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	w.later(time.Hour) // the control is old enough
	b := w.begin("pay", 420)
	token := b.Operation.Token
	landed := make(chan struct{})
	go func() { // within lands_within: 20s of its sending
		defer close(landed)
		time.Sleep(3 * time.Second)
		w.side.apply(charge{Ref: token, Amount: 420})
	}()
	o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	stop := w.run(w.newEngine(Options{Notify: true}))
	defer stop()
	time.Sleep(700 * time.Millisecond)
	w.later(5 * time.Minute) // the step
	<-landed
	time.Sleep(2 * time.Second) // what the engine still does about it
	stop()

	for _, r := range w.get(o.ID).Reads {
		t.Logf("read %s: %s", r.Verdict, r.Reason)
	}
	w.side.mu.Lock()
	defer w.side.mu.Unlock()
	effects := 0
	for _, c := range w.side.charges {
		if c.Ref == token {
			effects++
		}
	}
	need.That(t, effects == 1, "FAULT: the clock was set forward by five minutes while the write was on its way, and it took effect %d times", effects)
}
