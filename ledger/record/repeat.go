package record

import (
	"context"
	"errors"
	"os"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// Again begins the attempt that follows one that ended as s, after a pause: inside the
// caller's own call, with the caller's credential and body. It does so at most Retry.Max
// times, and never under a hold,
//   - after never_sent, as every begin of the same request would;
//   - after a lost answer, where the other side remembers the key (see repeat).
//
// ok is false where nothing further is sent, also because ctx ends before the pause does.
// When it is true, another process may have been first: next.Answer tells.
func (r *Recorder) Again(ctx context.Context, last Begun, s ledger.SettleRequest, a ledger.Answer, w Request) (next Begun, ok bool) {
	wait, ok := outcome.Retryable(r.Rule(w.Kind).Retry, last.Attempt.N, s, a)
	lost := s.Outcome == ledger.OutcomeUncertain
	if !ok || lost && !r.remembered(ctx, last) || !Pause(ctx, wait) {
		return Begun{}, false
	}
	ctx = context.WithoutCancel(ctx)
	if next, ok = r.repeat(ctx, last); ok || lost {
		return next, ok
	}
	w.Key, w.Wait, w.Reconcile = last.Operation.Key, false, false // the same operation, also where keys are made
	next, err := r.BeginToSend(ctx, w)
	return next, err == nil && next.Answer != ledger.AnswerRefused
}

// remembered reports whether the other side would answer a repeat with its first answer.
func (r *Recorder) remembered(ctx context.Context, lost Begun) bool {
	rule := r.Rule(lost.Operation.Kind)
	return rule.RepeatUntil != nil && lost.Attempt.KeyWorks && rule.RepeatUntil(r.ToJudge(ctx, lost)).After(r.options.Clock())
}

// repeat begins one more attempt of a request whose answer was just lost, under the same
// key. It is allowed while the other side remembers that key and answers a repeat with its
// first answer (KindRule.RepeatUntil), unless another operation came later on its target, or
// someone has acted on this one since. Where it is not allowed the operation stays as it is.
func (r *Recorder) repeat(ctx context.Context, lost Begun) (next Begun, ok bool) {
	a, rule := lost.Attempt, r.Rule(lost.Operation.Kind)
	if a.N > rule.Retry.Max || !r.remembered(ctx, lost) {
		return Begun{}, false
	}
	asked := r.options.Clock()
	rec, err := r.store.Read(ctx, ledger.Locator{ID: lost.Operation.ID})
	if err != nil || rec.Operation.State != ledger.Uncertain || rec.Attempts[len(rec.Attempts)-1].ID != a.ID {
		return Begun{}, false
	}
	g := ledger.GrantRequest{
		ChangeID: ledger.NewID(), GrantID: ledger.NewID(), OperationID: rec.Operation.ID, Version: rec.Operation.Version,
		Basis: ledger.BasisKeySafe, Sender: a.Sender, KeyWorks: true, Actor: r.options.Actor,
		ExpiresAt: rule.RepeatUntil(rec),
		AttemptID: ledger.NewID(), Own: true, TokenSent: a.TokenSent, Deadline: lost.Until.Length(), Host: r.host, PID: os.Getpid(),
	}
	applied, err := ledger.Allow(ctx, r.store, g)
	if errors.Is(err, ledger.ErrUnknown) {
		r.neverSent(g.AttemptID, err)
	}
	if err != nil {
		return Begun{}, false
	}
	r.AddSecrets(g.AttemptID, r.Secrets(a.ID)...)
	res := ledger.BeginResult{Answer: ledger.AnswerBegun, Operation: applied.After, Attempt: applied.Attempt}
	return Begun{res, deadlineOf(applied.Attempt, asked, r.options.Clock)}, true
}
