package mcpproxy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// The tests run this binary as the processes they need: a scripted MCP server,
// and a proxy of its own.
func TestMain(m *testing.M) {
	switch os.Getenv("MCP_TEST_ROLE") {
	case "server":
		newScripted(os.Stdin, os.Stdout, os.Getenv("MCP_TEST_JOURNAL"), os.Getenv("MCP_TEST_EFFECTS"), os.Getenv("MCP_TEST_MODE")).run()
		return
	case "proxy":
		os.Exit(runProxyProcess())
	}
	os.Exit(m.Run())
}

// scripted is a server whose tools do what their names say. Every effect is one
// line in a file, and every line it reads goes into a journal.
type scripted struct {
	in               *bufio.Reader
	out              io.Writer
	mu               sync.Mutex
	journal, effects string
	mode             map[string]bool
	tasks            map[string]string // id → arguments of what works on
	polls            map[string]int
	asked            int
	die              func() // as a process that ends
	once             sync.Once
	gone             chan struct{}
}

func newScripted(in io.Reader, out io.Writer, journal, effects, mode string) *scripted {
	s := &scripted{in: bufio.NewReader(in), out: out, journal: journal, effects: effects,
		mode: map[string]bool{}, tasks: map[string]string{}, polls: map[string]int{}, die: func() { os.Exit(3) }, gone: make(chan struct{})}
	for _, word := range strings.Fields(mode) {
		s.mode[word] = true
	}
	return s
}

// request is how a lenient server reads a message: encoding/json takes names in
// any case, and the last of duplicates.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name           string          `json:"name"`
		Arguments      json.RawMessage `json:"arguments"`
		RequestState   string          `json:"requestState"`
		InputResponses json.RawMessage `json:"inputResponses"`
		TaskID         string          `json:"taskId"`
		Cursor         string          `json:"cursor"`
	} `json:"params"`
}

func (s *scripted) end() { s.once.Do(func() { close(s.gone) }) }

func appendLine(path, line string) {
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return // its test has ended
	}
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprint(f, line)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *scripted) effect(r request) {
	appendLine(s.effects, r.Params.Name+"\t"+string(r.Params.Arguments)+"\n")
}

func (s *scripted) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *scripted) run() {
	if s.mode["noise"] {
		s.say("listening on standard input…")
	}
	if s.mode["asks"] {
		s.say(`{"jsonrpc":"2.0","id":0,"method":"roots/list"}`)
	}
	for {
		line, err := s.in.ReadString('\n')
		if line != "" {
			appendLine(s.journal, line)
			s.take(line)
		}
		if err != nil {
			return
		}
	}
}

func (s *scripted) take(line string) {
	if strings.HasPrefix(strings.TrimSpace(line), "[") {
		var batch []json.RawMessage
		if json.Unmarshal([]byte(line), &batch) == nil {
			for _, element := range batch {
				s.take(string(element))
			}
		}
		return
	}
	var r request
	if json.Unmarshal([]byte(line), &r) != nil {
		return
	}
	switch r.Method {
	case "initialize":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1"}}}`, r.ID)
	case "ping":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, r.ID)
	case "tools/list":
		s.list(r)
	case "tools/call":
		s.call(r)
	case "tasks/get", "tasks/result":
		s.task(r)
	case "echo/odd":
		s.say(`{"result" : {"b":1, "a":{"big":12345678901234567890}, "unknown":null } , "id":%s,"jsonrpc":"2.0","extra":[1,2]}`, r.ID)
	}
}

const listed = `{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

func (s *scripted) list(r request) {
	switch {
	case r.Params.Cursor == "":
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"put","inputSchema":{"type":"object"}},{"name":"silent","inputSchema":{"type":"object"}},{"name":"pay","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["paid"]}}],"nextCursor":"2"}}`, r.ID)
	default:
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{ "tools":[ %s ] }}`, r.ID, listed)
	}
}

func (s *scripted) done(r request) {
	s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did %s"}],"structuredContent":{"big":9007199254740993}}}`, r.ID, r.Params.Name)
}

func (s *scripted) call(r request) {
	switch r.Params.Name {
	case "get":
		s.done(r)
	case "silent", "pay":
		s.effect(r)
	case "slow":
		s.effect(r)
		go func() {
			for !exists(s.effects + ".go") {
				select {
				case <-s.gone:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
			s.done(r)
		}()
	case "die_before":
		s.die()
	case "die_after":
		s.effect(r)
		s.die()
	case "iserror":
		s.effect(r)
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"MCP error -32602: Structured content does not match the tool's output schema"}],"isError":true}}`, r.ID)
	case "refuse":
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, r.ID)
	case "unlisted": // as the SDKs say it, before they run anything
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"MCP error -32602: Tool unlisted not found"}],"isError":true}}`, r.ID)
	case "ask":
		s.ask(r)
	case "task":
		s.effect(r)
		s.tasks["t-1"] = string(r.Params.Arguments)
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"task":{"taskId":"t-1","status":"working","createdAt":"2026-08-01T10:30:00Z","lastUpdatedAt":"2026-08-01T10:30:00Z","ttl":60000,"pollInterval":50}}}`, r.ID)
	default:
		s.effect(r)
		s.done(r)
	}
}

func (s *scripted) ask(r request) {
	if r.Params.RequestState == "" {
		s.asked++
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"login":{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}},"requestState":"state-%d"}}`, r.ID, s.asked)
		return
	}
	s.effect(r)
	s.done(r)
}

func (s *scripted) task(r request) {
	if _, ok := s.tasks[r.Params.TaskID]; !ok {
		s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}`, r.ID)
		return
	}
	if r.Method == "tasks/result" {
		s.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the task's own result"}],"isError":false,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}}`, r.ID)
		return
	}
	s.polls[r.Params.TaskID]++
	status := "working"
	if s.polls[r.Params.TaskID] > 2 {
		status = "completed"
	}
	s.say(`{"jsonrpc":"2.0","id":%s,"result":{"taskId":"t-1","status":%q,"createdAt":"2026-08-01T10:30:00Z","lastUpdatedAt":"2026-08-01T10:30:00Z","ttl":60000,"pollInterval":50}}`, r.ID, status)
}

// effectsIn are the effects that a file tells of.
func effectsIn(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	need.Must(t, err == nil || os.IsNotExist(err), "%v", err)
	return strings.Split(strings.TrimSuffix(string(bytes.TrimLeft(text, "\n")), "\n"), "\n")[:bytes.Count(text, []byte("\n"))]
}
