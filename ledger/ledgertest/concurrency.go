package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// concurrency lets many goroutines want the same thing at once.
func concurrency(t *testing.T, open Open) {
	t.Run("I3_OneOfManyBegins", func(t *testing.T) {
		d := newDesk(t, open)
		for round := range need.Steps(2, 20) {
			requests := d.requests(fmt.Sprintf("k%d", round), 12)
			answers := together(12, func(i int) ledger.BeginAnswer {
				res, err := ledger.Begin(ctx, d.s, requests[i])
				need.That(d, err == nil, "begin: %v", err)
				return res.Answer
			})
			need.Must(d, answers[ledger.AnswerBegun] == 1 && answers[ledger.AnswerInProgress] == 11,
				"twelve begins at once were told %v, want one begun and eleven in_progress", answers)
		}
		if all := everything(d, d.s, ledger.Query{Tab: ledger.TabAll, Now: d.clock.Now()}, 50); len(all) != need.Steps(2, 20) {
			d.Fatalf("%d operations for %d keys", len(all), need.Steps(2, 20))
		}
	})
	t.Run("I3_OneOfManyRetries", func(t *testing.T) {
		d := newDesk(t, open)
		o := d.doubt("k")
		answers := together(12, func(i int) string {
			g := ledger.AllowRequest{ChangeID: fmt.Sprintf("c%d", i), AllowID: fmt.Sprintf("g%d", i), OperationID: o.ID, Version: o.Version,
				Basis: ledger.BasisRiskAccepted, Sender: "http", Actor: maya, Reason: "now", ExpiresAt: d.clock.Now().Add(time.Hour),
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
		need.Must(d, answers["sent"] == 1 && answers["moved"] == 11,
			"twelve retries of one version: %v, want one sent and eleven told that it moved", answers)
	})
	t.Run("I3_OneOfManyFetchesTheGrant", func(t *testing.T) {
		d := newDesk(t, open)
		d.allow(d.doubt("k"), ledger.BasisRiskAccepted)
		requests := d.requests("k", 12)
		answers := together(12, func(i int) ledger.BeginAnswer {
			res, err := ledger.Begin(ctx, d.s, requests[i])
			need.That(d, err == nil, "begin: %v", err)
			return res.Answer
		})
		need.Must(d, answers[ledger.AnswerBegun] == 1, "twelve came for one permission and were told %v", answers)
	})
	t.Run("OneOfManyRuns", func(t *testing.T) {
		d := newDesk(t, open)
		answers := together(12, func(i int) bool {
			_, known, err := d.s.Run(ctx, ledger.DecisionRun{ID: fmt.Sprintf("run-%d", i), IdempotencyKey: "k", Digest: "d", Verb: "deny", Actor: maya, CreatedAt: Noon}, nil)
			need.That(d, err == nil, "run: %v", err)
			return known
		})
		need.Must(d, answers[false] == 1, "%d of twelve runs under one key are new", answers[false])
	})
	t.Run("ManyKeysLoseNothing", func(t *testing.T) {
		d := newDesk(t, open)
		together(10, func(i int) bool {
			for n := range 10 {
				if i >= 8 { // who leads sums up meanwhile
					d.ok(d.s.Fold(ctx, nil, nil, true, pairs))
					continue
				}
				id := fmt.Sprintf("%d-%d", i, n)
				res, err := ledger.Begin(ctx, d.s, ledger.BeginRequest{ChangeID: "c" + id, OperationID: "o" + id, AttemptID: "a" + id,
					Kind: "k", Key: id, Sender: "pipeline", Deadline: time.Minute, Actor: billing})
				if err == nil {
					_, err = ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: "s" + id, AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: billing})
				}
				need.That(d, err == nil, "%s: %v", id, err)
			}
			return true
		})
		for range 2 { // as they are, and when all are summed up
			c := need.Get(d.s.Counts(ctx, d.clock.Now()))(d)
			need.Must(d, c.Settled == 80 && c.All == 80, "counts are %+v, want 80 settled", c)
			states := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
			need.Must(d, len(states) == 1 && states[0].State == ledger.Committed && states[0].Count == 80, "%+v, want 80 committed", states)
			d.ok(d.s.Fold(ctx, nil, nil, true, pairs))
		}
		evs := d.events("")
		for i := 1; i < len(evs); i++ {
			need.Must(d, evs[i].Seq > evs[i-1].Seq, "seq %d after %d", evs[i].Seq, evs[i-1].Seq)
		}
		need.Must(d, len(evs) == 160, "%d events, want 160", len(evs))
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

// linearizable lets goroutines begin and settle at one gate, and asks whether some order
// of the calls explains every answer.
func linearizable(t *testing.T, open Open) {
	d := newDesk(t, open)
	for round := range need.Steps(6, 50) {
		var mu sync.Mutex
		var calls []Call
		var tick atomic.Int64
		together(4, func(client int) bool {
			r := rand.New(rand.NewPCG(uint64(round), uint64(client)))
			made, err := PlayGate(d.s, fmt.Sprint("g", round), client, r, func() int64 { return tick.Add(1) }, nil)
			need.That(d, err == nil, "%v", err)
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, made...)
			return true
		})
		d.ok(Explained(calls))
	}
}
