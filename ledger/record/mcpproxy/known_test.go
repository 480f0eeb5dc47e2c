package mcpproxy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

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
	c.ask("2", "put", `{}`).wantDone(t, "put")
	w.wantState(w.only(), ledger.Committed)
}

// TestTheClientIsKept: by the name it gives itself, of the connection or of the call,
// and never as a part of a key.
func TestTheClientIsKept(t *testing.T) {
	w := newWorld(t)
	w.rules = map[string]record.KindRule{"put": {Repeat: record.RepeatReplay}}
	c := w.client()
	c.ask("1", "put", `{"n":1}`).wantDone(t, "put")
	c.say(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"clientInfo":{"name":"invoice\u001b[2J \n agent","version":"7.1"}}}`)
	c.hear()
	for i := 1; i < 3; i++ { // the first of them is the same request as before
		c.call(fmt.Sprint(2+i), "put", fmt.Sprintf(`{"n":%d}`, i))
		c.answered(fmt.Sprint(2 + i))
	}
	c.say(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"put","arguments":{"n":3},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"` + strings.Repeat("ü", 500) + `"}}}}`)
	c.answered("9")
	var clients []string
	ids := map[string]bool{}
	for _, o := range w.operations() {
		words := strings.Split(o.Session, " ")
		ids[words[len(words)-1]] = true
		clients = append(clients, strings.TrimSpace(strings.TrimSuffix(o.Session, words[len(words)-1])))
	}
	want := []string{"", "invoice [2J agent/7.1", strings.Repeat("ü", 80)}
	need.That(t, slices.Equal(clients, want) && len(ids) == 1, "clients %q in %d sessions, want %q in one", clients, len(ids), want)
}
