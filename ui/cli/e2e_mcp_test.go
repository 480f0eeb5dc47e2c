//go:build soak

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

// The end-to-end tests of the MCP proxy put servers and clients around it that
// nobody here wrote.

// script is what testdata/mcp/client.mjs does.
type script struct {
	Command []string `json:"command,omitempty"`
	URL     string   `json:"url,omitempty"`
	Steps   []step   `json:"steps"`
	Until   string   `json:"until,omitempty"` // the notification that is waited for after the last step
	Wait    int      `json:"wait,omitempty"`  // ms, after that
	// Validate calls tools as agents do: the client holds their answers against the
	// schemas that were listed.
	Validate bool `json:"validate,omitempty"`
}

type step struct {
	Method   string         `json:"method"`
	Params   map[string]any `json:"params,omitempty"`
	Progress bool           `json:"progress,omitempty"`
	Timeout  int            `json:"timeout,omitempty"` // ms
}

func call(tool string, arguments map[string]any) step {
	return step{Method: "tools/call", Params: map[string]any{"name": tool, "arguments": arguments}}
}

// proxied is the command line of a server behind the proxy.
func proxied(name string, server []string) []string {
	return append([]string{program, "mcp", "--server", name, "--"}, server...)
}

// tapped is a command whose standard output is kept in a file on its way.
func tapped(file string, command []string) []string {
	return append([]string{"sh", "-c", `"$@" | tee "$0"`, file}, command...)
}

// drive runs the TypeScript SDK's client, and gives what it printed.
func (s *site) drive(box toolbox, sc script) []string {
	s.Helper()
	return s.module(box, "client.mjs", sc)
}

// module runs a program of testdata/mcp with what it is to do as its argument.
func (s *site) module(box toolbox, name string, todo any) []string {
	s.Helper()
	text := need.Get(json.Marshal(todo))(s)
	// Modules are looked for beside the program's file, so it must lie where they are.
	client := need.Get(os.ReadFile(filepath.Join("testdata/mcp", name)))(s)
	file := filepath.Join(s.dir, name)
	need.OK(s, os.WriteFile(file, client, 0o644))
	if _, err := os.Lstat(filepath.Join(s.dir, "node_modules")); err != nil {
		need.OK(s, os.Symlink(box.dir, filepath.Join(s.dir, "node_modules")))
	}
	return s.output(box.node, file, string(text))
}

// output runs a program that must end well, and gives its lines.
func (s *site) output(argv ...string) []string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = s.env, s.dir, time.Second
	var out, noise bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &noise
	if err := cmd.Run(); err != nil {
		s.Fatalf("%.200q: %v\n%s\n%s", argv, err, out.Bytes(), noise.Bytes())
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

// withoutStatus takes the proxy's own tool out of a list of tools.
func withoutStatus(line string) (rest string, found bool) {
	i := strings.Index(line, `,{"name":"indoubt_status_`)
	if i < 0 {
		return line, false
	}
	decoder := json.NewDecoder(strings.NewReader(line[i+1:]))
	var tool json.RawMessage
	if decoder.Decode(&tool) != nil {
		return line, false
	}
	return line[:i] + line[i+1+int(decoder.InputOffset()):], true
}

// cleaned are lines from behind the proxy without its own tool, which must be in
// them once.
func cleaned(t *testing.T, lines []string) []string {
	t.Helper()
	extra := 0
	for i, line := range lines {
		rest, found := withoutStatus(line)
		if found {
			extra++
		}
		lines[i] = rest
	}
	need.Equal(t, extra, 1, "lists of tools have the proxy's own")
	return lines
}

// sameLines compares what came out of a server with what came out of the proxy in
// front of it.
func sameLines(t *testing.T, direct, behind []string) {
	t.Helper()
	for i := range max(len(direct), len(behind)) {
		var a, b string
		if i < len(direct) {
			a = direct[i]
		}
		if i < len(behind) {
			b = behind[i]
		}
		need.Must(t, a == b, "line %d differs\nwithout: %.2000s\nwith:    %.2000s", i+1, a, b)
	}
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	text := need.Get(os.ReadFile(file))(t)
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

func wantRecorded(t *testing.T, got, want map[string]int) {
	t.Helper()
	need.That(t, fmt.Sprint(got) == fmt.Sprint(want), "the ledger has %v, want %v", got, want)
}

var memorySteps = []step{
	{Method: "tools/list"},
	call("create_entities", object{"entities": []object{{"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program", "ö\u2028</script>"}}}}),
	call("create_entities", object{"entities": []object{{"name": "Charles", "entityType": "person", "observations": []string{}}}}),
	call("create_relations", object{"relations": []object{{"from": "Ada", "to": "Charles", "relationType": "knows"}}}),
	call("add_observations", object{"observations": []object{{"entityName": "Nobody", "contents": []string{"x"}}}}),
	call("add_observations", object{"observations": []object{{"entityName": "Ada", "contents": []string{"countess"}}}}),
	call("search_nodes", object{"query": "countess"}),
	call("create_entities", object{"wrong": true}),
	call("delete_observations", object{"deletions": []object{{"entityName": "Ada", "observations": []string{"countess"}}}}),
	call("read_graph", object{}),
	call("no_such_tool", object{}),
	{Method: "no/such/method"},
	{Method: "ping"},
}

func TestRealMCPServersAnswerTheSameBehindTheProxy(t *testing.T) {
	box := npm(t)
	t.Run("memory", func(t *testing.T) {
		s := newMCPSite(t, anyPolicy)
		s.drive(box, script{Command: tapped("direct", box.memory()), Steps: memorySteps})
		direct := readLines(t, filepath.Join(s.dir, "memory.jsonl"))
		os.Remove(filepath.Join(s.dir, "memory.jsonl"))
		s.drive(box, script{Command: tapped("behind", proxied("memory", box.memory())), Steps: memorySteps})
		sameLines(t, readLines(t, filepath.Join(s.dir, "direct")), cleaned(t, readLines(t, filepath.Join(s.dir, "behind"))))
		if behind := readLines(t, filepath.Join(s.dir, "memory.jsonl")); strings.Join(behind, "\n") != strings.Join(direct, "\n") {
			t.Errorf("the server's file is\n%s\nwithout the proxy it was\n%s", behind, direct)
		}
		wantRecorded(t, s.recorded(), map[string]int{
			"mcp.memory.create_entities committed": 2, "mcp.memory.create_relations committed": 1, "mcp.memory.add_observations committed": 1,
			"mcp.memory.delete_observations committed": 1,
			// An error from inside a tool does not say that nothing happened.
			"mcp.memory.add_observations uncertain": 1, "mcp.memory.create_entities failed": 1, "mcp.memory.no_such_tool failed": 1,
		})
	})
	t.Run("filesystem", func(t *testing.T) {
		s := newMCPSite(t, anyPolicy)
		root := filepath.Join(s.dir, "root")
		file := filepath.Join(root, "a.txt")
		steps := []step{
			{Method: "tools/list"},
			call("write_file", object{"path": file, "content": "one\ntwo\n"}),
			call("read_text_file", object{"path": file}),
			call("edit_file", object{"path": file, "edits": []object{{"oldText": "two", "newText": "three"}}}),
			call("create_directory", object{"path": filepath.Join(root, "sub")}),
			call("move_file", object{"source": file, "destination": filepath.Join(root, "sub", "b.txt")}),
			call("directory_tree", object{"path": root}),
			call("write_file", object{"path": "/outside", "content": "x"}),
		}
		for name, command := range map[string][]string{"direct": box.filesystem(root), "behind": proxied("files", box.filesystem(root))} {
			os.RemoveAll(root)
			need.OK(t, os.Mkdir(root, 0o755))
			s.drive(box, script{Command: tapped(name, command), Steps: steps})
		}
		sameLines(t, readLines(t, filepath.Join(s.dir, "direct")), cleaned(t, readLines(t, filepath.Join(s.dir, "behind"))))
		wantRecorded(t, s.recorded(), map[string]int{
			"mcp.files.write_file committed": 1, "mcp.files.edit_file committed": 1, "mcp.files.create_directory committed": 1,
			"mcp.files.move_file committed": 1, "mcp.files.write_file uncertain": 1,
		})
	})
	t.Run("everything", func(t *testing.T) {
		s := newMCPSite(t, everythingPolicy)
		s.drive(box, script{Command: tapped("direct", box.everything("stdio")), Steps: everythingSteps})
		s.drive(box, script{Command: tapped("behind", proxied("everything", box.everything("stdio"))), Steps: everythingSteps})
		// This server says some things by its own clock, so the order is not always the same.
		sameLines(t, unordered(readLines(t, filepath.Join(s.dir, "direct"))), unordered(cleaned(t, readLines(t, filepath.Join(s.dir, "behind")))))
		wantRecorded(t, s.recorded(), everythingRecorded)
	})
}

// everythingPolicy names what only reads: the server says that its list has changed, by its own
// clock, and the client asks for it no more.
const everythingPolicy = anyPolicy + `kinds:
  mcp.everything.get-*: { effect: read }
  mcp.everything.echo: { effect: read }
  mcp.everything.trigger-long-running-operation: { effect: read }
`

var everythingSteps = []step{
	{Method: "tools/list"},
	call("echo", object{"message": "hello\n\"ö\""}),
	call("get-sum", object{"a": 1, "b": 2.5}),
	call("get-sum", object{"a": 1, "b": "x"}),
	call("no-such-tool", object{}),
	{Method: "no/such/method"},
	{Method: "tools/call", Progress: true, Params: object{"name": "trigger-long-running-operation", "arguments": object{"duration": 0.4, "steps": 4}}},
	call("trigger-sampling-request", object{"prompt": "p", "maxTokens": 10}),
	call("trigger-elicitation-request", object{}),
	call("get-roots-list", object{}),
	call("get-structured-content", object{"location": "New York"}),
	call("get-tiny-image", object{}),
	{Method: "prompts/list"},
	{Method: "resources/list"},
	{Method: "resources/templates/list"},
	{Method: "completion/complete", Params: object{"ref": object{"type": "ref/prompt", "name": "completable-prompt"}, "argument": object{"name": "department", "value": "E"}}},
	{Method: "logging/setLevel", Params: object{"level": "error"}},
	{Method: "ping"},
}

var everythingRecorded = map[string]int{
	"mcp.everything.trigger-sampling-request committed": 1, "mcp.everything.trigger-elicitation-request committed": 1,
	"mcp.everything.no-such-tool failed": 1,
}

var ownID = regexp.MustCompile(`"id":\d+`)

// unordered sorts lines, and makes the server's own requests alike, whose ids
// tell when they were made.
func unordered(lines []string) []string {
	for i, line := range lines {
		if strings.Contains(line, `"method":`) && !strings.Contains(line, `"result":`) {
			lines[i] = ownID.ReplaceAllString(line, `"id":N`)
		}
	}
	sort.Strings(lines)
	return lines
}

func TestTheInspectorGetsTheSameBehindTheProxy(t *testing.T) {
	box := npm(t)
	s := newMCPSite(t, anyPolicy)
	inspect := func(server []string, more ...string) []string {
		argv := []string{box.node, box.path(".bin", "mcp-inspector"), "--cli", "-q", "--format", "json"}
		for _, name := range []string{"MEMORY_FILE_PATH", "INDOUBT_LEDGER", "INDOUBT_POLICY", "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
			for _, pair := range s.env {
				if strings.HasPrefix(pair, name+"=") {
					argv = append(argv, "-e", pair)
				}
			}
		}
		return s.output(append(append(append(argv, more...), "--"), server...)...)
	}
	create := []string{"--method", "tools/call", "--tool-name", "create_entities", "--tool-args-json", `{"entities":[{"name":"Ada","entityType":"person","observations":["countess"]}]}`}
	search := []string{"--method", "tools/call", "--tool-name", "search_nodes", "--tool-arg", "query=countess"}
	var direct, behind []string
	for _, more := range [][]string{create, search} {
		direct = append(direct, inspect(box.memory(), more...)...)
	}
	os.Remove(filepath.Join(s.dir, "memory.jsonl"))
	for _, more := range [][]string{create, search} {
		behind = append(behind, inspect(proxied("memory", box.memory()), more...)...)
	}
	need.That(t, strings.Join(direct, "\n") == strings.Join(behind, "\n"),
		"without the proxy: %s\nwith it: %s", direct, behind)
	sameLines(t, inspect(box.memory(), "--method", "tools/list"), cleaned(t, inspect(proxied("memory", box.memory()), "--method", "tools/list")))
	wantRecorded(t, s.recorded(), map[string]int{"mcp.memory.create_entities committed": 1})
}
