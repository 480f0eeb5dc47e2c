// Package clients knows the configuration files of MCP clients: where they are, which
// servers they name, and how an entry is put behind `indoubt mcp` and back. It edits the
// text in place, so that comments, order and unknown fields stay as they are.
//
// It imports ledger/redact, and knows no ledger.
package clients

import (
	"cmp"
	"path/filepath"
	"runtime"
)

// Names are the clients that Places knows.
var Names = []string{"claude", "cursor", "code"}

// System says where a person's files are.
type System struct {
	OS     string // as runtime.GOOS, which it is when empty
	Home   string
	Config string // XDG_CONFIG_HOME; below Home when empty
	Dir    string // the project: the current directory
}

// Places are the configuration files that a client reads: the project's first, then the
// person's. ok is false for a client that is not known.
func (s System) Places(client string) (paths []string, ok bool) {
	in := filepath.Join
	switch client {
	case "claude": // Claude Code's project and own file, and Claude Desktop's
		return []string{in(s.Dir, ".mcp.json"), in(s.Home, ".claude.json"), s.of("Claude", "claude_desktop_config.json")}, true
	case "cursor":
		return []string{in(s.Dir, ".cursor", "mcp.json"), in(s.Home, ".cursor", "mcp.json")}, true
	case "code":
		return []string{in(s.Dir, ".vscode", "mcp.json"), s.of("Code", "User", "mcp.json"), s.of("Code - Insiders", "User", "mcp.json")}, true
	}
	return nil, false
}

// of is a file of an application's own folder.
func (s System) of(parts ...string) string {
	folder, system := s.Config, cmp.Or(s.OS, runtime.GOOS)
	switch {
	case system == "darwin":
		folder = filepath.Join(s.Home, "Library", "Application Support")
	case folder == "":
		folder = filepath.Join(s.Home, ".config")
	}
	return filepath.Join(append([]string{folder}, parts...)...)
}
