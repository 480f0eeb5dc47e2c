package mcpproxy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

// broken is a ledger that takes no changes while it is said to be.
type broken struct {
	ledger.Store
	mu  sync.Mutex
	why error
}

func (b *broken) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	b.mu.Lock()
	why := b.why
	b.mu.Unlock()
	if why != nil {
		return ledger.Applied{}, why
	}
	return b.Store.Change(ctx, at, id, rule)
}

func (b *broken) set(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
}

func TestI1_WhatCannotBeRecordedIsNotSent(t *testing.T) {
	w := newWorld(t)
	store := &broken{Store: w.store}
	w.store = store
	o, logged := w.options(), make(chan string, 100)
	o.Log = func(line string) { logged <- line }
	c := w.clientWith(o)
	store.set(errors.New("disk I/O error"))
	if a := c.ask("1", "put", `{}`); a.Error == nil || !strings.Contains(a.Error.Message, "not sent") || strings.Contains(a.Error.Message, "disk") {
		t.Fatalf("answer: %s", a.line)
	}
	need.Contains(t, <-logged, "disk I/O error")
	c.listTools()
	c.ask("2", "get", `{}`).wantDone(t, "get")
	store.set(nil)
	c.ask("3", "put", `{}`).wantDone(t, "put")
	w.wantEffects(1)
}

func TestI1_ALedgerThatIsGone(t *testing.T) {
	w := inAFile(t)
	c := w.client()
	c.ask("1", "put", `{}`).wantDone(t, "put")
	need.OK(t, os.Rename(w.ledger, w.ledger+".old"))
	if a := c.ask("2", "put", `{}`); a.Error == nil {
		t.Fatalf("answer: %s", a.line)
	}
	w.wantEffects(1)
}

func TestAServerThatDoesNotStart(t *testing.T) {
	w := newWorld(t)
	w.argv = []string{w.dir + "/nobody"}
	c := w.client()
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	if a := c.answered("0"); a.Error == nil {
		t.Errorf("answer: %s", a.line)
	}
	for i := 1; i < 3; i++ {
		if a := c.ask(fmt.Sprint(i), "put", `{}`); a.Error == nil || !strings.Contains(a.Error.Message, "not sent") {
			t.Errorf("answer: %s", a.line)
		}
	}
	o := w.only()
	w.wantState(o, ledger.Failed)
	for _, a := range w.read(o.ID).Attempts {
		need.Equal(t, a.Proof, ledger.NeverSent, "proof")
	}
	if err := c.leave(); err == nil {
		t.Error("nobody says that the server did not start")
	}
}

// TestI2_TheServerIsKilledInTheMiddle: before or after the effect, it is in
// doubt, and the same call from another session is held.
func TestI2_TheServerIsKilledInTheMiddle(t *testing.T) {
	for tool, effects := range map[string]int{"die_before": 0, "die_after": 1} {
		t.Run(tool, func(t *testing.T) {
			w := newWorld(t)
			c := w.client()
			a := c.ask("0", tool, `{"a":1}`)
			a.wantOutcome(t, "unknown")
			if !a.Result.IsError || a.Result.StructuredContent.Operation == "" || a.Result.StructuredContent.Advice == "" {
				t.Errorf("answer: %s", a.line)
			}
			o := w.only()
			w.wantState(o, ledger.Uncertain)
			need.Equal(t, o.ErrorClass, ledger.ClassEOF, "class")
			// The proxy stays, tells how the call stands, and sends nothing.
			status := c.ask("1", "indoubt_status_scripted", `{"operation":"`+o.ID+`"}`)
			need.That(t, !status.Result.IsError && strings.Contains(status.line, `"outcome":"unknown"`) && strings.Contains(status.line, o.ID), "%s", status.line)
			for id, name := range map[string]string{"2": "put", "3": "get"} {
				next := c.ask(id, name, `{"b":2}`)
				need.That(t, next.Error != nil && strings.Contains(next.Error.Message, "not sent") && strings.Contains(next.Error.Message, "the MCP server is gone"), "%s", next.line)
			}
			c.say(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
			need.That(t, strings.Contains(c.answered("4").line, "the MCP server is gone"), "the list")
			if err := c.leave(); !errors.Is(err, mcpproxy.ErrServerGone) {
				t.Errorf("ended with %v", err)
			}
			d := w.client()
			for i := range 2 {
				again := d.ask(fmt.Sprint(i), tool, `{ "a" : 1 }`)
				again.wantOutcome(t, "unknown")
				need.Equal(t, again.Result.StructuredContent.Operation, o.ID, again.line, "another operation")
			}
			w.wantEffects(effects)
			d.ask("9", "put", `{"a":1}`).wantDone(t, "put")
		})
	}
}

// settling is a reader whose read settles what it looks at.
type settling struct {
	store ledger.Store
	reads int
}

func (s *settling) ReadNow(ctx context.Context, id string) (ledger.Operation, error) {
	s.reads++
	rec, err := s.store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return rec.Operation, err
	}
	applied, err := ledger.Decide(ctx, s.store, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: rec.Operation.Version,
		Verb: ledger.VerbConfirm, Receipts: []string{"r-1"}, Actor: ledger.Actor{Name: "maya", Terminal: true}})
	time.Sleep(time.Millisecond) // it is older than what was just now
	return applied.After, err
}

// TestAReadSettlesIt: in doubt, read once, landed: the call is answered as done, as
// often as it is repeated, because the server's own answer was never delivered.
func TestAReadSettlesIt(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		reader := &settling{store: w.store}
		w.reader = reader
		o := w.options()
		c := w.clientWith(o)
		c.unanswered("0", "silent", `{}`)
		for i := 1; i < 4; i++ {
			a := c.ask(fmt.Sprint(i), "silent", `{}`)
			a.wantOutcome(t, "done")
			need.That(t, !a.Result.IsError && len(a.Result.StructuredContent.Receipts) == 1 && reader.reads == 1, "answer %s after %d reads", a.line, reader.reads)
		}
		w.wantEffects(1)
	})
}

// TestWhatAPersonSaidIsToldForADay: whoever makes the same call meanwhile is told what became
// of the lost one, however often; after that it is a call of its own.
func TestWhatAPersonSaidIsToldForADay(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		c := w.client()
		lost := c.unanswered("0", "silent", `{}`)
		_, err := (&settling{store: w.store}).ReadNow(t.Context(), lost.Result.StructuredContent.Operation)
		need.OK(t, err)
		for hour := range 19 {
			c.ask(strconv.Itoa(hour+1), "silent", `{ }`).wantOutcome(t, "done")
			time.Sleep(time.Hour)
		}
		w.wantEffects(1)
		time.Sleep(5 * time.Hour)
		c.unanswered("30", "silent", `{}`).wantOutcome(t, "unknown")
		w.wantEffects(2)
	})
}

func TestOutcomesOfAnswers(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	if a := c.ask("1", "iserror", `{}`); !strings.Contains(a.line, "MCP error -32602") || a.Result.StructuredContent.Outcome != "" {
		t.Errorf("the server's own answer passes: %s", a.line)
	}
	w.wantState(w.only(), ledger.Uncertain)
	c.ask("2", "iserror", `{}`).wantOutcome(t, "unknown")
	w.wantEffects(1)

	for i := 3; i < 5; i++ { // refused: each call is a new attempt
		if a := c.ask(fmt.Sprint(i), "refuse", `{}`); a.Error == nil || a.Error.Code != -32601 {
			t.Errorf("answer: %s", a.line)
		}
	}
	for i := 5; i < 7; i++ {
		c.call(fmt.Sprint(i), "unlisted", `{}`)
		need.Contains(t, c.answered(fmt.Sprint(i)).line, "Tool unlisted not found")
	}
	for _, o := range w.operations()[1:] {
		w.wantState(o, ledger.Failed)
		need.Equal(t, o.AttemptCount, 2, o.Kind, "attempts")
	}
}

// TestI9_ALateAnswerIsKept: after the deadline the client has its answer; the
// server's own is recorded and goes no further.
func TestI9_ALateAnswerIsKept(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		c := w.client()
		c.unanswered("1", "slow", `{}`)
		w.release()
		w.eventually("the late answer is recorded", func() bool { return w.only().State == ledger.Committed })
		attempts := w.read(w.only().ID).Attempts
		need.Equal(t, attempts[len(attempts)-1].LateOutcome, ledger.OutcomeCommitted, "late outcome")
		// What came late was never delivered; it is the answer to the same call, once.
		c.ask("2", "slow", `{}`).wantDone(t, "slow")
		w.wantEffects(1)
	})
}

// TestI9_ASecondAnswerIsKept: a server that answers twice contradicts itself, also
// when it does so at once.
func TestI9_ASecondAnswerIsKept(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	conn := newFake(func(f *fake, line []byte) {
		if frame := mcpwire.Parse(line); frame.Method == "tools/call" {
			f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did it"}]}}`+"\n", frame.ID)
			f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such tool"}}`+"\n", frame.ID)
		}
	})
	o.Connect = func(context.Context) (mcpwire.Conn, error) { return conn, nil }
	c := w.clientWith(o)
	const calls = 20
	for i := range calls {
		c.call(fmt.Sprint(i), "put", fmt.Sprintf(`{"n":%d}`, i))
	}
	for range calls {
		need.Contains(t, c.hear(), "did it")
	}
	w.eventually("every dispute is raised", func() bool {
		for _, o := range w.operations() {
			if o.State != ledger.Committed || o.Conflict != ledger.ConflictDisputed {
				return false
			}
		}
		return true
	})
	select {
	case line := <-c.lines:
		t.Errorf("the client was answered twice: %s", line)
	default:
	}
}

// TestI2_AnAnswerToNothingIsNone: a server that answers a call before it was sent
// says nothing about it.
func TestI2_AnAnswerToNothingIsNone(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	conn := newFake(func(f *fake, line []byte) {
		frame := mcpwire.Parse(line)
		switch {
		case frame.Method == "ping": // as to the second call
			for range 2 {
				f.lines <- []byte(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"made up"}]}}` + "\n")
			}
			f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", frame.ID)
		case string(frame.ID) == "1" && frame.Method == "tools/call": // which is answered at "go"
		case frame.Method == "go":
			f.lines <- []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such tool"}}` + "\n")
		case frame.Method == "tools/call":
			f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did it"}]}}`+"\n", frame.ID)
		}
	})
	o.Connect = func(context.Context) (mcpwire.Conn, error) { return conn, nil }
	c := w.clientWith(o)
	c.call("1", "put", `{}`)
	w.eventually("the first call is under way", func() bool { return len(w.operations()) == 1 })
	c.call("2", "put", `{}`) // waits for it
	c.say(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	c.answered("3")
	c.say(`{"jsonrpc":"2.0","method":"go"}`)
	for range 2 {
		a := parseAnswer(t, c.hear())
		need.That(t, (string(a.ID) != "1" || a.Error != nil) && (string(a.ID) != "2" || strings.Contains(a.line, "did it")), "answer: %s", a.line)
	}
	if err := c.leave(); err != nil {
		t.Error(err)
	}
}

// TestOddNamesAndKeys: what the ledger cannot hold is said in words.
func TestOddNamesAndKeys(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	long := strings.Repeat("k", 3000)
	for i, call := range []string{
		`{"name":"` + long + `","arguments":{}}`,
		`{"name":"put","arguments":{},"_meta":{"idempotency-key":"` + long + `"}}`,
		`{"name":"put","arguments":{},"_meta":{"idempotency-key":["k"]}}`,
		`{"name":"put","arguments":{},"_meta":{"idempotency-key":" \t"}}`,
		`{"name":"put","arguments":{},"_meta":{"idempotencyKey":""}}`,
		`{"name":"put","arguments":{},"idempotencyKey":{"k":1}}`,
		`{"name":"put","arguments":{},"idempotencyKey":"a","_meta":{"indoubt/key":"b"}}`,
	} {
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i, call))
		if a := c.answered(fmt.Sprint(i)); a.Error == nil || a.Error.Code != -32602 || len(a.line) > 400 || strings.Contains(a.line, "CHECK") {
			t.Errorf("%.60s: %.300s", call, a.line)
		}
	}
	if ops := w.operations(); len(ops) != 0 {
		t.Errorf("%d were recorded", len(ops))
	}
	c.say(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"put","arguments":{},"_meta":{"idempotency-key":42}}}`)
	c.answered("9").wantDone(t, "put")
	need.Equal(t, w.only().Key, "42", "the key")
}

// TestACancelledCallIsRecorded: a client's timeout does not stop the recording,
// and what it did not hear it hears when it asks again.
func TestACancelledCallIsRecorded(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.call(`"q"`, "slow", `{}`)
	w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q","reason":"McpError: MCP error -32001: Request timed out"}}`)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.answered("1") // the cancellation was read
	w.release()
	w.eventually("the answer is recorded", func() bool { return w.only().State == ledger.Committed })
	need.That(t, w.only().Undelivered, "the answer reached no one, and counts as delivered")
	need.Lacks(t, w.fromClient(), "notifications/cancelled")
	c.ask("2", "slow", `{}`).wantDone(t, "slow")
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
	c.say(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	c.answered("3")
	need.Contains(t, w.fromClient(), `"requestId":99`)
	w.wantEffects(1)
}

// TestAClientThatLeaves: the server is kept until its answer is recorded.
func TestAClientThatLeaves(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.call("1", "slow", `{}`)
	w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	c.in.Close()
	w.release()
	need.OK(t, c.wait())
	w.wantState(w.only(), ledger.Committed)
}

// TestASignalBoundsTheWait: what has no answer by then is in doubt.
func TestASignalBoundsTheWait(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.options()
		o.Grace = 50 * time.Millisecond
		c := w.clientWith(o)
		c.call("1", "silent", `{}`)
		w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
		c.stop()
		if err := c.wait(); err != nil {
			t.Error(err)
		}
		w.wantState(w.only(), ledger.Uncertain)
	})
}

// TestAnUndeliveredAnswerIsDeliveredOnce: to a second proxy, with the
// server's own words under the new id; the call after that is a new one.
func TestAnUndeliveredAnswerIsDeliveredOnce(t *testing.T) {
	w := newWorld(t)
	first := w.client()
	first.call("1", "slow", `{"a":1}`)
	w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	first.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	first.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	first.answered("2") // the cancellation was read
	first.in.Close()
	w.release()
	need.OK(t, first.wait())
	second := w.client()
	second.call(`"again"`, "slow", `{"a":1.0}`)
	want := `{"jsonrpc":"2.0","id":"again","result":{"content":[{"type":"text","text":"did slow"}],"structuredContent":{"big":9007199254740993}}}` + "\n"
	need.Equal(t, second.hear(), want)
	w.wantEffects(1)
	second.ask("2", "slow", `{"a":1}`).wantDone(t, "slow")
	w.wantEffects(2)
	if err := second.leave(); err != nil {
		t.Error(err)
	}
}

// asked is a ledger that notes when it was asked for what is under way already.
type asked struct {
	ledger.Store
	waits atomic.Bool
}

func (s *asked) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	applied, err := s.Store.Change(ctx, at, id, rule)
	if err == nil && applied.Noop && applied.After.State == ledger.Pending {
		s.waits.Store(true)
	}
	return applied, err
}

func TestIdenticalCallsInFlightShareTheAnswer(t *testing.T) {
	w := newWorld(t)
	store := w.store
	through := func(s *asked) mcpproxy.Options {
		w.store = s
		return w.options()
	}
	ofA, ofB := &asked{Store: store}, &asked{Store: store}
	a, b := w.clientWith(through(ofA)), w.clientWith(through(ofB))
	a.call("1", "slow", `{"x":[1,2]}`)
	w.eventually("the first is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	b.call("1", "slow", `{"x":[1,2]}`)
	a.call("2", "slow", `{"x":[1,2]}`)
	a.call("3", "put", `{}`) // nothing waits behind them
	a.answered("3").wantDone(t, "put")
	w.eventually("the others wait for it", func() bool { return ofA.waits.Load() && ofB.waits.Load() })
	w.release()
	b.answered("1").wantDone(t, "slow")
	got := map[string]bool{string(parseAnswer(t, a.hear()).ID): true, string(parseAnswer(t, a.hear()).ID): true}
	need.That(t, got["1"] && got["2"], "answers to %v", got)
	w.wantEffects(2)
}

func TestRepeatHoldAndKeys(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		w.rules = map[string]record.KindRule{"once": {Repeat: "replay"}, "silent": {Repeat: "allow"}}
		c := w.client()
		for i := range 2 {
			c.ask(fmt.Sprint(i), "once", `{}`).wantDone(t, "once")
		}
		w.wantEffects(1)
		for i := range 2 {
			c.unanswered(fmt.Sprint(i), "silent", `{}`)
		}
		w.wantEffects(3)
		keyed := func(id, name, key, arguments string) answer {
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"put","arguments":%s,"_meta":{%q:%q}}}`, id, arguments, name, key))
			return c.answered(id)
		}
		keyed("10", "idempotency-key", "k1", `{"a":1}`).wantDone(t, "put")
		keyed("11", "idempotencyKey", "k1", `{"a":1}`).wantDone(t, "put")
		keyed("12", "indoubt/key", "k2", `{"a":1}`).wantDone(t, "put")
		keyed("13", "idempotency-key", "k1", `{"a":2}`).wantOutcome(t, "key_reused")
		c.say(`{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":"put","arguments":{"a":1},"idempotencyKey":"k2"}}`)
		c.answered("14").wantDone(t, "put")
		w.wantEffects(5)
		c.say(`{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"once","arguments":{"a":1},"_meta":{"idempotency-key":"k1"}}}`)
		c.answered("15").wantDone(t, "once") // one key for two tools
		w.wantEffects(6)
	})
}

func TestDeliveredCallsAreNewOnes(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	const n = 8
	for i := range n {
		c.ask(fmt.Sprint(i), "put", `{"same":true}`).wantDone(t, "put")
	}
	w.wantEffects(n)
}
