package record

import (
	"context"
	"errors"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/wire/transmit"
)

// Call is the attempt that Do lets a send function make. The key goes where the
// downstream takes one (an Idempotency-Key header), the token to a place where a
// later read finds it (metadata, a note, a reference); both are the same on every
// attempt of the operation.
type Call struct {
	OperationID, AttemptID string
	Key, Token             string
	N                      int       // 1 for the first attempt
	Deadline               time.Time // no byte of the write may leave after it
}

// Result is what a send function gives back, and what Do returns.
type Result struct {
	Receipt string // the other side's name for the effect
	Output  []byte // what it said, JSON or text; bounded and cleared of secrets where it is stored

	// Filled in by Do.
	Operation ledger.Operation // as it stands now
	Replayed  bool             // nothing was sent now: it was committed before, and this is what is stored
	Part      bool             // of a replay: Output was too long to be kept whole, or was cleared of secrets
}

// Do does what w asks for once, however often and wherever it is called. It
// records the intent, calls send when this caller alone must send, and
// records what became of it:
//
//   - a nil error from send: committed
//   - an error that carries record.NotSent or record.Refused: known to have had
//     no effect
//   - every other error, and a panic: in doubt
//
// The context that send gets ends at the attempt's deadline. From then on
// another sender may act, so that send must stop; a nil error after it, without a
// receipt that shows the effect, is not believed. What is sent over HTTP goes through a
// roundtrip.Transport instead, which reads in the answer what became of it.
//
// An attempt that was never sent, and one whose answer was lost under a key that the
// other side remembers, may be followed by another one; see Recorder.Again.
//
// A request is the same as an earlier one when its Key is, or the key that the kind's
// policy makes of it.
//
// Do returns a nil error only when the operation is committed; Replayed tells
// that it was so before. Otherwise: *AnswerError or *FailedError; any other error says that the intent could not
// be recorded and that nothing was sent. When an outcome could not be recorded
// either, the error is of one in doubt and the Result holds what send gave.
func Do(ctx context.Context, r *Recorder, w Request, send func(context.Context, Call) (Result, error)) (Result, error) {
	res, err := r.BeginToSend(ctx, w)
	if err != nil {
		return Result{}, err
	}
	for {
		if err := NotBegun(res.BeginResult); err != nil {
			return Result{Operation: res.Operation}, err
		}
		if res.Answer == ledger.AnswerFinished {
			return stored(res.Operation), nil
		}
		d := doing{recorder: r, begun: res}
		d.attempt(ctx, send)
		if d.lost != nil || d.operation.State != ledger.Failed && d.operation.State != ledger.Uncertain {
			return d.ended()
		}
		next, again := r.Again(ctx, res, d.outcome, ledger.Answer{Err: d.err}, w)
		if !again {
			return d.ended()
		}
		res = next
	}
}

func stored(o ledger.Operation) Result {
	said, whole := outcome.Kept(o)
	return Result{Receipt: o.Receipt(), Output: said, Part: !whole, Operation: o, Replayed: true}
}

type doing struct {
	recorder *Recorder
	begun    Begun

	result    Result
	err       error // why it is not committed
	outcome   ledger.SettleRequest
	operation ledger.Operation
	lost      error // why the outcome is not in the ledger
}

// attempt calls send within the send deadline and settles.
func (d *doing) attempt(ctx context.Context, send func(context.Context, Call) (Result, error)) {
	a := d.begun.Attempt
	returned := false
	defer func() { // also when send panics, which goes on to the caller
		if !returned {
			d.err = errors.New("the sender panicked before it said what became of it")
			d.outcome = ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassKilled, Error: d.err.Error(), Status: -1}
		}
		d.settle(ctx)
	}()
	if d.begun.Until.Left() <= 0 {
		returned = true
		d.err = NotSent(errors.New("the deadline had passed before it was sent"))
		d.judge()
		return
	}
	bounded, stop := d.begun.Until.context(ctx)
	defer stop()
	call := Call{OperationID: d.begun.Operation.ID, AttemptID: a.ID, Key: d.begun.Operation.KeyToSend(), Token: d.begun.Operation.Token, N: a.N}
	call.Deadline, _ = bounded.Deadline()
	d.result, d.err = send(bounded, call)
	returned = true
	d.judge()
}

func (d *doing) judge() {
	s := &d.outcome
	*s = ledger.SettleRequest{Status: -1, Receipt: d.result.Receipt, Result: outcome.Result(ledger.Answer{Body: d.result.Output})}
	late := d.begun.Until.Left() <= 0
	if d.err == nil && late && s.Receipt == "" {
		d.err = errors.New("the sender returned after its deadline, and nothing shows the effect")
	}
	switch proof := proofOf(d.err); {
	case d.err == nil:
		s.Outcome = ledger.OutcomeCommitted
		return
	case proof != "":
		s.Outcome, s.Proof = ledger.OutcomeFailed, proof
	case late:
		s.Outcome, s.ErrorClass = ledger.OutcomeUncertain, ledger.ClassDeadline
	default:
		s.Outcome, s.ErrorClass = ledger.OutcomeUncertain, transmit.Class(d.err)
	}
	s.Receipt, s.Error = "", d.err.Error()
}

// settle records the outcome, also when the caller has gone.
func (d *doing) settle(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	d.outcome.AttemptID, d.outcome.ChangeID = d.begun.Attempt.ID, ledger.NewID()
	applied, err := d.recorder.SettleSurely(ctx, d.outcome)
	d.operation = applied.After
	switch {
	case err != nil:
		d.lost, d.operation = err, d.begun.Operation
	case d.operation.ID == "":
		d.operation = d.recorder.ToJudge(ctx, d.begun).Operation
	}
}

// ended is what Do returns after its last attempt.
func (d *doing) ended() (Result, error) {
	out := d.result
	out.Operation = d.operation
	switch {
	case d.lost != nil:
		return out, doubt(d.operation, errors.Join(errors.New("it ended "+string(d.outcome.Outcome)+", which could not be recorded"), d.lost, d.err))
	case d.operation.State == ledger.Committed && d.outcome.Outcome != ledger.OutcomeCommitted:
		return stored(d.operation), nil // by another attempt
	case d.operation.State == ledger.Committed:
		return out, nil
	case d.operation.State == ledger.Failed:
		return out, &FailedError{d.operation, d.outcome.Proof, d.err}
	case d.operation.State == ledger.Pending: // this attempt's answer came late, and another is in flight
		return out, &AnswerError{BeginResult: ledger.BeginResult{Answer: ledger.AnswerInProgress, Operation: d.operation}}
	case d.operation.State == ledger.Abandoned:
		return out, &AnswerError{BeginResult: ledger.BeginResult{Answer: ledger.AnswerRefused, Operation: d.operation,
			Why: "abandoned by " + d.operation.Actor}}
	}
	return out, doubt(d.operation, d.err)
}

// Pause waits before the next attempt. It is false when the context ends first, or
// would.
func Pause(ctx context.Context, wait time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

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
	return next, err == nil && (next.Answer == ledger.AnswerBegun ||
		!lost && next.Answer != ledger.AnswerRefused && next.Answer != ledger.AnswerHeld)
}

// remembered reports whether the other side would answer a repeat, after a while, with its
// first answer.
func (r *Recorder) remembered(ctx context.Context, lost Begun, after time.Duration) bool {
	rule := r.Rule(lost.Operation.Kind)
	return rule.RepeatUntil != nil && lost.Attempt.KeyWorks && rule.RepeatUntil(r.ToJudge(ctx, lost)).After(r.options.Clock().Add(after))
}
