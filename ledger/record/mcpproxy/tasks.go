package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

// task is one that a recorded call was answered with in this proxy.
type task struct {
	op      ledger.Operation
	attempt string
	rule    record.KindRule
	meta    json.RawMessage
	what    string
	poll    time.Duration
	until   time.Time
}

const keptTasks = 4096

// taskList holds the tasks that are known, by their ids.
type taskList struct {
	mu   sync.Mutex
	byID map[string]*task
}

func (l *taskList) keep(id string, t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*task{}
	}
	for old := range l.byID {
		if len(l.byID) < keptTasks {
			break
		}
		delete(l.byID, old)
	}
	l.byID[id] = t
}

func (l *taskList) of(id string) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

func (l *taskList) knows(id string) bool { return id != "" && l.of(id) != nil }

func (l *taskList) all() map[string]*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.byID)
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
		c.count(w, res, nil)
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
	c.count(w, res, nil)
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
	if awaits, _, ok := outcome.NotYet(a); !ok || awaits != o.Awaits {
		return nil
	}
	return resultLine(c.frame.ID, attempt.Result)
}

// join waits for a task that an identical call has started, by asking for its
// state. A client that knows tasks is given that task. There is no answer where
// the task has ended meanwhile, or is not awaited any more.
func (c *call) join(o ledger.Operation, id string) []byte {
	for {
		rec, err := c.p.o.Store.Read(c.p.ctx, ledger.Locator{ID: o.ID})
		if err != nil || rec.Operation.Awaits != o.Awaits || rec.State() != ledger.Pending {
			return nil
		}
		now, err := c.p.askTask("tasks/get", id, c.meta)
		if err != nil {
			return c.waiting(o, "it goes on as the task "+id)
		}
		ended, err := c.p.taskEnded(rec, rec.Operation.LiveAttempt, c.rule, id, now, true, c.meta)
		switch {
		case err != nil:
			c.p.o.Log("the result of a task could not be recorded: " + err.Error())
			return c.failure(codeInternal, "the result could not be recorded: "+record.ToCaller(err))
		case ended:
			return nil
		case c.knowsTasks():
			return c.taskHandle(now)
		}
		if !pause(c.ctx, pollEvery(now)) {
			return c.waiting(o, "it goes on as the task "+id)
		}
	}
}

// knowsTasks reports whether the caller can be answered with a task.
func (c *toolCall) knowsTasks() bool {
	if c.frame.Params["task"] != nil {
		return true
	}
	meta, _ := once(c.meta)
	capabilities, _ := once(meta["io.modelcontextprotocol/clientCapabilities"])
	extensions, _ := once(capabilities["extensions"])
	return extensions["io.modelcontextprotocol/tasks"] != nil
}

// taskHandle answers a call with the task that is under way, in the words of the
// revision that the server speaks.
func (c *toolCall) taskHandle(now json.RawMessage) []byte {
	if m, _ := once(now); m["resultType"] != nil {
		if handle, ok := mcpwire.Set(now, []byte(`"task"`), "resultType"); ok {
			return resultLine(c.frame.ID, handle)
		}
	}
	return resultLine(c.frame.ID, append(append([]byte(`{"task":`), now...), '}'))
}

var errNoTask = errors.New("the server does not tell of the task")

// askTask asks the server how a task stands (tasks/get) or how it ended
// (tasks/result).
func (p *Proxy) askTask(method, id string, meta json.RawMessage) (json.RawMessage, error) {
	if p.conn == nil {
		return nil, p.startErr
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	f, err := p.ask(method, map[string]json.RawMessage{"taskId": quoted}, meta, 4*p.o.AskPatience)
	if err != nil {
		return nil, err
	}
	if result := f.Members["result"]; f.Members["error"] == nil && result != nil && !f.Duplicate {
		return result, nil
	}
	return nil, errNoTask
}

// taskEnded settles the attempt that awaits a task, if the task has ended by
// what its server says: a state from tasks/get, or the result itself.
func (p *Proxy) taskEnded(rec ledger.Record, attempt string, rule record.KindRule, id string, said json.RawMessage, isState bool, meta json.RawMessage) (bool, error) {
	a := ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: said}}
	if _, _, ok := outcome.NotYet(a); ok {
		return false, nil
	}
	if m, _ := once(said); isState {
		switch status := textOf(m["status"]); {
		case status == "completed" && m["result"] == nil:
			// In revision 2025-11-25 the result is told apart from the state.
			if result, err := p.askTask("tasks/result", id, meta); err == nil {
				a.RPC.Result = result
			}
		case status != "completed" && status != "failed" && status != "cancelled":
			return false, nil
		}
	}
	ctx := context.WithoutCancel(p.ctx)
	_, err := p.settle(outcome.JudgeAttempt(ctx, rule.Judge, rec, attempt, a))
	return err == nil, err
}

// word is what a passing line tells of a task.
type word int

const (
	aState  word = iota // how it stands, to a client that asked; of an ended one maybe the result
	aResult             // its result
	aNotice             // how it stands, sent without a question
)

// taskTold takes in what a passing line says of a task, and passes it on.
func (p *Proxy) taskTold(line []byte, id string, said json.RawMessage, w word) {
	p.recording.Add(1)
	go func() {
		defer p.recording.Done()
		operationID, what := p.takeTask(id, said, w != aResult)
		m, _ := once(said)
		final := operationID != "" && (w == aResult || w == aState && m["result"] != nil)
		if !final {
			p.reply(line)
			return
		}
		noted := p.deliveries.expect(what)
		defer noted()
		if p.reply(line) {
			p.deliver(operationID)
		}
	}()
}

// tells reports whether the server can be asked how a task stands. A child knows its own
// tasks alone, and may have given another one the same id.
func (p *Proxy) tells(id string) bool { return !mcpwire.IsChild(p.conn) || p.tasks.knows(id) }

// awaiting finds the attempt that waits for the task, or did until its deadline.
func (l *taskList) awaiting(ctx context.Context, p *Proxy, id string) (rec ledger.Record, attempt string, ok bool) {
	t, at := l.of(id), ledger.Locator{Scope: p.o.Scope, Awaits: outcome.AwaitsTask(id)}
	if t != nil {
		at = ledger.Locator{ID: t.op.ID}
	}
	if !p.tells(id) {
		return rec, "", false
	}
	rec, err := p.o.Store.Read(ctx, at)
	switch {
	case err != nil:
		return rec, "", false
	case rec.State() == ledger.Pending:
		return rec, rec.Operation.LiveAttempt, rec.Operation.Awaits == outcome.AwaitsTask(id)
	case t == nil:
		return rec, "", false
	}
	a := rec.Attempt(t.attempt)
	return rec, t.attempt, a != nil && (a.Outcome == "" || a.Outcome == ledger.OutcomeUncertain && a.ErrorClass == ledger.ClassDeadline)
}

// takeTask settles the operation that awaits the task, if there is one. It
// returns the operation when it is committed.
func (p *Proxy) takeTask(id string, said json.RawMessage, isState bool) (operationID, what string) {
	ctx := context.WithoutCancel(p.ctx)
	t := p.tasks.of(id)
	rec, attempt, ok := p.tasks.awaiting(ctx, p, id)
	if ok {
		var meta json.RawMessage
		if t != nil {
			meta = t.meta
		}
		if _, err := p.taskEnded(rec, attempt, p.o.Recorder.Rule(rec.Operation.Kind), id, said, isState, meta); err != nil {
			p.o.Log("how a task ended could not be recorded: " + err.Error())
		}
		operationID = rec.Operation.ID
	} else if t != nil {
		operationID = t.op.ID // it was settled by an earlier word; the result is its answer all the same
	}
	if t != nil {
		what = t.what
	}
	if operationID == "" {
		return "", ""
	}
	rec, err := p.o.Store.Read(ctx, ledger.Locator{ID: operationID})
	if err != nil || rec.Operation.State != ledger.Committed {
		return "", what
	}
	return operationID, what
}

// keepTasks sees the tasks to their end that a client leaves behind.
func (p *Proxy) keepTasks() {
	if p.conn == nil || isClosed(p.gone) {
		return
	}
	for id, t := range p.tasks.all() {
		p.calls.Add(1)
		go func() {
			defer p.calls.Done()
			p.keepAsking(id, t)
		}()
	}
}

func (p *Proxy) keepAsking(id string, t *task) {
	ctx, cancel := context.WithDeadline(p.ctx, t.until)
	defer cancel()
	for !isClosed(p.gone) {
		rec, err := p.o.Store.Read(ctx, ledger.Locator{ID: t.op.ID})
		if err != nil || rec.State() != ledger.Pending || rec.Operation.LiveAttempt != t.attempt {
			return
		}
		now, err := p.askTask("tasks/get", id, t.meta)
		if errors.Is(err, errNoTask) {
			return
		}
		if err == nil {
			if ended, _ := p.taskEnded(rec, t.attempt, t.rule, id, now, true, t.meta); ended {
				return
			}
		}
		if !pause(ctx, max(t.poll, pollEvery(now))) {
			return
		}
	}
}

// beat keeps a task's attempt in flight while its server lives, and no longer: when this
// process is killed, no one asks for it any more, and it is in doubt soon.
func (t *task) beat(p *Proxy, length time.Duration) {
	ticker := time.NewTicker(length / 3) // two may be missed
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.gone:
			return
		case <-ticker.C:
		}
		left := time.Until(t.until)
		if left <= 0 {
			return
		}
		if _, err := p.o.Recorder.Heartbeat(p.ctx, t.attempt, min(length, left)); errors.Is(err, ledger.ErrMoved) {
			return // it has ended
		}
	}
}

// pollEvery is how often a server wants to be asked for a task, within reason.
func pollEvery(now json.RawMessage) time.Duration {
	_, poll, _ := outcome.NotYet(ledger.Answer{RPC: &ledger.RPCAnswer{Result: now}})
	if poll <= 0 {
		poll = time.Second
	}
	return min(max(poll, 50*time.Millisecond), 10*time.Second)
}

// pause waits, and reports false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
