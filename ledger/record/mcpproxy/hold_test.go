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
// check of it, is answered before its client gives up. What is said is one sentence with
// all an agent needs.
func TestAHeldCallIsAnsweredInTime(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.reader = slowReader{}
		o := w.options()
		o.HoldPatience = 600 * time.Millisecond
		c := w.clientWith(o)
		for _, held := range []struct{ outcome, tool string }{{"pending", "slow"}, {"unknown", "silent"}} {
			if held.tool == "silent" {
				w.rules = nil
				w.rule.Deadline = 4 * time.Second
				c.unanswered("0", held.tool, `{}`)
			} else {
				c.call("8", held.tool, `{}`)
				w.eventually("the first is with the server", func() bool { return len(effectsIn(t, w.effects)) > 0 })
			}
			began := time.Now()
			c.call("1", held.tool, `{}`)
			a := c.answered("1")
			a.wantOutcome(t, held.outcome)
			sentence := a.Result.Content[0].Text
			for _, part := range []string{"do not repeat it", "go on with", o.Server, a.Result.StructuredContent.Operation, " again in "} {
				need.That(t, strings.Contains(sentence, part), "%q is not said: %s", part, sentence)
			}
			need.That(t, time.Since(began) >= o.HoldPatience, "answered after %s", time.Since(began))
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
		c.listTools()
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

// TestWhichDoubtsHoldBack: where an answer came that proves nothing, and no policy names the
// tool, the same call is told of it once, in whatever words, and then passes; if both land
// that may have happened twice. A lost answer holds, and so does a tool that a policy names.
func TestWhichDoubtsHoldBack(t *testing.T) {
	for _, c := range []struct {
		rule  record.KindRule
		error string // the tool's own; "" for no answer
		sent  int    // the first of the calls after it that is; 0: none
		raise bool
	}{
		{record.KindRule{}, "exit code 1: 512 passed, 1 failed", 2, true},
		{record.KindRule{}, "Request timed out", 2, true},
		{record.KindRule{}, "socket closed before the reply", 2, true},
		{record.KindRule{}, "", 0, false},
		{record.KindRule{Named: true}, "exit code 1", 0, false},
		{record.KindRule{Repeat: record.RepeatAllow}, "exit code 1", 1, false},
		{record.KindRule{Repeat: record.RepeatAllow}, "", 1, false},
		{record.KindRule{Safe: true}, "", 1, false},
	} {
		t.Run(fmt.Sprintf("%q %q safe=%t named=%t", c.rule.Repeat, c.error, c.rule.Safe, c.rule.Named), func(t *testing.T) {
			inABubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.rule = c.rule
				w.rule.Deadline = 4 * time.Second
				o := w.options()
				calls := 0
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
				for i := range 4 {
					a := cl.ask(fmt.Sprint(i), "put", `{}`)
					if sent := strings.Contains(a.line, "did it"); i > 0 && sent != (c.sent > 0 && i >= c.sent) {
						t.Fatalf("call %d: %s", i, a.line)
					}
				}
				ops := w.operations()
				switch {
				case c.sent == 0:
					w.wantState(w.only(), ledger.Uncertain)
					return
				case c.rule.Safe: // the second call was a further attempt of the first
					w.wantState(ops[0], ledger.Committed)
				default:
					w.wantState(ops[0], ledger.Uncertain)
				}
				for i, o := range ops[1:] {
					w.wantState(o, ledger.Committed)
					if raised := o.Conflict == ledger.ConflictMaybeTwice; raised != (c.raise && i == 0) || raised && !strings.Contains(o.ConflictNote, ops[0].ID) {
						t.Errorf("operation %d: conflict %q (%s)", i+1, o.Conflict, o.ConflictNote)
					}
				}
			})
		})
	}
}

// TestAMendedCallGoesOut: an agent that mends the cause of an error calls again with other
// arguments. It has the answer, whatever its text says, and nothing is told.
func TestAMendedCallGoesOut(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule = record.KindRule{Deadline: 4 * time.Second}
		o := w.options()
		texts := []string{"no such file: a.txt", "HTTP 503 from upstream", "connection reset by peer", "Error: ETIMEDOUT", "exit code 1"}
		o.Connect = func(context.Context) (mcpwire.Conn, error) {
			return newFake(func(f *fake, line []byte) {
				frame := mcpwire.Parse(line)
				if frame.Method != "tools/call" {
					return
				}
				says, isError := "did it", false
				for i, text := range texts {
					if strings.Contains(string(line), fmt.Sprintf(`{"bad":%d}`, i)) {
						says, isError = text, true
					}
				}
				const answer = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}],"isError":%t}}` + "\n"
				f.lines <- fmt.Appendf(nil, answer, frame.ID, says, isError)
			}), nil
		}
		cl := w.clientWith(o)
		for i, text := range texts {
			if a := cl.ask(fmt.Sprint(2*i), "put", fmt.Sprintf(`{"bad":%d}`, i)); !strings.Contains(a.line, text) {
				t.Errorf("%q: %s", text, a.line)
			}
			if a := cl.ask(fmt.Sprint(2*i+1), "put", fmt.Sprintf(`{"mended":%d}`, i)); !strings.Contains(a.line, "did it") {
				t.Errorf("after %q: %s", text, a.line)
			}
		}
	})
}
