//go:build unix

package connect

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

func serveHTTP(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func newMCP(t *testing.T) *MCP {
	t.Helper()
	m := &MCP{}
	t.Cleanup(m.Close)
	return m
}

// until polls for something that takes its time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not in 3 minutes: %s", what)
}

func alive(pid string) bool {
	n, _ := strconv.Atoi(pid)
	return syscall.Kill(n, 0) == nil && !zombie(n)
}

func TestMCPReadsGoThroughOneProcess(t *testing.T) {
	m := newMCP(t)
	q, processes := child(t, "sdk")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			a := m.Read(t.Context(), q)
			if a.Err != nil || a.Via != "mcp" || !a.Sent || a.RPC == nil || a.RPC.Error ||
				!strings.Contains(string(a.RPC.Result), `{"found":[{"id":9007199254740993,"query":"t-1",`) || a.EndedAt.Before(a.BeganAt) {
				t.Errorf("%v %+v", a.Err, a.RPC)
			}
		})
	}
	group.Wait()
	if started, _ := processes(); len(started) != 1 {
		t.Errorf("%d processes", len(started))
	}
	m.Close()
	started, ended := processes()
	need.That(t, len(ended) == 1 && !alive(started[0]), "started %v, ended %v", started, ended)
	a := m.Read(t.Context(), q)
	need.That(t, a.Err != nil && !a.Sent, "read after Close: %+v", a)
}

func TestMCPRefusesToolsThatMayWrite(t *testing.T) {
	var calls atomic.Int64
	stdio, _ := child(t, "sdk")
	http := transport.MCPRequest{Server: "http", URL: overHTTP(t, &calls, false), Limits: transport.Limits{Timeout: 10 * time.Second}}
	m := newMCP(t)
	for _, q := range []transport.MCPRequest{stdio, http} {
		for _, tool := range []string{"unsaid", "write", "missing"} {
			q.Tool = tool
			a := m.Read(t.Context(), q)
			need.That(t, a.Err != nil && !a.Sent && a.RPC == nil && strings.Contains(a.Err.Error(), tool), "%s: %+v", tool, a)
		}
		q.Tool, q.ReadOnly = "unsaid", true
		a := m.Read(t.Context(), q)
		need.That(t, a.Err == nil && a.RPC != nil, "vouched for: %v %+v", a.Err, a.RPC)
	}
	need.Equal(t, calls.Load(), 1, "calls arrived")
}

func TestMCPOverHTTP(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		var calls atomic.Int64
		m := newMCP(t)
		q := transport.MCPRequest{Server: "http", URL: overHTTP(t, &calls, stateless), Tool: "search", Arguments: json.RawMessage(`{"query":"t-1"}`), Limits: transport.Limits{Timeout: 10 * time.Second}}
		for range 3 {
			a := m.Read(t.Context(), q)
			need.That(t, a.Err == nil && a.RPC != nil && strings.Contains(string(a.RPC.Result), "9007199254740993"), "%v %+v", a.Err, a.RPC)
		}
		q.Tool = "write"
		a := m.Send(t.Context(), q)
		need.That(t, a.Err == nil && a.Sent && a.RPC != nil && !a.RPC.Error, "%v %+v", a.Err, a.RPC)
		need.Equal(t, calls.Load(), 4, "calls arrived")
		m.Close()
	}
}

func TestMCPAnswersThatAreErrors(t *testing.T) {
	m := newMCP(t)
	q, processes := child(t, "sdk")
	q.Tool = "fails"
	a := m.Read(t.Context(), q)
	need.That(t, a.Err == nil && a.RPC != nil && !a.RPC.Error && strings.Contains(string(a.RPC.Result), `"isError":true`), "%v %+v", a.Err, a.RPC)
	q.Tool, q.ReadOnly = "missing", true
	if a := m.Read(t.Context(), q); a.Err != nil || a.RPC == nil || !a.RPC.Error || a.RPC.Code != -32602 || a.RPC.Message == "" {
		t.Errorf("%v %+v", a.Err, a.RPC)
	}
	started, _ := processes()
	need.That(t, len(started) == 1, "%d processes", len(started))
}

func TestMCPAnswerIsBounded(t *testing.T) {
	m := newMCP(t)
	q, _ := child(t, "sdk")
	q.Tool, q.Max = "big", 256<<10
	a := m.Read(t.Context(), q)
	need.That(t, a.Err == nil && a.Truncated && a.RPC != nil && len(a.RPC.Result) == 0, "%v truncated=%v %+v", a.Err, a.Truncated, a.RPC)
}

func TestMCPServerThatDoesNotStart(t *testing.T) {
	m := newMCP(t)
	q, processes := child(t, "quits")
	a := m.Send(t.Context(), q)
	need.That(t, a.Err != nil && !a.Sent && strings.Contains(a.Err.Error(), "no configuration"), "sent=%v %v", a.Sent, a.Err)
	until(t, "all of it is gone", func() bool { started, ended := processes(); return len(started) == len(ended) })
	q.Server, q.Command = "missing", []string{"/nowhere/server"}
	for _, ask := range []func(context.Context, transport.MCPRequest) ledger.Answer{m.Read, m.Send} {
		a := ask(t.Context(), q)
		need.That(t, a.Err != nil && !a.Sent, "%+v", a)
	}
}

func TestMCPDeadServerIsReplaced(t *testing.T) {
	m := newMCP(t)
	q, processes := child(t, "sdk")
	if a := m.Read(t.Context(), q); a.Err != nil {
		t.Fatal(a.Err)
	}
	dies := q
	dies.Tool = "dies"
	deaths := 0
	until(t, "what it said before it ended is told", func() bool { // it may come a moment after the end
		deaths++
		a := m.Read(t.Context(), dies)
		need.Must(t, a.Err != nil && a.Sent && a.Class == ledger.ClassEOF, "class %q: %v", a.Class, a.Err)
		return strings.Contains(a.Err.Error(), "out of memory")
	})
	need.Equal(t, m.Read(t.Context(), q).Err, nil, "afterwards")
	started, _ := processes()
	need.That(t, len(started) == deaths+1 && !alive(started[0]) && alive(started[deaths]), "started %v", started)
}

func TestMCPIdleServerEnds(t *testing.T) {
	m := &MCP{Idle: 50 * time.Millisecond}
	defer m.Close()
	q, processes := child(t, "sdk")
	a := m.Read(t.Context(), q)
	need.Must(t, a.Err == nil, "%v", a.Err)
	until(t, "it ends", func() bool { _, ended := processes(); return len(ended) == 1 })
	a = m.Read(t.Context(), q)
	need.That(t, a.Err == nil, "afterwards: %v", a.Err)
}

func TestMCPNewDefinitionIsAnotherServer(t *testing.T) {
	m := newMCP(t)
	q, processes := child(t, "sdk")
	a := m.Read(t.Context(), q)
	need.Must(t, a.Err == nil, "%v", a.Err)
	q.Env = append(q.Env, "MORE=1")
	a = m.Read(t.Context(), q)
	need.Must(t, a.Err == nil, "%v", a.Err)
	until(t, "the first one ends", func() bool { // the other one may, too: it idles
		started, ended := processes()
		return len(started) == 2 && slices.Contains(ended, started[0])
	})
}

// mcpSend is a send of a tool that writes, and what becomes of it.
type mcpSend struct {
	name, then string
	timeout    time.Duration
	late       bool
	check      func(a ledger.Answer) bool
	effects    int
}

// The soak lane has one more, which is waited for.
var mcpSends = []mcpSend{
	{"answered", "", 0, false, func(a ledger.Answer) bool { return a.Sent && a.Err == nil && !a.RPC.Error }, 1},
	{"dies after the effect", "die", 0, false, func(a ledger.Answer) bool { return a.Sent && a.RPC == nil && a.Class == ledger.ClassEOF }, 1},
	{"past its deadline", "", 0, true, func(a ledger.Answer) bool { return !a.Sent && a.Class == ledger.ClassDeadline }, 0},
}

func TestI3_MCPSendIsOneCall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "written")
	m := newMCP(t)
	q, _ := child(t, "sdk")
	q.Tool = "write"
	for _, tc := range mcpSends {
		t.Run(tc.name, func(t *testing.T) {
			_ = os.Remove(file)
			a := m.Read(t.Context(), transport.MCPRequest{Server: q.Server, Command: q.Command, Env: q.Env, Tool: "search", Arguments: q.Arguments})
			need.Must(t, a.Err == nil, "%v", a.Err)
			r := q
			r.Arguments, _ = json.Marshal(map[string]string{"file": file, "token": "t-1", "then": tc.then})
			if tc.timeout > 0 {
				r.Deadline = time.Now().Add(tc.timeout)
			}
			if tc.late {
				r.Deadline = time.Now().Add(-time.Millisecond)
			}
			a = m.Send(t.Context(), r)
			need.That(t, tc.check(a), "%+v %+v", a, a.RPC)
			time.Sleep(50 * time.Millisecond)
			b, _ := os.ReadFile(file)
			need.Equal(t, strings.Count(string(b), "t-1"), tc.effects, "effects")
		})
	}
}

// Whatever an HTTP server does after it took the call, it was sent.
func TestI2_MCPSendOverHTTPThatIsCut(t *testing.T) {
	var calls atomic.Int64
	for name, status := range map[string]int{"cut": 0, "502": 502} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			upstream := overHTTP(t, &calls, true)
			relay := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				isCall := r.Header.Get("Mcp-Method") == "tools/call"
				req, _ := http.NewRequest(r.Method, upstream, r.Body)
				req.Header = r.Header
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if isCall && status == 0 {
					panic(http.ErrAbortHandler)
				}
				if isCall {
					w.WriteHeader(status)
					return
				}
				for k, v := range resp.Header {
					w.Header()[k] = v
				}
				w.WriteHeader(resp.StatusCode)
				_, _ = io.Copy(w, resp.Body)
			}))
			m := newMCP(t)
			a := m.Send(t.Context(), transport.MCPRequest{Server: "relay", URL: relay, Tool: "write", Limits: transport.Limits{Timeout: 10 * time.Second}})
			if !a.Sent || a.Err == nil || a.RPC != nil || a.Status != status || calls.Load() != 1 {
				t.Errorf("sent=%v status=%d class=%q err=%v, %d calls", a.Sent, a.Status, a.Class, a.Err, calls.Load())
			}
		})
	}
}

// What a server declares holds for a while, and only if it does not contradict
// itself.
func TestMCPDeclarationsAreAskedForAgain(t *testing.T) {
	m := &MCP{listFor: time.Nanosecond}
	t.Cleanup(m.Close)
	q, processes := child(t, "fickle")
	a := m.Read(t.Context(), q)
	need.Must(t, a.Err == nil && a.RPC != nil, "%v %+v", a.Err, a.RPC)
	a = m.Read(t.Context(), q)
	need.That(t, a.Err != nil && !a.Sent && strings.Contains(a.Err.Error(), "not declared read-only"), "%v %+v", a.Err, a.RPC)
	started, _ := processes()
	need.That(t, len(started) == 1, "%d processes", len(started))
	twofold, _ := child(t, "twofold")
	a = m.Read(t.Context(), twofold)
	need.That(t, a.Err != nil && !a.Sent && strings.Contains(a.Err.Error(), "not declared read-only"), "%v %+v", a.Err, a.RPC)
}
