package mcpproxy_test

import (
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// TestI2_ATaskIsInDoubt: how it ends is the client's to ask, byte for byte, and a check's or
// a person's to settle. The same call is held meanwhile.
func TestI2_ATaskIsInDoubt(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"task","arguments":{},"task":{"ttl":60000}}}`)
	if a := c.answered("1"); a.Result.Task.Status != "working" || a.Result.Task.TaskID != "t-1" {
		t.Fatalf("answer: %s", a.line)
	}
	o := w.only()
	w.wantState(o, ledger.Uncertain)
	need.Contains(t, w.read(o.ID).Attempts[0].Error, "as the task t-1")
	c.ask("2", "task", `{}`).wantOutcome(t, "unknown")
	const state = `{"jsonrpc":"2.0","id":3,"result":{"taskId":"t-1","status":"%s","createdAt":"2026-08-01T10:30:00Z","lastUpdatedAt":"2026-08-01T10:30:00Z","ttl":60000,"pollInterval":50}}`
	const result = `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"the task's own result"}],"isError":false,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}}`
	working, completed := strings.Replace(state, "%s", "working", 1), strings.Replace(state, "%s", "completed", 1)
	for i, want := range []string{working, working, completed, result} {
		method := "tasks/get"
		if i == 3 {
			method = "tasks/result"
		}
		c.say(`{"jsonrpc":"2.0","id":3,"method":"` + method + `","params":{"taskId":"t-1"}}`)
		need.Equal(t, c.answered("3").line, want+"\n")
	}
	w.wantState(w.only(), ledger.Uncertain)
	w.wantEffects(1)
}
