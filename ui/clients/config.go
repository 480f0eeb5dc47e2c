package clients

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

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
