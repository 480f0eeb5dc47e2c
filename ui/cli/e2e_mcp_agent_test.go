//go:build soak

package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"indoubt/ledger/need"
)

// toolCall is what an agent asks its client for.
type toolCall struct {
	tool      string
	arguments object
}

// agentSession is one session of a client with a server: it makes the calls, one after the
// other, and gives for each what the client hands to its agent.
type agentSession func(s *site, box toolbox, server []string, calls ...toolCall) []string

var agents = map[string]agentSession{
	"raw JSON-RPC": func(s *site, _ toolbox, server []string, calls ...toolCall) []string {
		c := s.session(server)
		defer c.close()
		var out []string
		for _, call := range calls {
			out = append(out, c.call(call.tool, call.arguments))
		}
		return out
	},
	"TypeScript SDK": func(s *site, box toolbox, server []string, calls ...toolCall) []string {
		return s.drive(box, script{Command: server, Validate: true, Steps: stepsOf(calls)})[1:]
	},
	"TypeScript SDK over HTTP": func(s *site, box toolbox, server []string, calls ...toolCall) []string {
		port := freePort(s.T)
		base := "http://127.0.0.1:" + port
		s.serve(s.T, base+"/healthz", box.node, box.path(".bin", "supergateway"), "--stdio", quoted(server), "--stateful",
			"--outputTransport", "streamableHttp", "--healthEndpoint", "/healthz", "--logLevel", "none", "--port", port)
		return s.drive(box, script{URL: base + "/mcp", Validate: true, Steps: stepsOf(calls)})[1:]
	},
	"TypeScript SDK 2": modern("sdk"),
	"AI SDK":           modern("ai"),
	"Go SDK": func(s *site, _ toolbox, server []string, calls ...toolCall) []string {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		defer cancel()
		cmd := exec.Command(server[0], server[1:]...)
		cmd.Env, cmd.Dir = s.env, s.dir
		session := need.Get(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil))(s)
		defer session.Close()
		need.Get(session.ListTools(ctx, nil))(s)
		var out []string
		for _, call := range calls {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: call.tool, Arguments: call.arguments})
			text, _ := json.Marshal(result)
			out = append(out, fmt.Sprintf("%s %v", text, err))
		}
		return out
	},
	"inspector": func(s *site, box toolbox, server []string, calls ...toolCall) []string {
		var out []string
		for _, call := range calls { // a session for each
			argv := []string{box.node, box.path(".bin", "mcp-inspector"), "--cli", "-q", "--format", "json", "--connect-timeout", "120000"}
			for _, pair := range s.env {
				switch name, _, _ := strings.Cut(pair, "="); name {
				case "EFFECTS", "LOSE_ONCE", "KILL_ONCE", "MEMORY_FILE_PATH", "LOGS_DIR", "MCP_TRANSPORT_TYPE", "MCP_LOG_LEVEL", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
					"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "INDOUBT_LEDGER", "INDOUBT_POLICY", "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME":
					argv = append(argv, "-e", pair)
				}
			}
			arguments, _ := json.Marshal(call.arguments)
			argv = append(append(argv, "--method", "tools/call", "--tool-name", call.tool, "--tool-args-json", string(arguments), "--"), server...)
			ctx, cancel := context.WithTimeout(s.Context(), patience)
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Env, cmd.Dir, cmd.WaitDelay = s.env, s.dir, time.Second
			text, _ := cmd.CombinedOutput() // its exit code says what the tool said
			cancel()
			out = append(out, string(text))
		}
		return out
	},
}

// modern is a client of testdata/mcp/modern.mjs.
func modern(which string) agentSession {
	return func(s *site, box toolbox, server []string, calls ...toolCall) []string {
		todo := []object{}
		for _, c := range calls {
			todo = append(todo, object{"tool": c.tool, "arguments": c.arguments})
		}
		return s.module(box, "modern.mjs", object{"client": which, "command": server, "calls": todo})
	}
}

func stepsOf(calls []toolCall) (out []step) {
	for _, c := range calls {
		out = append(out, call(c.tool, c.arguments))
	}
	return out
}

// conversation is a session over standard input and output, message by message.
type conversation struct {
	s     *site
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	asked int
}

func (s *site) session(server []string) *conversation {
	s.Helper()
	cmd := exec.Command(server[0], server[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = s.env, s.dir, time.Second
	in := need.Get(cmd.StdinPipe())(s)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	need.OK(s, err)
	c := &conversation{s: s, cmd: cmd, in: in, lines: bufio.NewReaderSize(out, 1<<20)}
	c.ask("initialize", object{"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": object{"name": "test", "version": "1"}})
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.ask("tools/list", object{})
	return c
}

// ask sends a request and gives the response to it.
func (c *conversation) ask(method string, params object) string {
	c.s.Helper()
	c.asked++
	line := need.Get(json.Marshal(object{"jsonrpc": "2.0", "id": c.asked, "method": method, "params": params}))(c.s)
	fmt.Fprintf(c.in, "%s\n", line)
	alarm := time.AfterFunc(patience, func() { c.cmd.Process.Kill() })
	defer alarm.Stop()
	for {
		line, err := c.lines.ReadString('\n')
		need.Must(c.s, err == nil, "no answer to %s %v: %v", method, params, err)
		var m struct {
			ID     int
			Method string
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.ID == c.asked && m.Method == "" {
			return strings.TrimSuffix(line, "\n")
		}
	}
}

func (c *conversation) call(tool string, arguments object) string {
	c.s.Helper()
	return c.ask("tools/call", object{"name": tool, "arguments": arguments})
}

func (c *conversation) close() {
	c.in.Close()
	_ = c.cmd.Wait()
}

var namedOperation = regexp.MustCompile(`operation[\\": ]+([0-9a-f]{8}-[0-9a-f-]{27})`)

// TestAnAgentIsToldAndActsOnce: whatever the client, an agent whose call lost its
// answer, which repeats it, asks how it stands, and starts again in another session,
// has one effect, and was told each time.
func TestAnAgentIsToldAndActsOnce(t *testing.T) {
	box := npm(t)
	const unknown, done = "not known whether this call took effect", "has taken effect already"
	for name, agent := range agents {
		t.Run(name, func(t *testing.T) {
			s := newMCPSite(t, "version: 1\ndefaults: { deadline: 3s }\n")
			s.T = t
			effects, once := filepath.Join(s.dir, "effects"), filepath.Join(s.dir, "once")
			s.env = append(s.env, "EFFECTS="+effects, "LOSE_ONCE="+once)
			text, err := os.ReadFile("testdata/mcp/lost.mjs")
			for file, content := range map[string][]byte{filepath.Join(s.dir, "lost.mjs"): text, once: nil} {
				if err == nil {
					err = os.WriteFile(file, content, 0o644)
				}
			}
			need.OK(t, err)
			server := proxied("bank", []string{box.node, filepath.Join(s.dir, "lost.mjs")})
			pay, other := toolCall{"pay", object{"invoice": "INV-1042"}}, toolCall{"pay", object{"invoice": "INV-1043"}}
			wants := func(what, said string, words ...string) {
				t.Helper()
				for _, word := range words {
					need.That(t, strings.Contains(said, word), "%s: the agent was not told %q: %s", what, word, said)
				}
			}

			said := agent(s, box, server, pay, pay)
			for i, what := range []string{"the lost answer", "the repeat"} {
				wants(what, said[i], unknown, "do not repeat it", "indoubt_status_bank")
			}
			op := s.doubted("uncertain").ID
			if m := namedOperation.FindStringSubmatch(said[0]); m == nil || m[1] != op {
				t.Errorf("the operation is not named: %s", said[0])
			}
			said = agent(s, box, server, toolCall{"indoubt_status_bank", object{"operation": op}}, pay, other, other)
			wants("how it stands", said[0], "it is not known whether it took effect", op)
			wants("another session", said[1], unknown, op)
			wants("another call", said[2], op, "repeat this call, and it is sent")
			wants("another call, and repeated", said[3], "INV-1043")

			s.must(0, "confirm", seen(s.show(op)), "--reason", "it is on the statement", "--receipt", "pi_7")
			said = agent(s, box, server, pay, pay, toolCall{"indoubt_status_bank", object{"operation": op}})
			wants("confirmed", said[0], done, "pi_7")
			wants("confirmed, and repeated", said[1], done)
			wants("how it stands now", said[2], "It took effect")
			if got := readLines(t, effects); len(got) != 2 || strings.Count(strings.Join(got, ""), "INV-1042") != 1 {
				t.Errorf("the server had the effects %q", got)
			}
		})
	}
}
