//go:build unix

package cli_test

import (
	"bufio"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"indoubt/ledger/need"
)

// agent is an MCP client of the program.
type agent struct {
	*site
	in    io.WriteCloser
	lines chan string
	cmd   *exec.Cmd
	err   strings.Builder
}

func (s *site) agent(args ...string) *agent {
	s.Helper()
	a := &agent{site: s, cmd: s.command(append([]string{"mcp"}, args...)...), lines: make(chan string, 100)}
	a.cmd.Env, a.cmd.Dir, a.cmd.Stderr = s.env, s.dir, &a.err
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		s.Fatal(err)
	}
	out := need.Get(a.cmd.StdoutPipe())(s)
	need.OK(s, a.cmd.Start())
	s.Cleanup(func() { a.cmd.Process.Kill() })
	go func() {
		defer close(a.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			a.lines <- line
		}
	}()
	return a
}

// call calls a tool and returns what its answer says.
func (a *agent) call(id int, tool string) (outcome, line string) {
	a.Helper()
	line = a.ask(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"x"}}}`, id, tool))
	var answer struct {
		Result struct {
			Meta struct {
				Outcome struct{ Outcome string } `json:"indoubt/outcome"`
			} `json:"_meta"`
		}
	}
	need.OK(a, json.Unmarshal([]byte(line), &answer))
	return answer.Result.Meta.Outcome.Outcome, line
}

// ask sends a request of that id, and gives the answer.
func (a *agent) ask(id int, line string) string {
	a.Helper()
	fmt.Fprintln(a.in, line)
	for limit := time.After(patience); ; {
		select {
		case line, open := <-a.lines:
			if !open {
				a.Fatalf("it says nothing more\n%s", a.err.String())
			}
			var answer struct {
				ID     *int
				Method string
			}
			if json.Unmarshal([]byte(line), &answer) == nil && answer.Method == "" && answer.ID != nil && *answer.ID == id {
				return line
			}
		case <-limit:
			a.Fatalf("no answer\n%s", a.err.String())
		}
	}
}

func (a *agent) leave() int {
	a.Helper()
	a.in.Close()
	for range a.lines {
	}
	_ = a.cmd.Wait()
	return a.cmd.ProcessState.ExitCode()
}

// TestI10_AClientThatIsGoneLosesNothing: a closed standard output does not end the
// proxy while a call is under way, nor does a closed standard error.
func TestI10_AClientThatIsGoneLosesNothing(t *testing.T) {
	need.Program(t, "sh")
	s := newSite(t)
	s.writePolicy("version: 1\nkinds:\n  mcp.s.put: { effect: once }\n")
	const server = `while read -r line; do
  while [ ! -e go ]; do echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"tick"}}'; echo tick >&2; sleep 0.05; done
  echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
done`
	cmd := exec.Command(program, "mcp", "--server", "s", "--", "sh", "-c", server)
	cmd.Env, cmd.Dir = s.env, s.dir
	in := need.Get(cmd.StdinPipe())(t)
	out := need.Get(cmd.StdoutPipe())(t)
	errOut := need.Get(cmd.StderrPipe())(t)
	need.OK(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put","arguments":{}}}`)
	need.Get(bufio.NewReader(out).ReadString('\n'))(t)
	in.Close()
	out.Close()
	errOut.Close()
	time.Sleep(200 * time.Millisecond) // a few more lines find nobody
	need.OK(t, os.WriteFile(s.dir+"/go", nil, 0o600))
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	s.wantState(s.only(), "committed")
}

// TestI11_NoSecretIsInTheScope: not even as a digest on which somebody who has the
// ledger could try passwords. Servers with different ones are kept apart.
func TestI11_NoSecretIsInTheScope(t *testing.T) {
	need.Program(t, "cat")
	s := newSite(t)
	s.writePolicy("version: 1\nkinds:\n  mcp.*: { repeat: allow, deadline: 100ms }\n")
	dir := need.Get(filepath.EvalSymlinks(s.dir))(t)
	scopes := map[string]bool{}
	for _, password := range []string{"hunter2", "hunter3", "hunter2"} {
		argv := []string{"sh", "-c", "exec cat", "--password=" + password}
		a := s.agent(append([]string{"--"}, argv...)...)
		a.call(1, "say")
		a.leave()
		db := need.Get(sql.Open("sqlite", s.ledger))(t)
		rows := need.Get(db.Query("SELECT scope, kind FROM op"))(t)
		for rows.Next() {
			var scope, kind string
			need.OK(t, rows.Scan(&scope, &kind))
			scopes[scope] = true
			need.Equal(t, kind, "mcp.sh-c-exec-cat.say")
		}
		need.OK(t, rows.Err())
		db.Close()
		sum := sha256.Sum256([]byte(strings.Join(append([]string{dir}, argv...), "\x00")))
		need.That(t, !scopes["mcp:"+hex.EncodeToString(sum[:16])], "anybody can try passwords on the scope")
	}
	need.Equal(t, len(scopes), 2, "scopes for two passwords")
}

func TestMCPOverHTTP(t *testing.T) {
	s := newSite(t)
	s.env = append(s.env, "MCP_SECRET=Bearer swordfish-9")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Header.Get("Authorization") != "Bearer swordfish-9":
			w.WriteHeader(http.StatusUnauthorized)
		case req.Method == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, req.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, req.ID)
		}
	}))
	defer server.Close()
	a := s.agent("--server", "far", "--url", server.URL+"/mcp", "--header-env", "Authorization=MCP_SECRET")
	fmt.Fprintln(a.in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"far-agent","version":"3"}}}`)
	if _, line := a.call(1, "say"); line != `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`+"\n" {
		t.Errorf("answer: %s", line)
	}
	if exit := a.leave(); exit != 0 {
		t.Errorf("exit %d\n%s", exit, a.err.String())
	}
	op := s.only()
	s.wantState(op, "committed")
	for _, command := range [][]string{{"show", op.ID}, {"show", op.ID, "--json"}, {"list", "--json"}} {
		if out := s.must(0, command...).Out; !strings.Contains(out, "far-agent/3 ") {
			t.Errorf("%q does not name the agent:\n%s", command, out)
		}
	}
	for _, file := range []string{s.ledger, s.ledger + "-wal"} {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), "swordfish") {
			t.Errorf("the secret is in %s", file)
		}
	}
}

func TestMCPCommandLine(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{nil, 2, "mcp needs a server"},
		{[]string{"--url", "http://127.0.0.1:1/mcp", "--", "cat"}, 2, "not both"},
		{[]string{"--header-env", "A=B", "--", "cat"}, 2, "--header-env is for a server behind --url"},
		{[]string{"--url", "http://127.0.0.1:1/mcp", "--header-env", "A=NOT_SET_ANYWHERE"}, 2, "NOT_SET_ANYWHERE is not set"},
		{[]string{"--url", "http://127.0.0.1:1/mcp", "--header-env", "A"}, 2, "--header-env"},
		{[]string{"--url", "ftp://example.com"}, 2, "--url"},
		{[]string{"--server", "a b", "--", "cat"}, 2, "--server"},
		{[]string{"--scope", " a", "--", "cat"}, 2, "--scope"},
		{[]string{"--scope", "", "--", "cat"}, 2, "--scope is empty"},
		{[]string{"--server", "", "--", "cat"}, 2, "--server is empty"},
		{[]string{"--deadline", "soon", "--", "cat"}, 2, "--deadline"},
		{[]string{"--deadline", "60d", "--", "cat"}, 2, "is not between"},
		{[]string{"--read-only", "--", "cat"}, 5, "--read-only"},
		{[]string{"--", s.dir + "/nobody"}, 1, "start the MCP server"},
	} {
		do := func(args ...string) result { return s.later(0, args...) }
		if c.exit == 1 { // it comes as far as to the server, and a process of its own ends what that has started
			do = s.do
		}
		if r := do(append([]string{"mcp"}, c.args...)...); r.Exit != c.exit || !strings.Contains(r.Err, c.says) || r.Out != "" {
			t.Errorf("mcp %q: exit %d, want %d with %q\n%s%s", c.args, r.Exit, c.exit, c.says, r.Out, r.Err)
		}
	}
	need.Contains(t, s.later(0, "mcp", "--help").Out, "indoubt mcp install claude")
	s.writePolicy("version: 1\nkinds: 7\n")
	if r := s.do("mcp", "--", "cat"); r.Exit != 1 || r.Out != "" {
		t.Errorf("a broken policy: exit %d\n%s", r.Exit, r.Err)
	}
}
