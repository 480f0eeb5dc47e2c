package policy

import (
	"slices"
	"strings"

	"indoubt/ledger"
)

// Carries tells whether a rendered request holds the operation's key and its
// token: the only honest ground for saying that they were sent. What a recorded
// command merely finds in its environment was not.
func (s *Send) Carries(o ledger.Operation, req Request) (key, token bool) {
	return s.carriesKey(o) && holds(req, o.Key, s.transport.recorded), holds(req, o.Token, s.transport.recorded)
}

// carriesKey tells whether what would be sent repeats the operation's key, so
// that the other side can know it again. A key is the caller's text and may be
// short, so it is not searched for but must have its place.
func (s *Send) carriesKey(o ledger.Operation) bool {
	if o.Key == "" {
		return false
	}
	if s.Via() == "pipeline" {
		return true // it brings its own
	}
	t := &s.transport
	switch {
	case t.http != nil && s.keyHeader != "":
		return true
	case t.recorded:
		return o.Command != nil && slices.ContainsFunc(o.Command.Argv, func(a string) bool { return strings.Contains(a, "{{key}}") })
	case t.command != nil && t.command.stdin == nil:
		return true // it is told, on its standard input
	}
	return slices.ContainsFunc(t.templates(), func(t *template) bool { return t.uses("key") })
}

// holds tells whether a text is in what is sent.
func holds(req Request, text string, argvOnly bool) bool {
	in := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, text) })
	}
	switch {
	case text == "":
		return false
	case req.HTTP != nil:
		for _, values := range req.HTTP.Header {
			if in(values...) {
				return true
			}
		}
		return in(req.HTTP.URL, string(req.HTTP.Body))
	case req.Command != nil:
		return in(req.Command.Argv...) || !argvOnly && (in(req.Command.Env...) || in(string(req.Command.Stdin)))
	case req.MCP != nil:
		return in(string(req.MCP.Arguments))
	case req.SQL != nil:
		for _, arg := range req.SQL.Args {
			if s, ok := arg.(string); ok && in(s) {
				return true
			}
		}
		return in(req.SQL.Query)
	}
	return false
}
