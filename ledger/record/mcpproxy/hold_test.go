package mcpproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

// slowReader takes longer than any call waits.
type slowReader struct{}

func (slowReader) ReadNow(ctx context.Context, _ string) (ledger.Operation, error) {
	select {
	case <-ctx.Done():
		return ledger.Operation{}, ctx.Err()
	case <-time.After(soon):
		return ledger.Operation{}, errors.New("the read was not ended")
	}
}

// TestAHeldCallIsAnsweredInTime: a call that waits for an identical one, or for a
// check of it, is answered before its client gives up, and its client is told that
// it waits. What is said is one sentence with all an agent needs.
func TestAHeldCallIsAnsweredInTime(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.reader = slowReader{}
		o := w.options()
		o.HoldPatience, o.Progress = 600*time.Millisecond, 10*time.Millisecond
		c := w.clientWith(o)
		for _, held := range []struct{ outcome, tool, waits string }{
			{"pending", "slow", "waiting for an identical call that is under way"},
			{"unknown", "silent", "asking whether the earlier call took effect"},
		} {
			if held.tool == "silent" {
				w.rules = nil
				w.rule.Deadline = 4 * time.Second
				c.unanswered("0", held.tool, `{}`)
			} else {
				c.call("8", held.tool, `{}`)
				w.eventually("the first is with the server", func() bool { return len(effectsIn(t, w.effects)) > 0 })
			}
			began := time.Now()
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":{"progressToken":"p-1"}}}`, held.tool))
			last, told := 0.0, 0
			for {
				line := c.hear()
				if !strings.Contains(line, "notifications/progress") {
					a := parseAnswer(t, line)
					a.wantOutcome(t, held.outcome)
					sentence := a.Result.Content[0].Text
					for _, part := range []string{"do not repeat it", "go on with", o.Server, a.Result.StructuredContent.Operation, " again in "} {
						need.That(t, strings.Contains(sentence, part), "%q is not said: %s", part, sentence)
					}
					if took := time.Since(began); took < o.HoldPatience {
						t.Errorf("answered after %s", took)
					}
					break
				}
				var note struct {
					Params struct {
						ProgressToken, Message string
						Progress               float64
					}
				}
				if err := json.Unmarshal([]byte(line), &note); err != nil || note.Params.ProgressToken != "p-1" || note.Params.Progress <= last || note.Params.Message != held.waits {
					t.Fatalf("%v: %s", err, line)
				}
				last, told = note.Params.Progress, told+1
			}
			need.That(t, told >= 2, "%s: told %d times that it waits", held.tool, told)
			c.call("2", held.tool, `{}`) // a client that asked for none is told nothing
			if a := c.answered("2"); a.Result.StructuredContent.Outcome != held.outcome {
				t.Errorf("%s", a.line)
			}
			if held.tool == "slow" {
				w.release()
				c.answered("8").wantDone(t, "slow")
			}
		}
		w.wantEffects(2)
	})
}

// TestAToolWithASchemaGetsText: a client refuses structured content that is not of
// the tool's output schema, and an answer without any unless it is an error.
func TestAToolWithASchemaGetsText(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		w.reader = &settling{store: w.store}
		c := w.client()
		for i, outcome := range []string{"unknown", "done"} {
			for tool, structured := range map[string]bool{"pay": false, "silent": true} {
				id := fmt.Sprintf(`"%s-%d"`, tool, i)
				c.call(id, tool, `{}`)
				a := c.answered(id)
				a.wantOutcome(t, outcome)
				need.That(t, a.structured == structured && a.Result.IsError == (outcome == "unknown" || tool == "pay"), "%s: %s", tool, a.line)
				need.That(t, len(a.Result.Content) != 0 && a.Result.Content[0].Text == a.Result.StructuredContent.Advice, "the sentence is missing: %s", a.line)
			}
		}
		w.wantEffects(2)
	})
}

// TestWhichDoubtsHoldBack: what a tool answered with an error may be called again,
// unless the error says that something was lost, or the kind says otherwise. The
// answer of a call that went out beside a doubt is a possible duplicate.
func TestWhichDoubtsHoldBack(t *testing.T) {
	for _, c := range []struct {
		rule  record.KindRule
		error string // the tool's own; "" for no answer
		sent  bool
		raise bool
	}{
		{record.KindRule{}, "exit code 1: 512 passed, 1 failed", true, true},
		{record.KindRule{}, "ENOENT: no such file or directory", true, true},
		{record.KindRule{}, "", false, false},
		{record.KindRule{}, "Request timed out", false, false},
		{record.KindRule{}, "ETIMEDOUT 10.0.0.1:443", false, false},
		{record.KindRule{}, "read: connection reset by peer", false, false},
		{record.KindRule{}, "unexpected EOF", false, false},
		{record.KindRule{}, "fatal: the remote end hung up unexpectedly", false, false},
		{record.KindRule{}, "Request failed with status code 502", false, false},
		{record.KindRule{}, "GitHub answered: 503 Service Unavailable", false, false},
		{record.KindRule{}, "MCP error -32602: Structured content does not match the tool's output schema", false, false},
		{record.KindRule{HoldBack: record.HoldLost}, "exit code 1", true, true},
		{record.KindRule{HoldBack: record.HoldAll}, "exit code 1", false, false},
		{record.KindRule{HoldBack: record.HoldNone}, "exit code 1", true, true},
		{record.KindRule{HoldBack: record.HoldNone}, "", true, true},
		{record.KindRule{HoldBack: record.HoldNone, Idempotent: true}, "", true, false},
	} {
		t.Run(fmt.Sprintf("%s %q idempotent=%t", c.rule.HoldBack, c.error, c.rule.Idempotent), func(t *testing.T) {
			inABubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.rule = c.rule
				w.rule.Deadline = 4 * time.Second
				o := w.options()
				calls := 0
				o.AskPatience = time.Millisecond
				o.Connect = func(context.Context) (mcpwire.Conn, error) {
					return newFake(func(f *fake, line []byte) {
						frame := mcpwire.Parse(line)
						if frame.Method != "tools/call" {
							return
						}
						calls++
						switch text, _ := json.Marshal(c.error); {
						case calls > 1:
							f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did it"}]}}`+"\n", frame.ID)
						case c.error != "":
							f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"isError":true}}`+"\n", frame.ID, text)
						}
					}), nil
				}
				cl := w.clientWith(o)
				for i := range 3 { // the third is a call by itself where the second was delivered
					a := cl.ask(fmt.Sprint(i), "put", `{}`)
					if sent := strings.Contains(a.line, "did it"); i > 0 && sent != c.sent {
						t.Fatalf("call %d: %s", i, a.line)
					}
				}
				ops := w.operations()
				if !c.sent {
					w.wantState(w.only(), ledger.Uncertain)
					return
				}
				need.Must(t, len(ops) == 3, "%d operations", len(ops))
				w.wantState(ops[0], ledger.Uncertain)
				for i, o := range ops[1:] {
					w.wantState(o, ledger.Committed)
					if raised := o.Conflict == ledger.PossibleDuplicate; raised != (c.raise && i == 0) || raised && !strings.Contains(o.ConflictNote, ops[0].ID) {
						t.Errorf("operation %d: conflict %q (%s)", i+1, o.Conflict, o.ConflictNote)
					}
				}
			})
		})
	}
}
