package record

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
)

// Again begins the attempt that follows one that ended as s, after a pause: inside the
// caller's own call, with the caller's credential and body. It does so at most Retry.Max
// times, and never under a hold,
//   - after never_sent, as every begin of the same request would;
//   - after a lost answer, while the other side remembers the key and answers a repeat under it
//     with its first answer (KindRule.RepeatUntil), unless another operation came later on its
//     target, or someone has acted on this one since.
//
// ok is false where nothing further is sent, also because ctx ends before the pause does.
// When it is true, another process may have been first: next.Answer tells.
func (r *Recorder) Again(ctx context.Context, last Begun, s ledger.SettleRequest, a ledger.Answer, w Request) (next Begun, ok bool) {
	wait, ok := outcome.Retryable(r.Rule(w.Kind).Retry, last.Attempt.N, s, a)
	lost := s.Outcome == ledger.OutcomeUncertain
	if !ok || lost && !r.remembered(ctx, last, wait) || !Pause(ctx, wait) {
		return Begun{}, false
	}
	ctx = context.WithoutCancel(ctx)
	w.Key, w.Wait, w.Reconcile = last.Operation.Key, false, false // the same operation, also where keys are made
	if r.remembered(ctx, last, 0) {
		w.Repeats = last.Attempt.ID
	}
	next, err := r.BeginToSend(ctx, w)
	return next, err == nil && (next.Answer == ledger.AnswerBegun || !lost && next.Answer != ledger.AnswerRefused)
}

// remembered reports whether the other side would answer a repeat, after a while, with its
// first answer.
func (r *Recorder) remembered(ctx context.Context, lost Begun, after time.Duration) bool {
	rule := r.Rule(lost.Operation.Kind)
	return rule.RepeatUntil != nil && lost.Attempt.KeyWorks && rule.RepeatUntil(r.ToJudge(ctx, lost)).After(r.options.Clock().Add(after))
}
