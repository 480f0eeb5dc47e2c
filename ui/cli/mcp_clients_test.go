//go:build soak

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// entryOf is the entry of a configuration file as its client starts it.
type entryOf struct {
	Command string
	Args    []string
	Env     map[string]string
}

func (s *site) entry(path, name string) entryOf {
	s.Helper()
	var c struct{ MCPServers map[string]entryOf }
	need.OK(s, json.Unmarshal(need.Get(os.ReadFile(path))(s), &c))
	return c.MCPServers[name]
}

// What install writes is what a real client starts: its calls are recorded, and stay
// those of one server when its arguments change.
func TestE2E_AnInstalledServerRecords(t *testing.T) {
	box := npm(t)
	s := newMCPSite(t, anyPolicy)
	config := filepath.Join(s.dir, "client.json")
	server := box.filesystem(s.dir)
	write := func(argv []string) {
		text := need.Get(json.Marshal(map[string]any{"mcpServers": map[string]any{"disk": map[string]any{"command": argv[0], "args": argv[1:]}}}))(t)
		need.OK(t, os.WriteFile(config, text, 0o600))
	}
	write(server)
	s.must(0, "mcp", "install", config, "--yes")
	for n := range 2 {
		e := s.entry(config, "disk")
		file := filepath.Join(s.dir, fmt.Sprintf("note-%d", n))
		s.drive(box, script{Command: append([]string{e.Command}, e.Args...), Steps: []step{call("write_file", object{"path": file, "content": "x"})}})
		need.Get(os.Stat(file))(t)
		e.Args = append(e.Args, t.TempDir())
		write(append([]string{e.Command}, e.Args...))
		s.must(0, "mcp", "install", config, "--yes")
	}
	found := s.rows("SELECT scope, kind, count(*) FROM operations WHERE state = 'committed' GROUP BY scope, kind")
	need.That(t, len(found) == 1 && strings.HasPrefix(found[0][0], "mcp:disk-") && found[0][1] == "mcp.filesystem.write_file" && found[0][2] == "2", "%q", found)
}

// Several servers of a client's file are one to it: each call is of its own server's kind,
// and one that is killed under a call is started again while the other goes on.
func TestE2E_SeveralServersBehindOne(t *testing.T) {
	box := npm(t)
	s := newMCPSite(t, anyPolicy)
	kill, notes, own := filepath.Join(s.dir, "kill"), filepath.Join(s.dir, "notes"), need.Get(filepath.Abs("testdata/mcp/kill.mjs"))(t)
	need.OK(t, os.Mkdir(notes, 0o755))
	entry := func(argv []string) object {
		return object{"command": argv[0], "args": append([]string{"--import", own}, argv[1:]...),
			"env": object{"KILL_ONCE": kill, "EFFECTS": filepath.Join(s.dir, "effects"), "MEMORY_FILE_PATH": filepath.Join(s.dir, "memory.jsonl")}}
	}
	file := filepath.Join(s.dir, "servers.json")
	need.OK(t, os.WriteFile(file, need.Get(json.Marshal(object{"mcpServers": object{"memory": entry(box.memory()), "notes": entry(box.filesystem(notes)),
		"gone": object{"command": "no-such-server"}, "old": object{"type": "sse", "url": "http://127.0.0.1:1/sse"}}}))(t), 0o600))
	work := func(steps ...step) string {
		lines := s.drive(box, script{Command: []string{program, "mcp", "--servers", file}, Steps: steps})
		return strings.Join(lines, "\n")
	}
	write := call("notes__write_file", object{"path": filepath.Join(notes, "x"), "content": "one"})
	said := work(step{Method: "tools/list"}, call("memory__create_entities", person("Ada").arguments), write)
	need.Contains(t, said, `"name":"memory__create_entities"`, `"name":"notes__write_file"`, `"name":"indoubt_status"`, "Successfully wrote")
	need.OK(t, os.WriteFile(kill, []byte("after"), 0o600))
	said = work(call("memory__create_entities", person("Bob").arguments), call("memory__create_entities", person("Bob").arguments), write, call("memory__read_graph", object{}))
	need.Equal(t, strings.Count(said, `"outcome":"unknown"`), 2, said)
	need.Contains(t, said, "ask the tool indoubt_status with operation", "Successfully wrote", `\"name\": \"Bob\"`)
	for state, n := range map[string]int{"mcp.memory.create_entities committed": 1, "mcp.memory.create_entities uncertain": 1, "mcp.filesystem.write_file committed": 2} {
		need.Equal(t, s.recorded()[state], n, state)
	}
}
