//go:build soak

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	found := s.rows("SELECT scope, kind, count(*) FROM op WHERE state = 'committed' GROUP BY scope, kind")
	need.That(t, len(found) == 1 && found[0][0] == "mcp:disk" && found[0][1] == "mcp.disk.write_file" && found[0][2] == "2", "%q", found)
}
