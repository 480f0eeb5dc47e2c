package mcpproxy_test

import (
	"strings"
	"testing"

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
