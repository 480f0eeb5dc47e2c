package reconcile

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const deployPolicy = `
version: 1
defaults: { deadline: 10s, retry: { max: 3, backoff: 1ms..5ms } }
downstreams:
  pay: { base: %q, concurrency: 1 }
kinds:
  deploy:
    downstream: pay
    target: web
    idempotent: true
    send: { http: { post: /charges, json: "${input}" } }
`

// What is safe to repeat is so until a later operation on its target: also one
// that began while the repeat waited for its turn.
func TestI5_OvertakenWhileWaitingForItsTurn(t *testing.T) {
	w := newWorld(t, deployPolicy)
	begin := func() ledger.BeginResult {
		w.n++
		res := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
			ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "deploy", Key: fmt.Sprint(w.n),
			Token: ledger.NewToken(), Fingerprint: fmt.Sprint(w.n), Target: "web", Input: json.RawMessage(`{}`),
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
	need.That(t, code(err) == "related" || code(err) == "basis", "%v", err)
	_, posts, _ := w.side.count()
	need.That(t, posts == 0, "%d sent", posts)
}
