package clients

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/record/mcpproxy/identity"
	"indoubt/ledger/redact"
)

// Entry is a server of a configuration file, as it is started or reached, with the name in
// kinds and the scope that Install gives it.
type Entry struct {
	Name          string
	Server, Scope string
	Command       []string
	Dir           string
	Env           []string // NAME=value, beside this process's own
	URL           string
	Headers       map[string]string
	Err           error // why it cannot be used
}

// Entries are the servers that a file itself names, and not those of a person's projects in
// it. An entry behind indoubt is the one that it was before. known is as in Wrapping.
func (s System) Entries(path string, known func(string) string, env func(string) string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := s.Parse(path, text)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, server := range c.Servers {
		if !strings.HasPrefix(server.ID, "/projects/") && !server.isTrue("disabled") {
			out = append(out, server.entryFor(Wrapping{Known: known}, env))
		}
	}
	return out, nil
}

func (s *Server) isTrue(field string) bool {
	m := s.members[field]
	return m != nil && strings.TrimSpace(s.of(&m.Value)) == "true"
}

var errForm = errors.New("its fields are of a form that is not known")

func (s *Server) entryFor(w Wrapping, env func(string) string) (e Entry) {
	e = Entry{Name: s.Name, Dir: s.Dir, Headers: map[string]string{}}
	fill := func(text string) string { return s.filled(text, env, &e.Err) }
	behind, wrapped, err := s.Behind()
	words, plain := s.args()
	variables, clean := s.pairs("env")
	headers, fine := s.pairs("headers")
	command, url := s.word("command"), s.word("url")
	if wrapped {
		command, words, url = behind.command, behind.tail, behind.url
	}
	switch {
	case err != nil:
		e.Err = err
	case command+url == "":
		e.Err = errNoWay
	case !plain || !clean || !fine || command != "" && url != "":
		e.Err = errForm
	case url != "" && !wrapped && slices.Contains([]string{"sse", "ws"}, s.word("type")):
		e.Err = fmt.Errorf("its transport is %s, and indoubt speaks streamable HTTP", s.word("type"))
	}
	if e.Err != nil {
		return e
	}
	for _, v := range variables {
		value := fill(v[1])
		if name := behind.headers[v[0]]; name != "" {
			e.Headers[name] = value
		} else {
			e.Env = append(e.Env, v[0]+"="+value)
		}
	}
	for _, h := range headers {
		e.Headers[h[0]] = fill(h[1])
	}
	var names Wrapped
	if e.URL = fill(url); url != "" {
		names = s.names(w, behind, []string{url}, identity.URLScope(url))
	} else {
		words = append([]string{command}, words...)
		names = s.names(w, behind, append([]string{identity.Program(words, s.Dir)}, words...), identity.CommandScope(redact.Argv(words, redact.Marked), s.Dir))
		for _, word := range words {
			e.Command = append(e.Command, fill(word))
		}
	}
	e.Server, e.Scope = names.Server, names.Scope
	return e
}

// pairs are the texts of a member that is an object of texts.
func (s *Server) pairs(field string) (out [][2]string, ok bool) {
	m := s.members[field]
	if m == nil {
		return nil, true
	}
	o, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		return nil, false
	}
	for i := range o.Members {
		l, text := o.Members[i].Value.Value.(hujson.Literal)
		if !text || l.Kind() != '"' {
			return nil, false
		}
		out = append(out, [2]string{word(&o.Members[i].Name), l.String()})
	}
	return out, true
}

// A variable as clients write it: ${NAME}, ${NAME:-usual}, ${env:NAME}.
var variable = lazyregexp.New(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}|\$\{[^}]*\}`)

// filled has the values of variables in their place. What only the client itself knows
// (an input that it asks for) is an error.
func (s *Server) filled(text string, env func(string) string, bad *error) string {
	return variable.ReplaceAllStringFunc(text, func(reference string) string {
		m := variable.FindStringSubmatch(reference)
		switch {
		case reference == "${workspaceFolder}":
			return s.Dir
		case m[1] == "":
			*bad = fmt.Errorf("its client alone knows what %s stands for", reference)
			return ""
		}
		value := cmp.Or(env(m[1]), strings.TrimPrefix(m[2], ":-"))
		if value == "" && m[2] == "" {
			*bad = fmt.Errorf("%s is not set in the environment", m[1])
		}
		return value
	})
}
