package mcpproxy_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/wire/mcpwire"
)

// stateless is a server of revision 2026-07-28: every request says in _meta which
// revision and which client it is from, and a tool may be answered with a task.
type stateless struct {
	mu      sync.Mutex
	status  string
	effects int
}

const (
	aboutMe = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	aTask   = `"taskId":"786512e2","createdAt":"2026-08-01T10:30:00Z","lastUpdatedAt":"2026-08-01T10:30:00Z","ttlMs":60000,"pollIntervalMs":50`
)

func (s *stateless) take(f *fake, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := mcpwire.Parse(line)
	answer := func(result string) {
		f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, result)
	}
	switch {
	case !bytes.Contains(r.Params["_meta"], []byte(`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`)):
		f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"Unsupported protocol version"}}`+"\n", r.ID)
	case r.Method == "tools/list":
		answer(`{"resultType":"complete","tools":[{"name":"make"},` + listed + `],"ttlMs":300000,"cacheScope":"public"}`)
	case r.Method == "tools/call" && r.Name() == "get":
		answer(`{"resultType":"complete","content":[]}`)
	case r.Method == "tools/call":
		s.effects++
		s.status = "working"
		answer(`{"resultType":"task","status":"working",` + aTask + `}`)
	case r.Method == "tasks/get" && s.status == "completed":
		answer(`{"resultType":"complete","status":"completed",` + aTask + `,"result":{"resultType":"complete","content":[{"type":"text","text":"made"}]}}`)
	case r.Method == "tasks/get":
		answer(`{"resultType":"complete","status":"working",` + aTask + `}`)
	}
}

func (s *stateless) set(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func TestRevision20260728(t *testing.T) {
	w := newWorld(t)
	server := &stateless{}
	o := w.options()
	o.Connect = func(context.Context) (mcpwire.Conn, error) { return newFake(server.take), nil }
	c := w.clientWith(o)
	call := func(id, tool string) answer {
		c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":` + aboutMe + `,"progressToken":1}}}`)
		return c.answered(id)
	}
	c.say(`{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":` + aboutMe + `}}}`)
	c.answered("0")
	if a := call("1", "get"); a.Result.ResultType != "complete" {
		t.Fatalf("answer: %s", a.line)
	}
	need.Equal(t, len(w.operations()), 0, "what only reads is recorded")
	if a := call("2", "make"); a.Result.ResultType != "task" {
		t.Fatalf("answer: %s", a.line)
	}
	o1 := w.only()
	w.wantState(o1, ledger.Uncertain)
	call("3", "make").wantOutcome(t, "unknown")
	server.set("completed")
	c.say(`{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"786512e2","_meta":` + aboutMe + `}}}`)
	if a := c.answered("4"); !strings.Contains(a.line, `"made"`) {
		t.Fatalf("answer: %s", a.line)
	}
	w.wantState(w.only(), ledger.Uncertain)
	need.Equal(t, server.effects, 1, "effects")
	if a := call("5", "indoubt_status_scripted"); a.Result.ResultType != "complete" {
		t.Errorf("an answer of the proxy's own: %s", a.line)
	}
}
