package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"

	"github.com/anishathalye/porcupine"
)

// concurrency lets many goroutines want the same thing at once.
func concurrency(t *testing.T, open Open) {
	t.Run("I3_OneOfManyBegins", func(t *testing.T) {
		d := newDesk(t, open)
		for round := range 5 {
			requests := d.requests(fmt.Sprintf("k%d", round), 12)
			answers := together(12, func(i int) ledger.BeginAnswer {
				res, err := ledger.Begin(ctx, d.s, requests[i])
				if err != nil {
					d.Errorf("begin: %v", err)
				}
				return res.Answer
			})
			if answers[ledger.AnswerBegun] != 1 || answers[ledger.AnswerInProgress] != 11 {
				d.Fatalf("twelve begins at once were told %v, want one begun and eleven in_progress", answers)
			}
		}
		if all := everything(d, d.s, ledger.Query{Tab: ledger.TabAll, Now: d.clock.Now()}, 50); len(all) != 5 {
			d.Fatalf("%d operations for 5 keys", len(all))
		}
	})
	t.Run("I3_OneOfManyRetries", func(t *testing.T) {
		d := newDesk(t, open)
		o := d.doubt("k")
		answers := together(12, func(i int) string {
			g := ledger.GrantRequest{ChangeID: fmt.Sprintf("c%d", i), GrantID: fmt.Sprintf("g%d", i), OperationID: o.ID, Version: o.Version,
				Basis: ledger.BasisRiskAccepted, Sender: "http", Actor: maya, Reason: "now", ExpiresAt: d.clock.Now().Add(time.Hour), MaxAttempts: 99,
				AttemptID: fmt.Sprintf("a%d", i), Deadline: time.Minute}
			_, err := ledger.Allow(ctx, d.s, g)
			switch {
			case err == nil:
				return "sent"
			case errors.Is(err, ledger.ErrMoved):
				return "moved"
			}
			return err.Error()
		})
		if answers["sent"] != 1 || answers["moved"] != 11 {
			d.Fatalf("twelve retries of one version: %v, want one sent and eleven told that it moved", answers)
		}
	})
	t.Run("I3_OneOfManyFetchesTheGrant", func(t *testing.T) {
		d := newDesk(t, open)
		d.grant(d.doubt("k"), ledger.BasisRiskAccepted)
		requests := d.requests("k", 12)
		answers := together(12, func(i int) ledger.BeginAnswer {
			res, err := ledger.Begin(ctx, d.s, requests[i])
			if err != nil {
				d.Errorf("begin: %v", err)
			}
			return res.Answer
		})
		if answers[ledger.AnswerBegun] != 1 {
			d.Fatalf("twelve came for one grant and were told %v", answers)
		}
	})
	t.Run("OneOfManyLeases", func(t *testing.T) {
		d := newDesk(t, open)
		o := d.doubt("k")
		answers := together(12, func(i int) bool {
			_, err := d.s.Lease(ctx, o.ID, fmt.Sprintf("engine-%d", i), "p1", time.Minute)
			var held *ledger.LeasedError
			if err != nil && !errors.As(err, &held) {
				d.Errorf("lease: %v", err)
			}
			return err == nil
		})
		if answers[true] != 1 {
			d.Fatalf("%d of twelve engines got the lease", answers[true])
		}
	})
	t.Run("OneOfManyRuns", func(t *testing.T) {
		d := newDesk(t, open)
		answers := together(12, func(i int) bool {
			_, known, err := d.s.Run(ctx, ledger.DecisionRun{ID: fmt.Sprintf("run-%d", i), IdempotencyKey: "k", Digest: "d", Verb: "deny", Actor: maya, CreatedAt: Noon}, nil)
			if err != nil {
				d.Errorf("run: %v", err)
			}
			return known
		})
		if answers[false] != 1 {
			d.Fatalf("%d of twelve runs under one key are new", answers[false])
		}
	})
	t.Run("ManyKeysLoseNothing", func(t *testing.T) {
		d := newDesk(t, open)
		together(8, func(i int) bool {
			for n := range 10 {
				id := fmt.Sprintf("%d-%d", i, n)
				res, err := ledger.Begin(ctx, d.s, ledger.BeginRequest{ChangeID: "c" + id, OperationID: "o" + id, AttemptID: "a" + id,
					Kind: "k", Key: id, Sender: "pipeline", Deadline: time.Minute, Actor: billing})
				if err == nil {
					_, err = ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: "s" + id, AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: billing})
				}
				if err != nil {
					d.Errorf("%s: %v", id, err)
				}
			}
			return true
		})
		c, err := d.s.Counts(ctx, d.clock.Now())
		d.ok(err)
		if c.Settled != 80 || c.All != 80 {
			d.Fatalf("counts are %+v, want 80 settled", c)
		}
		evs := d.events("")
		for i := 1; i < len(evs); i++ {
			if evs[i].Seq <= evs[i-1].Seq {
				d.Fatalf("seq %d after %d", evs[i].Seq, evs[i-1].Seq)
			}
		}
		if len(evs) != 160 {
			d.Fatalf("%d events, want 160", len(evs))
		}
	})
}

// requests are n requests for one key, each with ids of its own.
func (d *desk) requests(key string, n int) []ledger.BeginRequest {
	out := make([]ledger.BeginRequest, n)
	for i := range out {
		out[i] = d.request(key)
	}
	return out
}

// together runs n calls at once and counts their answers.
func together[A comparable](n int, call func(i int) A) map[A]int {
	answers := make([]A, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			answers[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	counts := map[A]int{}
	for _, a := range answers {
		counts[a]++
	}
	return counts
}

// oneKey is what porcupine compares with: one key, and what begin and settle
// mean for it, said a second time and more simply than the rules do.
type oneKey struct {
	state   ledger.State // "" before the first begin
	attempt string       // in flight, or in doubt
}

type request struct {
	begin   bool
	attempt string
	outcome ledger.Outcome
}

var oneKeyModel = porcupine.Model{
	Init: func() any { return oneKey{} },
	Step: func(state, input, output any) (bool, any) {
		k, in := state.(oneKey), input.(request)
		if in.begin {
			switch k.state {
			case "", ledger.Failed:
				return output == string(ledger.AnswerBegun), oneKey{ledger.Pending, in.attempt}
			case ledger.Pending:
				return output == string(ledger.AnswerInProgress), k
			case ledger.Uncertain:
				return output == string(ledger.AnswerInDoubt), k
			}
			return output == string(ledger.AnswerFinished), k
		}
		// Only the attempt that is in flight or in doubt is ever settled here.
		if k.attempt != in.attempt || k.state != ledger.Pending && k.state != ledger.Uncertain {
			return false, k
		}
		next := oneKey{ledger.State(in.outcome), k.attempt}
		return output == string(next.state), next
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		in := input.(request)
		if in.begin {
			return fmt.Sprintf("begin(%s) → %v", in.attempt, output)
		}
		return fmt.Sprintf("settle(%s, %s) → %v", in.attempt, in.outcome, output)
	},
}

// linearizable lets goroutines begin and settle one key, and asks whether some
// order of the calls explains every answer.
func linearizable(t *testing.T, open Open) {
	d := newDesk(t, open)
	for round := range 20 {
		key := fmt.Sprintf("k%d", round)
		var mu sync.Mutex
		var history []porcupine.Operation
		var tick atomic.Int64
		did := func(client int, in request, call func() (string, error)) string {
			from := tick.Add(1)
			out, err := call()
			to := tick.Add(1)
			if err != nil {
				d.Errorf("%+v: %v", in, err)
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: from, Output: out, Return: to})
			return out
		}
		together(4, func(client int) bool {
			for n := range 6 {
				id := fmt.Sprintf("%s-%d-%d", key, client, n)
				began := did(client, request{begin: true, attempt: id}, func() (string, error) {
					res, err := ledger.Begin(ctx, d.s, ledger.BeginRequest{ChangeID: "c" + id, OperationID: "o" + id, AttemptID: id, Kind: "k", Key: key,
						Sender: "pipeline", Deadline: time.Minute, Actor: billing})
					return string(res.Answer), err
				})
				if began != string(ledger.AnswerBegun) {
					continue
				}
				settle := func(outcome ledger.Outcome) {
					did(client, request{attempt: id, outcome: outcome}, func() (string, error) {
						req := ledger.SettleRequest{ChangeID: "s" + string(outcome) + id, AttemptID: id, Outcome: outcome, Actor: billing}
						if outcome == ledger.OutcomeFailed {
							req.Proof = ledger.Refused
						}
						applied, err := ledger.Settle(ctx, d.s, req)
						return string(applied.After.State), err
					})
				}
				switch (client + n + round) % 3 {
				case 0:
					settle(ledger.OutcomeFailed)
				case 1: // in doubt at first, and answered late
					settle(ledger.OutcomeUncertain)
					settle(ledger.OutcomeFailed)
				case 2:
					if n > 3 {
						settle(ledger.OutcomeCommitted)
					} else {
						settle(ledger.OutcomeFailed)
					}
				}
			}
			return true
		})
		if result := porcupine.CheckOperationsTimeout(oneKeyModel, history, 30*time.Second); result != porcupine.Ok {
			for _, o := range history {
				d.Logf("%d–%d client %d: %s", o.Call, o.Return, o.ClientId, oneKeyModel.DescribeOperation(o.Input, o.Output))
			}
			d.Fatalf("no order of these calls explains the answers (%s)", result)
		}
	}
}
