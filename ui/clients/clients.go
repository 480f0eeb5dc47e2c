// Package clients knows the configuration files of MCP clients: where they are, which
// servers they name, and how an entry is put behind `indoubt mcp` and back. It edits the
// text in place, so that comments, order and unknown fields stay as they are.
//
// It imports ledger/redact, and knows no ledger.
package clients

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
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

// Config is a configuration file, with the servers that it names.
type Config struct {
	Servers []*Server

	mark []byte // the byte order mark that the file begins with, if it has one
	root hujson.Value
}

// Server is one entry.
type Server struct {
	Name  string
	entry *hujson.Object
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Parse reads a configuration file: JSON, or JSON with comments and trailing commas.
func Parse(text []byte) (*Config, error) {
	plain := bytes.TrimPrefix(text, byteOrderMark)
	root, err := hujson.Parse(append(slices.Clone(plain), '\n')) // a comment may end the file
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if name := twice(root); name != "" {
		return nil, fmt.Errorf("it has %q twice in one object, and clients read one of them", name)
	}
	c := &Config{mark: text[:len(text)-len(plain)], root: root}
	lists := []*hujson.Value{root.Find("/mcpServers"), root.Find("/servers"), root.Find("/mcp/servers")}
	// Claude Code keeps the servers of a person's projects in one file.
	if projects := object(root.Find("/projects")); projects != nil {
		for i := range projects.Members {
			lists = append(lists, projects.Members[i].Value.Find("/mcpServers"))
		}
	}
	found := false
	for _, list := range lists {
		if o := object(list); o != nil {
			found = true
			c.add(o)
		}
	}
	if !found {
		return nil, errors.New("it names no MCP servers: there is no mcpServers and no servers in it")
	}
	return c, nil
}

func (c *Config) add(list *hujson.Object) {
	for i := range list.Members {
		if entry := object(&list.Members[i].Value); entry != nil {
			c.Servers = append(c.Servers, &Server{word(&list.Members[i].Name), entry})
		}
	}
}

// text is the file with its changes. All else is byte for byte as it was.
func (c *Config) text() []byte {
	return slices.Concat(c.mark, bytes.TrimSuffix(c.root.Pack(), []byte("\n")))
}

// twice is a name that an object has twice, or "".
func twice(root hujson.Value) string {
	for v := range root.All() {
		seen := map[string]bool{}
		if o := object(v); o != nil {
			for i := range o.Members {
				name := word(&o.Members[i].Name)
				if seen[name] {
					return name
				}
				seen[name] = true
			}
		}
	}
	return ""
}

// object is a value as an object, nil where it is none.
func object(v *hujson.Value) *hujson.Object {
	if v == nil {
		return nil
	}
	o, _ := v.Value.(*hujson.Object)
	return o
}

// word is the text of a string, "" for everything else.
func word(v *hujson.Value) string {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return ""
	}
	return l.String()
}

// at is where a field of the entry stands, -1 where it has none.
func (s *Server) at(field string) int {
	return slices.IndexFunc(s.entry.Members, func(m hujson.ObjectMember) bool { return word(&m.Name) == field })
}

func (s *Server) member(field string) *hujson.ObjectMember {
	if i := s.at(field); i >= 0 {
		return &s.entry.Members[i]
	}
	return nil
}

func (s *Server) word(field string) string {
	if m := s.member(field); m != nil {
		return word(&m.Value)
	}
	return ""
}

// args are the words of the entry's args; ok is false where one is no text.
func (s *Server) args() (words []string, ok bool) {
	m := s.member("args")
	if m == nil {
		return nil, true
	}
	list, ok := m.Value.Value.(*hujson.Array)
	if !ok {
		return nil, false
	}
	for i := range list.Elements {
		l, ok := list.Elements[i].Value.(hujson.Literal)
		if !ok || l.Kind() != '"' {
			return nil, false
		}
		words = append(words, l.String())
	}
	return words, true
}
