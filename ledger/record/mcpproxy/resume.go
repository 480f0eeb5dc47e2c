package mcpproxy

import (
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
)

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
		if state = textOf(raw); state == "" {
			state = string(raw)
		}
	}
	var answered []string
	responses, _ := once(c.frame.Params["inputResponses"])
	for name := range responses {
		answered = append(answered, name)
	}
	awaits := outcome.AwaitsInput(state, answered)
	ctx := c.p.ctx
	rec, err := c.p.o.Store.Read(ctx, ledger.Locator{Scope: c.p.o.Scope, Awaits: awaits})
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
	deadline := c.p.o.Deadline
	if deadline <= 0 {
		deadline = c.rule.Deadline
	}
	asked := time.Now()
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
	rec, err := c.p.o.Store.Read(c.p.ctx, ledger.Locator{ID: o.ID})
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
