package mcpproxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

// finish records what came back and passes it on.
func (c *call) finish(r reply) {
	ctx := context.WithoutCancel(c.p.ctx)
	if awaits, ok := outcome.NotYet(r.answer); ok {
		c.suspend(ctx, r, awaits)
		return
	}
	rec := c.current(ctx)
	applied, err := c.p.settle(outcome.JudgeAttempt(ctx, c.rule.Judge, rec, c.attempt.ID, r.answer))
	if err != nil {
		c.p.o.Log("the outcome could not be recorded: " + err.Error())
	}
	op := c.op
	if applied.After.ID != "" {
		op = applied.After
	}
	line := r.line
	if line == nil {
		line = c.outcome(op, r)
	}
	c.endWith(line, op.ID, err == nil && r.line != nil && op.State == ledger.Committed)
}

// endWith answers the client, and notes beside the call that it has its final
// answer, where that is one.
func (c *call) endWith(line []byte, operationID string, final bool) {
	if !final {
		c.end(line)
		return
	}
	noted := c.p.deliveries.expect(c.what) // before the client can call again
	if !c.end(line) {
		noted()
		return
	}
	go func() {
		defer noted()
		c.p.deliver(operationID)
	}()
}

func (c *call) current(ctx context.Context) ledger.Record {
	rec, err := c.p.o.Recorder.Store().Read(ctx, ledger.Locator{ID: c.op.ID})
	if err != nil {
		return ledger.Record{Found: true, Operation: c.op, Attempts: []ledger.Attempt{c.attempt}}
	}
	return rec
}

// late records an answer that comes after the client was told that there is none.
func (c *call) late(r reply) {
	ctx := context.WithoutCancel(c.p.ctx)
	if _, ok := outcome.NotYet(r.answer); ok {
		return // it says nothing about the outcome
	}
	if _, err := c.p.settle(outcome.JudgeAttempt(ctx, c.rule.Judge, c.current(ctx), c.attempt.ID, r.answer)); err != nil {
		c.p.o.Log("a late answer could not be recorded: " + err.Error())
	}
}

// settle records an outcome, which is kept until the ledger takes it.
func (p *Proxy) settle(s ledger.SettleRequest) (ledger.Applied, error) {
	return p.o.Recorder.SettleSurely(context.WithoutCancel(p.ctx), s)
}

func (p *Proxy) deliver(operationID string) {
	ctx := context.WithoutCancel(p.ctx)
	var err error
	for range 3 {
		if err = ledger.Deliver(ctx, p.o.Recorder.Store(), operationID); err == nil {
			return
		}
	}
	p.o.Log("an identical call will get this answer once more: " + err.Error())
}

// replay gives the client the answer that the operation had, under the new
// request's id. What the proxy says in its stead is no delivery: who repeats the
// call hears it again, until its name is over.
func (c *call) replay(o ledger.Operation) {
	line, final := c.done(o), false
	if replayable(o) {
		line, final = resultLine(c.frame.ID, o.Result), true
	}
	c.endWith(line, o.ID, final && o.Undelivered)
}

// replayable reports whether a stored result is the one the server gave, and all
// of it.
func replayable(o ledger.Operation) bool {
	_, ok := mcpwire.Members(o.Result)
	_, whole := outcome.Kept(o)
	return whole && ok && o.ByAnswer && !redacted(o.Result)
}

// suspend keeps an attempt in flight that the server has answered with a question, and
// passes that on.
func (c *call) suspend(ctx context.Context, r reply, awaits string) {
	req := ledger.SuspendRequest{AttemptID: c.attempt.ID, Awaits: awaits, For: max(c.p.o.InputPatience, c.rule.Deadline), Reason: "the server asks for more input",
		Result: r.answer.RPC.Result} // for the same call made again
	_, err := c.p.o.Recorder.Suspend(ctx, req)
	if errors.Is(err, ledger.ErrBusy) {
		_, err = c.p.o.Recorder.Suspend(ctx, req)
	}
	if err != nil {
		c.p.o.Log("what the server asked for could not be recorded, so that the call will be in doubt: " + err.Error())
	}
	c.end(r.line)
}

// resumes reports whether the call says that it continues an earlier one.
func (c *toolCall) resumes() bool {
	return c.frame.Params["requestState"] != nil || c.frame.Params["inputResponses"] != nil
}

// resume sends a continuation as part of the call it continues: the pending one
// of this scope that awaits it, with the same tool and arguments. It reports
// false where there is none; then the call is one like any other.
func (c *call) resume(w record.Request) bool {
	state := ""
	if raw := c.frame.Params["requestState"]; raw != nil {
		if state = mcpwire.Text(raw); state == "" {
			state = string(raw)
		}
	}
	responses, _ := mcpwire.Members(c.frame.Params["inputResponses"])
	awaits := outcome.AwaitsInput(state, slices.Collect(maps.Keys(responses)))
	ctx := c.p.ctx
	rec, err := c.p.o.Recorder.Store().Read(ctx, ledger.Locator{Scope: c.p.o.Scope, Awaits: awaits})
	if err != nil || rec.Operation.Kind != w.Kind || rec.State() != ledger.Pending {
		return false
	}
	// Beginning under its key reports whether the arguments are the same.
	w.Key = rec.Operation.Key
	res, err := c.p.o.Recorder.BeginToSend(ctx, w)
	switch {
	case err != nil:
		return false
	case res.Answer == ledger.AnswerBegun: // the first call has failed meanwhile
		c.begun(res)
		return true
	case res.Answer != ledger.AnswerInProgress || res.Operation.ID != rec.Operation.ID:
		return false
	}
	deadline, asked := cmp.Or(c.p.o.Deadline, c.rule.Deadline), time.Now()
	applied, err := c.p.o.Recorder.Suspend(ctx, ledger.SuspendRequest{AttemptID: rec.Operation.LiveAttempt, Awaits: "answer:" + ledger.NewID(),
		Instead: awaits, For: deadline, Reason: "the client answered the server's question"})
	if err != nil {
		return false // another caller has answered it
	}
	c.op, c.attempt = applied.After, applied.Attempt
	c.until = asked.Add(deadline)
	c.line, _ = withToken(c.frame.Raw, c.arguments, c.rule, c.op.Token)
	c.dispatch()
	return true
}

// question is the one that an identical call was answered with and that is open
// still: who calls again has lost it, and can answer it. Of many who do, one goes
// on. There is none for a client that knows no questions, and where it was not kept
// as it was.
func (c *call) question(o ledger.Operation) []byte {
	rec, err := c.p.o.Recorder.Store().Read(c.p.ctx, ledger.Locator{ID: o.ID})
	if err != nil || rec.Operation.Awaits != o.Awaits || !c.stateless() {
		return nil
	}
	attempt := rec.Attempt(rec.Operation.LiveAttempt)
	if attempt == nil || redacted(attempt.Result) {
		return nil
	}
	a := ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: attempt.Result}}
	if awaits, ok := outcome.NotYet(a); !ok || awaits != o.Awaits {
		return nil
	}
	return resultLine(c.frame.ID, attempt.Result)
}
