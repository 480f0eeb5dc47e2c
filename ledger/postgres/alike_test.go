package postgres

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// I4: of many who begin one request at once, on two hosts and under several keys, one sends
// under a key that was made of it, and after that one nobody does under another key, whether
// the keys are new or had failed before.
func TestI4_OneOfManyKeysBegins(t *testing.T) {
	url := made(t)
	hosts := []*Store{opened(t, url, Options{}), opened(t, url, Options{})}
	both := 0
	for round := range 40 {
		if round == 20 { // then no key is guessed to be new
			need.OK(t, hosts[0].Hold(ctx, ledger.Hold{Scope: "kind:mail", Actor: begun("", 0).Actor, Reason: "down", ChangeID: ledger.NewID()}))
		}
		digits := strings.Repeat("0", 28) + strconv.Itoa(1000+round)
		keys := []string{"content-" + digits, "fields-" + digits, "INV-" + digits}
		request := func(key int) ledger.BeginRequest {
			req := begun(keys[key], 0)
			req.Kind, req.Fingerprint, req.AnyAlike = "charge "+strconv.Itoa(key), "of "+digits, true
			return req
		}
		settle := func(attempt string, outcome ledger.Outcome, proof ledger.Proof) {
			_ = need.Get(ledger.Settle(ctx, hosts[round%2], ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: outcome, Proof: proof, Status: -1, Actor: begun("", 0).Actor}))(t)
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
				case err == nil && res.Answer == ledger.AnswerInProgress && res.Alike == (res.Operation.Key != req.Key):
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
		at := func(key int) int64 {
			if sent[key].Key == "" {
				return 0
			}
			return scalar(t, hosts[0], `SELECT seq FROM events WHERE id = ?`, sent[key].ChangeID)
		}
		content, fields, given := at(0), at(1), at(2)
		need.Must(t, (content > 0) != (fields > 0) && given < content+fields, "round %d: begun as numbers %d, %d and %d", round, content, fields, given)
		if given > 0 {
			both++
		}
		for _, req := range sent {
			delete(held, req.Key)
			settle(req.AttemptID, ledger.OutcomeUncertain, "")
		}
		need.That(t, len(held) == 0, "round %d: they were told of keys that nobody has begun: %v", round, held)
		keys[2] += "b" // a new key is guessed to be one that nothing stands for
		for _, s := range hosts {
			res := need.Get(ledger.Begin(ctx, s, request(2)))(t)
			need.That(t, res.Answer == ledger.AnswerInDoubt && res.Alike && res.Operation.Key == sent[0].Key+sent[1].Key, "round %d: %s of %s", round, res.Answer, res.Operation.Key)
		}
	}
	t.Logf("a given key was before a made one %d times", both)
}
