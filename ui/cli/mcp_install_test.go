//go:build unix

package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// A client's configuration is shown, changed when that is asked for, and put back.
func TestE2E_InstallAsksAndPutsBack(t *testing.T) {
	s := newMCPSite(t, anyPolicy)
	logins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer logins.Close()
	config := filepath.Join(s.dir, ".mcp.json")
	text := fmt.Sprintf("{\n  \"mcpServers\": {\n    \"notes\": {\"command\": \"cat\", \"args\": []},\n    \"crm\": {\"url\": %q}\n  }\n}\n", logins.URL)
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
		{"mcp install claude", 5, "notes starts behind indoubt, its calls are mcp.notes.*", false},
		{"--read-only mcp install claude --yes", 5, "--read-only", false},
		{"mcp install claude --dry-run", 0, "notes starts behind indoubt", false},
		{"mcp install claude --yes", 0, "crm stays as it is: the client logs in", true},
		{"mcp install claude --yes --json", 0, `"effect":"noop"`, true},
		{"mcp uninstall claude", 5, "notes starts as it did before", true},
		{"mcp uninstall claude --yes --json", 0, `"effect":"updated"`, false},
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
