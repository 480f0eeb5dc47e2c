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
	w := newWorld(t)
	w.reader = slowReader{}
	o := w.options()
	o.HoldPatience, o.Progress = 300*time.Millisecond, 50*time.Millisecond
	c := w.clientWith(o)
	for _, held := range []struct{ outcome, tool, waits string }{
		{"pending", "slow", "waiting for an identical call that is under way"},
		{"unknown", "silent", "asking whether the earlier call took effect"},
	} {
		if held.tool == "silent" {
			w.rules = nil
			w.rule.Deadline = 200 * time.Millisecond
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
					if !strings.Contains(sentence, part) {
						t.Errorf("%q is not said: %s", part, sentence)
					}
				}
				if took := time.Since(began); took < o.HoldPatience || took > soon/2 {
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
		if told < 2 {
			t.Errorf("%s: told %d times that it waits", held.tool, told)
		}
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
}
