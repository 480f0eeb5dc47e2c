package roundtrip

import (
	"context"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/wire/transmit"
)

// fetch asks the other side once more for the answer that was lost, with the caller's
// own request, which is the recorded one under the same key and token. It returns the
// record with that answer as the attempt's late one, or as it was: only a commit is
// an answer to keep, since a refusal may be of this transmission alone.
func (w *httpWrite) fetch(ctx, base context.Context, rec ledger.Record) ledger.Record {
	r, i := w.t.Recorder, slices.IndexFunc(rec.Attempts, func(a ledger.Attempt) bool { return a.Final() == ledger.OutcomeUncertain && a.Proof == "" })
	if i < 0 || w.rule.AnswerUntil == nil || rec.Attempts[0].Sender != "http" {
		return rec
	}
	until := w.rule.AnswerUntil(rec)
	if !rec.Now.Before(until) {
		return rec
	}
	ctx = context.WithoutCancel(ctx) // one transmission is all there is: it is finished, whether or not the caller waits
	begun, err := r.Fetch(ctx, ledger.FetchRequest{AttemptID: rec.Attempts[i].ID, Until: until, AsOf: rec.Moment(), Deadline: w.rule.Deadline})
	if err != nil {
		w.report(Report{OperationID: rec.Operation.ID, What: "not_fetched", Why: err.Error()})
		return rec
	}
	x, o := &exchange{w: w, begun: begun}, begun.Operation
	life, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer context.AfterFunc(base, func() { cut(context.Cause(base)) })()
	answer := w.t.sender().Send(x.outgoing(life), transmit.Limits{Deadline: time.Now().Add(begun.Until.Left()), MaxBody: outcome.MaxJudged})
	rec.Operation = o
	if s := outcome.JudgeAttempt(ctx, w.rule.Judge, rec, begun.Attempt.ID, outcome.Readable(answer)); s.Outcome != ledger.OutcomeCommitted || s.Already {
		w.report(Report{OperationID: o.ID, What: "not_fetched", Status: answer.Status, Why: strings.TrimSuffix("the other side did not give its first answer again: "+s.Error, ": ")})
		return rec
	}
	if _, err := x.settle(answer); err != nil {
		return rec
	}
	if now, err := r.Store().Read(ctx, ledger.Locator{ID: o.ID}); err == nil {
		return now
	}
	return rec
}
