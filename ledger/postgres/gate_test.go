//go:build soak

package postgres

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// I4: of many who begin one request at once, on two hosts and under keys that were made of it
// or given, one sends, whether the keys are new or had failed before.
func TestI4_OneOfManyKeysBegins(t *testing.T) {
	url := made(t)
	hosts := []*Store{opened(t, url, Options{}), opened(t, url, Options{})}
	won := [3]int{}
	for round := range 40 {
		if round == 20 {
			need.OK(t, hosts[0].Hold(ctx, ledger.Hold{Scope: "kind:mail", Actor: begun("").Actor, Reason: "down", ChangeID: ledger.NewID()}))
		}
		digits := strings.Repeat("0", 28) + strconv.Itoa(1000+round)
		keys := []string{"input-" + digits, "fields-" + digits, "INV-" + digits}
		request := func(key int) ledger.BeginRequest {
			req := begun(keys[key])
			req.Kind, req.Gate = "charge "+strconv.Itoa(key), digits
			return req
		}
		settle := func(attempt string, outcome ledger.Outcome, proof ledger.Proof) {
			_ = need.Get(ledger.Settle(ctx, hosts[round%2], ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome, Proof: proof, Status: -1, Actor: begun("").Actor}))(t)
		}
		for key := range keys[:round%2*len(keys)] {
			req := request(key)
			need.Equal(t, need.Get(ledger.Begin(ctx, hosts[key%2], req))(t).Answer, ledger.AnswerBegun, keys[key])
			settle(req.AttemptID, ledger.OutcomeFailed, ledger.NeverSent)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		sent, held := map[int]ledger.BeginRequest{}, map[string]int{}
		start := make(chan struct{})
		for i := range 12 {
			all.Go(func() {
				key := i % len(keys)
				req := request(key)
				<-start
				res, err := ledger.Begin(ctx, hosts[i/len(keys)%2], req)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && res.Answer == ledger.AnswerInProgress && res.Gated == (res.Operation.Key != req.Key):
					held[res.Operation.Key]++
				case err == nil && res.Answer == ledger.AnswerBegun && sent[key].Key == "":
					sent[key] = req
				default:
					t.Errorf("round %d, %s: %s of %s, %v", round, req.Key, res.Answer, res.Operation.Key, err)
				}
			})
		}
		close(start)
		all.Wait()
		need.Must(t, len(sent) == 1, "round %d: sent under %d keys", round, len(sent))
		for key, req := range sent {
			won[key]++
			delete(held, req.Key)
			settle(req.AttemptID, ledger.OutcomeUncertain, "")
			need.That(t, len(held) == 0, "round %d: they were told of keys that nobody has begun: %v", round, held)
			other := (key + 1) % len(keys)
			if keys[other] = "input-" + digits[:31] + "a"; other == 2 {
				keys[other] = "INV-" + digits + "b"
			}
			for _, s := range hosts {
				res := need.Get(ledger.Begin(ctx, s, request(other)))(t)
				need.That(t, res.Answer == ledger.AnswerInDoubt && res.Gated && res.Operation.Key == req.Key, "round %d: %s of %s", round, res.Answer, res.Operation.Key)
			}
		}
	}
	t.Logf("input, fields and given keys were first %v times", won)
}
