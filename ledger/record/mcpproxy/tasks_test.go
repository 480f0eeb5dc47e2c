package mcpproxy_test

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const answers = `,"inputResponses":{"login":{"action":"accept","content":{"name":"octocat"}}}`

func (c *client) goOn(id, tool, arguments, state string) {
	c.Helper()
	c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + answers + `,"requestState":"` + state + `"}}`)
}

// TestAContinuationBelongsToItsCall: one operation, one effect, also where another
// proxy process goes on.
func TestAContinuationBelongsToItsCall(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		w := inAFile(t)
		first := w.process()
		if a := first.ask("1", "ask", `{"repo":"a"}`); a.Result.ResultType != "input_required" {
			t.Fatalf("answer: %s", a.line)
		}
		if o := w.only(); o.State != ledger.Pending || !strings.HasPrefix(o.Awaits, "input:") {
			t.Fatalf("it is %s and awaits %q", o.State, o.Awaits)
		}
		c := first.client
		if elsewhere {
			first.kill()
			c = w.client()
		}
		// The same call from a client that knows no questions is not sent, and does not hang.
		c.ask("2", "ask", `{"repo":"a"}`).wantOutcome(t, "pending")
		c.goOn("3", "ask", `{"repo":"a"}`, "state-1")
		c.answered("3").wantDone(t, "ask")
		o := w.only()
		w.wantState(o, ledger.Committed)
		need.Equal(t, o.AttemptCount, 1, "attempts")
		w.wantEffects(1)
	}
}

// TestAQuestionIsAskedAgain: the same call, of an agent that has lost the question,
// gets it again and can go on.
func TestAQuestionIsAskedAgain(t *testing.T) {
	const call = `,"method":"tools/call","params":{"name":"ask","arguments":{"repo":"a"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	w := inAFile(t)
	first := w.process()
	first.say(`{"jsonrpc":"2.0","id":1` + call)
	question := first.answered("1")
	need.Must(t, question.Result.ResultType == "input_required", "answer: %s", question.line)
	first.kill()
	c := w.client()
	c.say(`{"jsonrpc":"2.0","id":2` + call)
	again := c.answered("2")
	if want := strings.Replace(question.line, `"id":1`, `"id":2`, 1); again.line != want {
		t.Fatalf("got  %s\nwant %s", again.line, want)
	}
	if o := w.only(); o.State != ledger.Pending || !strings.HasPrefix(o.Awaits, "input:") {
		t.Fatalf("it is %s and awaits %q", o.State, o.Awaits)
	}
	c.goOn("3", "ask", `{"repo":"a"}`, "state-1")
	c.answered("3").wantDone(t, "ask")
	o := w.only()
	w.wantState(o, ledger.Committed)
	if a := w.read(o.ID).Attempts[0]; strings.Contains(string(a.Result), "input_required") {
		t.Errorf("the question stays as the result: %s", a.Result)
	}
	w.wantEffects(1)
}

// TestAForgedStateIsACallOfItsOwn: a state that nobody awaits, or that awaits
// another call, is recorded like any other.
func TestAForgedStateIsACallOfItsOwn(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.ask("1", "ask", `{"repo":"a"}`)
	c.goOn("2", "ask", `{"repo":"b"}`, "state-1") // another call's state
	c.answered("2").wantDone(t, "ask")
	c.goOn("3", "put", `{}`, "made up")
	c.answered("3").wantDone(t, "put")
	ops := w.operations()
	if len(ops) != 3 || ops[0].State != ledger.Pending || ops[1].State != ledger.Committed || ops[2].State != ledger.Committed {
		t.Fatalf("%d operations: %+v", len(ops), ops)
	}
	c.goOn("4", "ask", `{"repo":"a"}`, "state-1")
	c.answered("4").wantDone(t, "ask")
	w.wantState(w.read(ops[0].ID).Operation, ledger.Committed)
	w.wantEffects(3)
}

// TestI3_OneContinuationGoesOn: of many that bring the same state back, one is sent.
func TestI3_OneContinuationGoesOn(t *testing.T) {
	w := newWorld(t)
	w.rule.Repeat = "replay"
	c := w.client()
	c.ask("0", "ask", `{}`)
	clients := []*client{c, w.client(), w.client(), w.client()}
	for _, c := range clients {
		go c.goOn("1", "ask", `{}`, "state-1")
	}
	for _, c := range clients {
		c.answered("1").wantDone(t, "ask")
	}
	w.wantEffects(1)
	w.only()
}

func (c *client) askTask(id, method string) answer {
	c.Helper()
	c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"taskId":"t-1"}}`)
	return c.answered(id)
}

// TestATaskIsPendingUntilItEnds: the client's own questions settle it.
func TestATaskIsPendingUntilItEnds(t *testing.T) {
	w := newWorld(t)
	w.apart = true
	c := w.client()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task","arguments":{},"task":{"ttl":60000}}}`)
	if a := c.answered("1"); a.Result.Task.Status != "working" {
		t.Fatalf("answer: %s", a.line)
	}
	o := w.only()
	need.Must(t, o.State == ledger.Pending && o.Awaits == "task:t-1" && time.Until(o.DeadlineAt) <= w.rule.Deadline,
		"it is %s, awaits %q until %s", o.State, o.Awaits, o.DeadlineAt)
	c.askTask("2", "tasks/get")
	w.wantState(w.only(), ledger.Pending)
	// The same call again, from a client that knows tasks: the same task.
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"task","arguments":{},"task":{"ttl":60000}}}`)
	if a := c.answered("3"); a.Result.Task.TaskID != "t-1" || a.Result.Task.Status != "working" {
		t.Fatalf("answer: %s", a.line)
	}
	c.askTask("4", "tasks/get")
	w.wantState(w.only(), ledger.Committed)
	need.That(t, w.only().Undelivered, "the state of a task is not its result")
	want := `{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"the task's own result"}],"isError":false,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}}` + "\n"
	need.Equal(t, c.askTask("5", "tasks/result").line, want)
	w.eventually("it is delivered", func() bool { return !w.only().Undelivered })
	w.wantEffects(1)
}

// TestAnIdenticalCallWaitsForATask: one that knows no tasks gets the result.
func TestAnIdenticalCallWaitsForATask(t *testing.T) {
	w := newWorld(t)
	w.apart = true
	c := w.client()
	c.ask("1", "task", `{}`)
	if a := c.ask("2", "task", `{}`); len(a.Result.Content) != 1 || a.Result.Content[0].Text != "the task's own result" {
		t.Fatalf("answer: %s", a.line)
	}
	w.wantState(w.only(), ledger.Committed)
	w.wantEffects(1)
}

// TestATaskBehindAURLGoesOnForItsOwnTime: its server may have it without the proxy.
func TestATaskBehindAURLGoesOnForItsOwnTime(t *testing.T) {
	w := newWorld(t)
	w.rule.Deadline = 10 * time.Second
	w.client().ask("1", "task", `{}`)
	need.That(t, time.Until(w.only().DeadlineAt) > w.rule.Deadline, "until %s", w.only().DeadlineAt)
}

// TestI10_ATaskOfAServerThatIsGone: it is in flight for as long as the proxy says so.
func TestI10_ATaskOfAServerThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.apart, w.mode = true, "works-on"
	w.rule.Deadline = time.Minute
	w.client().ask("1", "task", `{}`)
	need.That(t, time.Until(w.only().DeadlineAt) <= w.rule.Deadline, "until %s", w.only().DeadlineAt)
}

// TestI2_AnotherServersTaskOfTheSameName: the ids of a child are its own.
func TestI2_AnotherServersTaskOfTheSameName(t *testing.T) {
	w := newWorld(t)
	w.apart = true
	a, b := w.client(), w.client()
	a.ask("1", "task", `{"to":"a"}`)
	b.ask("1", "task", `{"to":"b"}`)
	b.askTask("2", "tasks/result")
	for _, o := range w.operations() {
		want := ledger.Committed
		if strings.Contains(string(o.Input), `"a"`) {
			want = ledger.Pending
		}
		w.wantState(o, want)
	}
}

// TestI9_ATaskThatEndsLate: what its server says then is kept.
func TestI9_ATaskThatEndsLate(t *testing.T) {
	w := newWorld(t)
	w.apart = true
	c := w.client()
	c.ask("1", "task", `{}`)
	o := w.only()
	need.Get(ledger.Settle(t.Context(), w.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: o.LiveAttempt, Outcome: ledger.OutcomeUncertain,
		ErrorClass: ledger.ClassDeadline, Error: "no outcome was recorded before the deadline", Actor: ledger.Actor{Name: ledger.ActorClock, Machine: true}}))(t)
	c.askTask("2", "tasks/get")
	w.wantState(w.only(), ledger.Uncertain)
	c.askTask("3", "tasks/result")
	w.wantState(w.only(), ledger.Committed)
	w.wantEffects(1)
}

// TestATaskThatIsLeftBehind: the proxy sees it to its end.
func TestATaskThatIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.apart = true
	c := w.client()
	c.ask("1", "task", `{}`)
	need.OK(t, c.leave())
	w.wantState(w.only(), ledger.Committed)
}
