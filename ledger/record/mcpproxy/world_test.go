package mcpproxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

const soon = 3 * time.Minute // a busy machine takes its time; a failure takes this long

// world is a ledger, and the files of one server.
type world struct {
	testing.TB
	dir, ledger, journal, effects string
	store                         ledger.Store
	rule                          record.KindRule
	rules                         map[string]record.KindRule
	reader                        record.Reader
	mode                          string
	argv                          []string
	apart                         bool // the server is a process, as it is for a task, or for another proxy
}

// besides are the tests that run beside others. They wait for the disk and for
// deadlines; some make two worlds.
var besides sync.Map

func runBeside(t testing.TB) {
	if t, ok := t.(*testing.T); ok {
		if _, already := besides.LoadOrStore(t, true); !already {
			t.Parallel()
		}
	}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	runBeside(t)
	dir := t.TempDir()
	w := &world{TB: t, dir: dir, ledger: filepath.Join(dir, "ledger.db"), journal: filepath.Join(dir, "journal"),
		effects: filepath.Join(dir, "effects"), rule: record.KindRule{Deadline: 20 * time.Second}}
	w.store = inMemory()
	return w
}

// inAFile is a world whose ledger other processes open, and whose server is one.
func inAFile(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	store := need.Get(open.Create(t.Context(), w.ledger, open.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	w.store, w.apart = store, true
	return w
}

func (w *world) ruleOf(kind string) record.KindRule {
	if r, ok := w.rules[strings.TrimPrefix(kind, "mcp.scripted.")]; ok {
		if r.Deadline == 0 {
			r.Deadline = w.rule.Deadline
		}
		return r
	}
	return w.rule
}

// server is the scripted server.
func (w *world) server(ctx context.Context) (mcpwire.Conn, error) {
	argv := w.argv
	if argv == nil && !w.apart {
		return w.piped(), nil
	}
	if argv == nil {
		argv = []string{os.Args[0]}
	}
	return mcpwire.Start(ctx, mcpwire.StdioOptions{Argv: argv, Stderr: os.Stderr, Env: w.environment("server")})
}

func (w *world) environment(role string) []string {
	return append(os.Environ(), "MCP_TEST_ROLE="+role, "MCP_TEST_JOURNAL="+w.journal, "MCP_TEST_EFFECTS="+w.effects,
		"MCP_TEST_MODE="+w.mode, "MCP_TEST_LEDGER="+w.ledger, "MCP_TEST_DEADLINE="+w.rule.Deadline.String())
}

func (w *world) options() mcpproxy.Options {
	return mcpproxy.Options{
		Recorder: record.New(w.store, record.Rules(w.ruleOf), record.Options{Reader: w.reader}),
		Connect:  w.server, Server: "scripted", Scope: "mcp:test",
	}
}

// client is somebody at the other end of a proxy.
type client struct {
	testing.TB
	in    io.WriteCloser
	lines chan string
	ended chan error // what Run returned
	stop  context.CancelFunc
}

// listTools asks the scripted server for its tools, of which there are two pages.
func (c *client) listTools() {
	c.Helper()
	for page, params := range map[string]string{"one": `{}`, "two": `{"cursor":"2"}`} {
		c.say(`{"jsonrpc":"2.0","id":"` + page + `","method":"tools/list","params":` + params + `}`)
		c.answered(`"` + page + `"`)
	}
}

func (w *world) client() *client { return w.clientWith(w.options()) }

func (w *world) clientWith(o mcpproxy.Options) *client {
	w.Helper()
	return w.clientOf(func(ctx context.Context, in io.Reader, out io.Writer) error {
		o.In, o.Out = in, out
		return mcpproxy.New(o).Run(ctx)
	})
}

func (w *world) clientOf(run func(context.Context, io.Reader, io.Writer) error) *client {
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	c := &client{TB: w.TB, in: in, ended: make(chan error, 1), stop: stop}
	c.listen(out)
	go func() {
		c.ended <- run(ctx, theirIn, theirOut)
		theirOut.Close()
		theirIn.Close()
	}()
	w.Cleanup(func() {
		stop()
		in.Close()
		out.Close()
	})
	return c
}

func (c *client) listen(out io.Reader) {
	c.lines = make(chan string, 4096)
	go func() {
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if line != "" {
				c.lines <- line
			}
			if err != nil {
				close(c.lines)
				return
			}
		}
	}()
}

func (c *client) say(line string) {
	c.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.Fatalf("the proxy does not listen: %v", err)
	}
}

func (c *client) call(id, tool, arguments string) {
	c.Helper()
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments))
}

// ask calls a tool and waits for the answer.
func (c *client) ask(id, tool, arguments string) answer {
	c.Helper()
	c.call(id, tool, arguments)
	return c.answered(id)
}

// release lets the tool "slow" answer.
func (w *world) release() { appendLine(w.effects+".go", "\n") }

// unanswered calls a tool that gives no answer in time. On a machine that is so
// slow that the call's time was over before it was sent, it calls again.
func (c *client) unanswered(id, tool, arguments string) answer {
	c.Helper()
	for {
		c.call(id, tool, arguments)
		a := c.answered(id)
		if a.Error == nil || !strings.Contains(a.Error.Message, "before it could be sent") {
			a.wantOutcome(c, "unknown")
			return a
		}
	}
}

// hear is the next line.
func (c *client) hear() string {
	c.Helper()
	select {
	case line, open := <-c.lines:
		need.Must(c, open, "the proxy says nothing more")
		return line
	case <-time.After(soon):
		c.Fatal("the proxy says nothing")
	}
	return ""
}

// answer is a response as the tests look at it.
type answer struct {
	ID    json.RawMessage
	Error *struct {
		Code    int
		Message string
		Data    said
	}
	Result struct {
		Content    []struct{ Type, Text string }
		IsError    bool
		ResultType string
		Task       struct{ TaskID, Status string }
		Meta       struct {
			Outcome said `json:"indoubt/outcome"`
		} `json:"_meta"`
		StructuredContent said // of the proxy's own answers: what _meta says
	}
	structured bool // it is there as such
	line       string
}

// said is what an answer of the proxy's own says to programs.
type said struct {
	Outcome, Code, Operation, Advice, Why string

	SafeNewKey bool `json:"safe_new_key"`
	Reconcile  struct {
		Tool      string
		Arguments struct{ Operation string }
	}
	Receipts   []string
	Operations []struct{ Operation, Outcome, Kind string }
}

func parseAnswer(t testing.TB, line string) answer {
	t.Helper()
	a := answer{line: line}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("no JSON: %s", line)
	}
	a.structured = strings.Contains(line, `"structuredContent"`)
	if own := a.Result.Meta.Outcome; own.Outcome != "" {
		need.That(t, !a.structured || fmt.Sprint(own) == fmt.Sprint(a.Result.StructuredContent), "_meta and the structured content differ: %s", line)
		a.Result.StructuredContent = own
		need.That(t, own.SafeNewKey == (own.Outcome == "key_reused") && strings.Contains(line, `"safe_new_key":`), "%s", line)
		ask := own.Reconcile
		need.That(t, own.SafeNewKey || strings.HasPrefix(ask.Tool, "indoubt_status") && ask.Arguments.Operation == own.Operation, "%s", line)
	}
	if e := a.Error; e != nil && strings.Contains(e.Message, "indoubt") {
		need.That(t, e.Data.Code != "" && e.Data.SafeNewKey == record.FactsOf(e.Data.Code, "", nil).SafeNewKey, "%s", line)
	}
	return a
}

// answered is the next line, which must be the response with this id.
func (c *client) answered(id string) answer {
	c.Helper()
	a := parseAnswer(c, c.hear())
	need.Must(c, string(a.ID) == id, "want the answer to %s, got %s", id, a.line)
	return a
}

func (c *client) leave() error {
	c.Helper()
	c.in.Close()
	return c.wait()
}

func (c *client) wait() error {
	c.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(soon):
		c.Fatal("the proxy does not end")
	}
	return nil
}

func (a answer) wantDone(t testing.TB, tool string) {
	t.Helper()
	if a.Error != nil || a.Result.IsError || len(a.Result.Content) == 0 || a.Result.Content[0].Text != "did "+tool {
		t.Fatalf("not the answer of %s: %s", tool, a.line)
	}
}

func (a answer) wantOutcome(t testing.TB, outcome string) {
	t.Helper()
	need.Must(t, a.Result.StructuredContent.Outcome == outcome, "want the outcome %q: %s", outcome, a.line)
}

func (w *world) operations() []ledger.Operation {
	w.Helper()
	page := need.Get(w.store.Page(context.Background(), ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderOldest, Limit: 1000, Now: time.Now()}))(w)
	var out []ledger.Operation
	for _, row := range page.Rows {
		out = append(out, w.read(row.ID).Operation)
	}
	return out
}

func (w *world) read(id string) ledger.Record {
	w.Helper()
	rec := need.Get(w.store.Read(context.Background(), ledger.Locator{ID: id}))(w)
	return rec
}

func (w *world) only() ledger.Operation {
	w.Helper()
	ops := w.operations()
	need.Must(w, len(ops) == 1, "%d operations, want 1", len(ops))
	return ops[0]
}

func (w *world) wantState(o ledger.Operation, state ledger.State) {
	w.Helper()
	if got := o.StateAt(time.Now()); got != state {
		w.Fatalf("%s is %s, want %s (%s)", o.Kind, got, state, o.Reason)
	}
}

func (w *world) wantEffects(n int) {
	w.Helper()
	if got := effectsIn(w.TB, w.effects); len(got) != n {
		w.Fatalf("%d effects, want %d: %q", len(got), n, got)
	}
}

func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for limit := time.Now().Add(soon); !holds(); time.Sleep(5 * time.Millisecond) {
		need.Must(w, !time.Now().After(limit), "in vain: %s", what)
	}
}

// heard is what the server has read, line by line.
func (w *world) heard() []string {
	w.Helper()
	text, err := os.ReadFile(w.journal)
	if err != nil {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
}

// fromClient is what the server has read that the client said.
func (w *world) fromClient() string {
	var out strings.Builder
	for _, line := range w.heard() {
		if !strings.Contains(line, `"id":"indoubt-`) {
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return out.String()
}

// runProxyProcess is a proxy as a process of its own.
func runProxyProcess() int {
	deadline, _ := time.ParseDuration(os.Getenv("MCP_TEST_DEADLINE"))
	w := &world{apart: true, ledger: os.Getenv("MCP_TEST_LEDGER"), journal: os.Getenv("MCP_TEST_JOURNAL"), effects: os.Getenv("MCP_TEST_EFFECTS"),
		mode: os.Getenv("MCP_TEST_MODE"), rule: record.KindRule{Deadline: deadline}}
	store, err := open.Create(context.Background(), w.ledger, open.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer store.Close()
	w.store = store
	o := w.options()
	o.In, o.Out = os.Stdin, os.Stdout
	if err := mcpproxy.New(o).Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a client of a proxy that is a process.
type process struct {
	*client
	cmd  *exec.Cmd
	once sync.Once
}

func (w *world) process() *process {
	w.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr, cmd.WaitDelay = w.environment("proxy"), os.Stderr, time.Second
	in := need.Get(cmd.StdinPipe())(w)
	out, theirOut := io.Pipe()
	cmd.Stdout = theirOut
	need.OK(w, cmd.Start())
	p := &process{client: &client{TB: w.TB, in: in, ended: make(chan error, 1)}, cmd: cmd}
	p.listen(out)
	go func() {
		p.ended <- cmd.Wait()
		theirOut.Close()
	}()
	w.Cleanup(p.kill)
	return p
}

func (p *process) kill() { p.once.Do(func() { _ = p.cmd.Process.Kill() }) }
