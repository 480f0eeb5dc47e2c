package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Config is the text of a configuration file, with the servers that it names.
type Config struct {
	Text    []byte
	Servers []*Server
}

// Server is one entry.
type Server struct {
	Name string
	ID   string // the JSON Pointer of the entry

	text    []byte // of the file
	from    int    // where its offsets begin
	members map[string]*hujson.ObjectMember
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Parse reads a configuration file: JSON, or JSON with comments and trailing commas.
func Parse(text []byte) (*Config, error) {
	from := 0
	if bytes.HasPrefix(text, byteOrderMark) {
		from = len(byteOrderMark)
	}
	root, err := hujson.Parse(append(slices.Clone(text[from:]), '\n')) // a comment may end the file
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	c := &Config{Text: text}
	found := false
	for _, at := range []string{"/mcpServers", "/servers", "/mcp/servers"} {
		ok, err := c.add(&root, from, at)
		if err != nil {
			return nil, err
		}
		found = found || ok
	}
	// Claude Code keeps the servers of a person's projects in one file.
	if projects := root.Find("/projects"); projects != nil {
		if o, ok := projects.Value.(*hujson.Object); ok {
			for i := range o.Members {
				project := word(&o.Members[i].Name)
				ok, err := c.add(&root, from, "/projects/"+pointer(project)+"/mcpServers")
				if err != nil {
					return nil, err
				}
				found = found || ok
			}
		}
	}
	if !found {
		return nil, errors.New("it names no MCP servers: there is no mcpServers and no servers in it")
	}
	return c, nil
}

// add takes the servers below a pointer in.
func (c *Config) add(root *hujson.Value, from int, at string) (found bool, err error) {
	if name := twice(root, at); name != "" {
		return false, fmt.Errorf("it has %q twice, and clients read one of them", name)
	}
	v := root.Find(at)
	if v == nil {
		return false, nil
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return false, nil
	}
	seen := map[string]bool{}
	for i := range o.Members {
		m := &o.Members[i]
		name := word(&m.Name)
		if seen[name] {
			return false, fmt.Errorf("%s names %q twice", at, name)
		}
		seen[name] = true
		server := &Server{Name: name, ID: at + "/" + pointer(name), text: c.Text, from: from, members: map[string]*hujson.ObjectMember{}}
		entry, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			continue
		}
		for j := range entry.Members {
			field := word(&entry.Members[j].Name)
			if server.members[field] != nil {
				return false, fmt.Errorf("%s has %q twice", server.ID, field)
			}
			server.members[field] = &entry.Members[j]
		}
		c.Servers = append(c.Servers, server)
	}
	return true, nil
}

// twice is the first name on the way to a pointer that its object has twice.
func twice(v *hujson.Value, at string) string {
	for _, step := range strings.Split(at, "/")[1:] {
		o, ok := v.Value.(*hujson.Object)
		v = nil
		for i := 0; ok && i < len(o.Members); i++ {
			switch name := word(&o.Members[i].Name); {
			case pointer(name) != step:
			case v != nil:
				return name
			default:
				v = &o.Members[i].Value
			}
		}
		if v == nil {
			return ""
		}
	}
	return ""
}

// pointer escapes a name for a JSON Pointer (RFC 6901).
func pointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// word is the text of a string, "" for everything else.
func word(v *hujson.Value) string {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return ""
	}
	return l.String()
}

func (s *Server) word(field string) string {
	if m := s.members[field]; m != nil {
		return word(&m.Value)
	}
	return ""
}

// args are the words of the entry's args; ok is false where one is no text.
func (s *Server) args() (words []string, ok bool) {
	m := s.members["args"]
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

func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string always encodes
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func allQuoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quoted(w)
	}
	return strings.Join(out, ", ")
}
