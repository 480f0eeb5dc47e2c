//go:build soak

package cli_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// realServer is a server that works in a directory, and what is asked of it.
type realServer struct {
	command func(box toolbox, dir string) []string
	calls   func(dir string) []toolCall
	writes  int // of the calls
}

var realServers = map[string]realServer{
	"memory": {func(box toolbox, _ string) []string { return box.memory() }, func(string) []toolCall {
		return []toolCall{
			person("Ada"), {"add_observations", object{"observations": []object{{"entityName": "Ada", "contents": []string{"ö\u2028</script>"}}}}},
			{"create_entities", object{"wrong": true}}, {"read_graph", object{}},
		}
	}, 3},
	"filesystem": {func(box toolbox, dir string) []string { return box.filesystem(dir) }, func(dir string) []toolCall {
		file := filepath.Join(dir, "b.txt")
		return []toolCall{
			{"write_file", object{"path": file, "content": "one\ntwo\n"}}, {"edit_file", object{"path": file, "edits": []object{{"oldText": "two", "newText": "three"}}}},
			{"move_file", object{"source": file, "destination": filepath.Join(dir, "c.txt")}}, {"read_text_file", object{"path": filepath.Join(dir, "c.txt")}},
		}
	}, 3},
	"everything": {func(box toolbox, _ string) []string { return box.everything("stdio") }, func(string) []toolCall {
		return []toolCall{{"echo", object{"message": "hello\n\"ö\""}}, {"get-sum", object{"a": 1, "b": 2.5}}, {"get-structured-content", object{"location": "New York"}}}
	}, 0},
	"thinking": {func(box toolbox, _ string) []string {
		return []string{box.node, box.path("@modelcontextprotocol", "server-sequential-thinking", "dist", "index.js")}
	}, func(string) []toolCall {
		thought := func(n int) toolCall {
			return toolCall{"sequentialthinking", object{"thought": "x", "nextThoughtNeeded": n < 2, "thoughtNumber": n, "totalThoughts": 2}}
		}
		return []toolCall{thought(1), thought(2)}
	}, 0},
	"git": {func(box toolbox, _ string) []string {
		return []string{box.node, box.path("@cyanheads", "git-mcp-server", "dist", "index.js")}
	}, func(dir string) []toolCall {
		return []toolCall{
			{"git_add", object{"path": dir, "paths": []string{"a.txt"}}}, {"git_commit", object{"path": dir, "message": "subject"}}, {"git_status", object{"path": dir}},
		}
	}, 2},
	"commands": {func(box toolbox, _ string) []string {
		return []string{box.node, box.path("mcp-server-commands", "build", "index.js")}
	}, func(dir string) []toolCall {
		return []toolCall{{"run_command", object{"command": "echo more >>a.txt; cat a.txt", "workdir": dir}}, {"run_command", object{"command": "exit 3", "workdir": dir}}}
	}, 2},
}

func person(name string) toolCall {
	return toolCall{"create_entities", object{"entities": []object{{"name": name, "entityType": "person", "observations": []string{}}}}}
}

// usualPairs are tried by default. INDOUBT_TEST_MATRIX=all tries every client with every
// server, and says what the proxy costs.
var usualPairs = map[string]string{"AI SDK": "memory", "TypeScript SDK 2": "commands", "inspector": "thinking", "Go SDK": "git"}

// volatile is what differs between two runs of one server.
var volatile = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|"(?:duration|executionTime)[A-Za-z]*":\s*[\d.]+|\b[\d.]+ ?ms\b`)

// TestClientsGetTheSameFromServersBehindTheProxy: what a client hands to its agent, what
// the server has done, and that each write is recorded as done or refused by its answer.
func TestClientsGetTheSameFromServersBehindTheProxy(t *testing.T) {
	need.Program(t, "git")
	box := npm(t)
	all := os.Getenv("INDOUBT_TEST_MATRIX") == "all"
	for client, agent := range agents {
		for name, server := range realServers {
			if !all && usualPairs[client] != name {
				continue
			}
			t.Run(client+" with "+name, func(t *testing.T) {
				s := newMCPSite(t, anyPolicy)
				dir := filepath.Join(s.dir, "work")
				s.env = append(s.env, "MEMORY_FILE_PATH="+filepath.Join(dir, "memory.jsonl"), "MCP_TRANSPORT_TYPE=stdio", "MCP_LOG_LEVEL=error",
					"LOGS_DIR="+filepath.Join(s.dir, "logs"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
					"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
				command, calls := server.command(box, dir), server.calls(dir)
				direct, made, alone := s.work(agent, box, dir, command, calls)
				behind, done, took := s.work(agent, box, dir, proxied(name, command), calls)
				if a, b := strings.Join(direct, "\n"), strings.Join(behind, "\n"); a != b {
					t.Errorf("without: %s\nwith:    %s", a, b)
				}
				need.That(t, made == done, "without the proxy the server made\n%s\nand with it\n%s", made, done)
				writes := 0
				for state, n := range s.recorded() {
					writes += n
					need.That(t, !strings.HasSuffix(state, " pending"), "%s: %d", state, n)
				}
				if writes != server.writes {
					t.Errorf("%v is recorded of %d writes", s.recorded(), server.writes)
				}
				if !all {
					return
				}
				t.Logf("%.300q", direct)
				t.Logf("session %s, behind the proxy %s", alone.Round(time.Millisecond), took.Round(time.Millisecond))
				if name == "memory" && client != "inspector" { // which has a session for each call
					var many []toolCall
					for i := range 40 {
						many = append(many, person(fmt.Sprint(i)))
					}
					_, _, alone := s.work(agent, box, dir, command, many)
					_, _, took := s.work(agent, box, dir, proxied(name, command), many)
					t.Logf("40 writes: %s, behind the proxy %s", alone.Round(time.Millisecond), took.Round(time.Millisecond))
				}
			})
		}
	}
}

// work is one session in a directory as it was at first. It gives what the client says,
// what is in the directory afterwards, and how long it took.
func (s *site) work(agent agentSession, box toolbox, dir string, command []string, calls []toolCall) (said []string, made string, took time.Duration) {
	s.Helper()
	need.OK(s, os.RemoveAll(dir))
	need.OK(s, os.Mkdir(dir, 0o755))
	need.OK(s, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o644))
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = s.env
		out, _ := cmd.CombinedOutput() // there may be no commit yet
		return string(out)
	}
	git("init", "-q", "-b", "main")
	began := time.Now()
	lines := agent(s, box, command, calls...)
	took = time.Since(began)
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"asked":`) && !strings.HasPrefix(line, `{"told":`) { // which a server does by its own clock
			said = append(said, volatile.ReplaceAllString(line, "…"))
		}
	}
	var files []string
	need.OK(s, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, fmt.Sprintf("%s %q", path, text))
		return err
	}))
	sort.Strings(files)
	return said, strings.Join(append(files, git("log", "--format=%H %s"), git("status", "--short")), "\n"), took
}
