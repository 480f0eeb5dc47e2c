//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// A client's configuration is shown, changed when that is asked for, and put back.
func TestE2E_InstallAsksAndPutsBack(t *testing.T) {
	s := newMCPSite(t, anyPolicy)
	logins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer logins.Close()
	config := filepath.Join(s.dir, ".mcp.json")
	text := fmt.Sprintf("{\n  \"mcpServers\": {\n    \"notes\": {\"command\": \"cat\"},\n    \"crm\": {\"url\": %q}\n  }\n}\n", logins.URL)
	need.OK(t, os.WriteFile(config, []byte(text), 0o600))
	for _, c := range []struct {
		args       string
		exit       int
		say        string
		afterwards bool // it is installed
	}{
		{"mcp install", 2, "needs a client or a file", false},
		{"mcp install cursor", 3, "there is no ", false},
		{"mcp install nothing.json", 3, "a client is one of claude, cursor, code", false},
		{"mcp install claude --server other", 3, "it has: notes, crm", false},
		{"mcp install claude --through http://127.0.0.1:1/", 2, "--server", false},
		{"mcp install claude", 5, "+    \"notes\"", false},
		{"--read-only mcp install claude --yes", 5, "--read-only", false},
		{"mcp install claude --dry-run", 0, "+    \"notes\"", false},
		{"mcp install claude --yes", 0, "crm stays as it is: the client logs in", true},
		{"mcp install claude --yes --json", 0, `"effect":"noop"`, true},
		{"mcp uninstall claude", 5, "-    \"notes\"", true},
		{"mcp uninstall claude --yes --json", 0, `"restored_whole":true`, false},
		{"mcp uninstall claude --yes", 0, "nothing to change", false},
	} {
		r := s.do(strings.Fields(c.args)...)
		need.That(t, r.Exit == c.exit && strings.Contains(r.Out+r.Err, c.say), "%s: exit %d\n%s%s", c.args, r.Exit, r.Out, r.Err)
		now := string(need.Get(os.ReadFile(config))(t))
		need.Equal(t, now != text, c.afterwards, c.args, now)
	}
	// A key that is apart from the ledger does not come along by itself.
	s.env = append(s.env, "INDOUBT_DIGEST_KEY_FILE=/run/digest.key")
	r := s.do("mcp", "install", "claude", "--yes")
	need.That(t, r.Exit == 0 && strings.Contains(r.Out, "INDOUBT_DIGEST_KEY_FILE=/run/digest.key"), "exit %d\n%s%s", r.Exit, r.Out, r.Err)
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
