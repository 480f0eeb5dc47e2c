package connect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/mcpwire"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy/transport"
)

// MCP calls tools of MCP servers. It keeps one session for each server, so at
// most one process of a command, which ends when it was not used for a while.
// Its zero value is ready and safe for use by many goroutines.
type MCP struct {
	// Idle is how long a session is kept after its last call; a minute when 0.
	Idle time.Duration

	listFor time.Duration // how long a list of tools holds; listFor when 0

	mu      sync.Mutex
	servers map[string]*mcpServer // by name
	closed  bool
}

// Read calls a tool that only reads: one that the server declares read-only, or
// that is vouched for. Another one is refused, and nothing of the call is sent.
// RPC is what the server answered, also where that is an error; a result that is
// too long is left out, and the answer is Truncated.
func (m *MCP) Read(ctx context.Context, q transport.MCPRequest) ledger.Answer {
	return m.ask(ctx, q, false)
}

// Send calls a tool once: one message, on whose answer it waits until the
// deadline. A server behind a URL gets a session of its own for it, because one
// that has expired meanwhile would leave the call in doubt. Sent is false where
// the server did not start or no byte of the call was written.
func (m *MCP) Send(ctx context.Context, q transport.MCPRequest) ledger.Answer {
	return m.ask(ctx, q, true)
}

func (m *MCP) ask(ctx context.Context, q transport.MCPRequest, write bool) ledger.Answer {
	a := ledger.Answer{Via: "mcp", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	if write && transmit.Past(q.Deadline) {
		return transmit.Failed(a, transmit.ErrPastDeadline)
	}
	pool := m
	if write && len(q.Command) == 0 {
		pool = &MCP{}
		defer func() { go pool.Close() }() // what it waits for is of no consequence to the answer
	}
	s, err := pool.session(ctx, q)
	if err != nil {
		return failed(a, ctx, err)
	}
	defer s.release()
	if !write && !q.ReadOnly {
		if err := s.mustOnlyRead(ctx, q.Tool); err != nil {
			return failed(a, ctx, err)
		}
	}
	return s.call(ctx, q, a, write)
}

// Close ends every session and returns when the servers are gone. Calls that are
// under way, and those that follow, fail.
func (m *MCP) Close() {
	m.mu.Lock()
	m.closed = true
	servers := m.servers
	m.servers = nil
	m.mu.Unlock()
	for _, s := range servers {
		s.retire(true)
	}
	for _, s := range servers {
		s.wait()
	}
}

// session is the server's session, which release gives back.
func (m *MCP) session(ctx context.Context, q transport.MCPRequest) (*mcpSession, error) {
	digest, err := json.Marshal([]any{q.Command, q.Dir, q.Env, q.URL, q.Header})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(digest)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, mcpwire.ErrClosed
	}
	have := m.servers[q.Server]
	if have == nil || have.digest != sum {
		if have != nil { // its definition changed
			have.retire(false)
		}
		have = &mcpServer{digest: sum, idle: cmp.Or(m.Idle, defaultIdle), define: q, listFor: cmp.Or(m.listFor, listFor)}
		if m.servers == nil {
			m.servers = map[string]*mcpServer{}
		}
		m.servers[q.Server] = have
	}
	m.mu.Unlock()
	return have.acquire(ctx)
}
