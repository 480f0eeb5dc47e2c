package mcpproxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/record/mcpwire"
)

// TestAReadIsKnownBeforeItIsJudged: a server that says right after the handshake
// that its list has changed, and takes its time to tell it, has told of its reads
// before the first call is decided on. What was asked before the change says nothing.
func TestAReadIsKnownBeforeItIsJudged(t *testing.T) {
	for _, first := range []string{`"readOnlyHint":true`, `"readOnlyHint":false`} {
		w := newWorld(t)
		asked := 0
		tools := func(f *fake, id json.RawMessage, hint string) {
			f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"look","annotations":{%s}}]}}`, id, hint)
		}
		o := w.options()
		o.Connect = func(context.Context) (mcpwire.Conn, error) {
			return newFake(func(f *fake, line []byte) {
				switch frame := mcpwire.Parse(line); frame.Method {
				case "tools/list":
					if asked++; asked == 1 {
						f.lines <- []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
						tools(f, frame.ID, first)
						return
					}
					tools(f, frame.ID, `"readOnlyHint":true`)
				case "tools/call":
					f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did look"}]}}`, frame.ID)
				}
			}), nil
		}
		c := w.clientWith(o)
		c.call("1", "look", `{}`)
		if line := c.hear(); !strings.Contains(line, "list_changed") {
			t.Fatalf("the change is not passed on: %s", line)
		}
		c.answered("1").wantDone(t, "look")
		if ops := w.operations(); len(ops) != 0 {
			t.Errorf("after %s: a read is recorded", first)
		}
		if err := c.leave(); err != nil || asked != 2 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	}
}

// TestI1_AClientsOldListIsNotLearnt: an answer to the client that was asked for
// before the list changed.
func TestI1_AClientsOldListIsNotLearnt(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Connect = func(context.Context) (mcpwire.Conn, error) {
		return newFake(func(f *fake, line []byte) {
			switch frame := mcpwire.Parse(line); {
			case frame.Method == "tools/list" && string(frame.ID) == "1":
				f.lines <- []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				f.lines <- []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"put","annotations":{"readOnlyHint":true}}]}}`)
			case frame.Method == "tools/list":
				f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"put"}]}}`, frame.ID)
			case frame.Method == "tools/call":
				f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did put"}]}}`, frame.ID)
			}
		}), nil
	}
	c := w.clientWith(o)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.hear()
	c.hear()
	c.call("2", "put", `{}`)
	c.answered("2").wantDone(t, "put")
	w.wantState(w.only(), ledger.Committed)
}
