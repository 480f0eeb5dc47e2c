package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// settle judges the answer by the outcome rule and writes it down. It tries for as
// long as it makes sense: no answer may be lost (I9).
func (e *Engine) settle(ctx context.Context, a *attempt, g ledger.AllowRequest, answer ledger.Answer) (ledger.Applied, error) {
	ctx, cancel := context.WithTimeout(ctx, e.settleWithin)
	defer cancel()
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: g.OperationID})
	if err != nil {
		rec = a.rec
	}
	req := outcome.Tidy(outcome.JudgeAttempt(ctx, a.k.JudgeAnswer, rec, g.AttemptID, answer), a.req.Secrets)
	req.ChangeID, req.AttemptID, req.Actor = ledger.DeriveID(g.ChangeID, "settle"), g.AttemptID, g.Actor
	req.TokenSent = g.TokenSent && answer.Sent
	req.Looks = func(string) ledger.Looks { return a.k.Looks }
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		applied, err := ledger.SettleSent(ctx, e.o.Store, a.began, req)
		if err == nil {
			return e.settled(ctx, g, applied), nil
		}
		if permanent(err) {
			return applied, err
		}
		e.logf("write down the outcome of %s: %v", g.OperationID, err)
		if sleep(ctx, pause) != nil {
			return applied, err
		}
	}
}

// settled completes what a repeated settle leaves out.
func (e *Engine) settled(ctx context.Context, g ledger.AllowRequest, applied ledger.Applied) ledger.Applied {
	if applied.Attempt.ID != "" && applied.After.ID != "" {
		return applied
	}
	if rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: g.OperationID}); err == nil {
		applied.After = rec.Operation
		if t := rec.Attempt(g.AttemptID); t != nil {
			applied.Attempt = *t
		}
	}
	return applied
}

// giveUp deals with a permission whose own commit is in doubt: nothing was
// sent, so if the attempt was recorded after all, it is settled as that. An attempt
// under another permission is of another driver of the same run, which may be sending.
func (e *Engine) giveUp(ctx context.Context, a *attempt, g ledger.AllowRequest, why error) {
	if permanent(why) && !errors.Is(why, context.Canceled) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: g.OperationID})
	if t := rec.Attempt(g.AttemptID); err == nil && (t == nil || t.AllowID != g.AllowID) {
		return
	}
	if err == nil {
		_, err = ledger.Settle(ctx, e.o.Store, ledger.SettleRequest{
			ChangeID: ledger.DeriveID(g.ChangeID, "settle"), AttemptID: g.AttemptID, Outcome: ledger.OutcomeFailed,
			Proof: ledger.NeverSent, Error: fmt.Sprintf("never sent: the ledger did not answer: %v", why), Status: -1, Actor: g.Actor,
		})
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		e.logf("settle %s as never sent: %v", a.rec.Operation.ID, err)
	}
}

// writes counts the transmissions in flight.
type writes struct {
	mu      sync.Mutex
	n       int
	closing bool
}

func (w *writes) enter() (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return nil, refuse("quitting", "this program is about to end", "")
	}
	w.n++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.n--
	}, nil
}

func (w *writes) close(closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = closing
}

// Busy is the number of writes in flight; a program that ends before it is 0
// makes an operation in doubt.
func (e *Engine) Busy() int {
	e.writes.mu.Lock()
	defer e.writes.mu.Unlock()
	return e.writes.n
}

// Drain waits until no write is in flight or ctx ends. No new one begins from
// here on; if ctx ends first, they may again.
func (e *Engine) Drain(ctx context.Context) {
	e.writes.close(true)
	for e.Busy() > 0 {
		if sleep(ctx, 10*time.Millisecond) != nil {
			e.writes.close(false)
			return
		}
	}
}
