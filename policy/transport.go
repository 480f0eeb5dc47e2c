package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
)

// defaultMaxBody bounds an answer where the policy does not.
const defaultMaxBody = 4 << 20

// digestPrefix marks a digest that stands for a redacted value in what is
// recorded. Nothing may be sent or searched with it.
const digestPrefix = "redacted:"

// way is one of the four ways in which a request travels.
type way interface {
	questions() []*template      // of what is asked
	besides() []pair             // beside it: headers
	render(r *rendering) Request // errors are kept in r
}

// transport is how a request travels: one of its fields is set.
type transport struct {
	http     *httpRule
	command  *commandRule
	mcp      *mcpRule
	sql      *sqlRule
	again    *againRule // the HTTP request that was recorded
	recorded bool       // the command line that was recorded
	pipeline bool       // not sent from here
	secrets  []string   // written out in the policy
	guarded  *Kind      // of a read: the kind whose write it must not be
}

// way is the way that is set; nil for none, and for what was recorded.
func (t *transport) way() (w way, via string) {
	switch {
	case t.http != nil:
		return t.http, "http"
	case t.command != nil:
		return t.command, "command"
	case t.mcp != nil:
		return t.mcp, "mcp"
	case t.sql != nil && t.sql.query != nil:
		return t.sql, "sql"
	case t.again != nil:
		return t.again, "http"
	case t.recorded:
		return nil, "command"
	}
	return nil, "pipeline"
}

// questions are the templates of what is asked, without the headers beside it.
func (t *transport) questions() []*template {
	if w, _ := t.way(); w != nil {
		return w.questions()
	}
	return nil
}

func (t *transport) templates() []*template {
	out := t.questions()
	if w, _ := t.way(); w != nil {
		for _, p := range w.besides() {
			out = append(out, p.value)
		}
	}
	return out
}

// request renders twice: as it is, and as it is shown. The header keyHeader, if it
// is not "", carries the operation's key.
func (t *transport) request(vars *variables, keyHeader string, cursor any) (Request, error) {
	vars.cursor = cursor
	w, _ := t.way()
	if w == nil {
		return Request{}, fmt.Errorf("the policy names no way to ask")
	}
	rendered := func(show bool) (Request, error) {
		r := &rendering{ctx: context.Background(), vars: vars, keyHeader: keyHeader, show: show}
		return w.render(r), r.err
	}
	out, err := rendered(false)
	if err == nil && t.guarded != nil {
		err = t.guarded.guard(vars, out)
	}
	if err != nil {
		return Request{}, err
	}
	shown, err := rendered(true)
	if err != nil {
		return Request{}, err
	}
	if out.Digest, err = shown.digest(t.secrets); err != nil {
		return Request{}, err
	}
	out.Secrets = append(vars.secrets.values, t.secrets...)
	o := vars.rec.Operation
	out.Shown = hide(shown.message().text(), t.secrets, o.Token, o.Key)
	return out, nil
}

func (d *decoder) transportFields(t *transport, read bool) []field {
	return []field{
		{"http", func(n *node) {
			if !read && n.kind == scalarNode && n.text == "recorded" {
				t.again = &againRule{at: n.place}
				return
			}
			t.http = d.http(n)
		}},
		{"command", func(n *node) {
			if t.recorded = n.kind == scalarNode && n.text == "recorded"; !t.recorded {
				t.command = d.command(n)
			}
		}},
		{"mcp", func(n *node) { t.mcp = d.mcpCall(n, read) }},
		{"sql", func(n *node) { t.sql = d.statement(n) }},
	}
}

func (d *decoder) oneTransport(n *node, t *transport) bool {
	said := 0
	for _, set := range []bool{t.http != nil, t.command != nil, t.mcp != nil, t.sql != nil, t.again != nil, t.recorded, t.pipeline} {
		if set {
			said++
		}
	}
	if said == 1 {
		return true
	}
	message := "says nothing to ask with"
	if said > 1 {
		message = "`http`, `command`, `mcp` and `sql` exclude each other"
	}
	d.fail(n.place, message, "http: { get: … }, command: [ … ], mcp: { tool: … } or sql: { query: … }")
	return false
}

func (d *decoder) send(k *Kind, n *node) *Send {
	s := &Send{}
	t := &s.transport
	if n.kind == scalarNode {
		word := ""
		d.choice(&word, "pipeline")(n)
		t.pipeline = true
		return s
	}
	fine := d.fields(n, append(d.transportFields(t, false),
		field{"committed", d.rule(&k.committed, scopeAnswer, wantBool)},
		field{"refused", d.rule(&k.refused, scopeAnswer, wantBool)},
		field{"already", d.rule(&k.already, scopeAnswer, wantBool)},
		field{"receipt", d.rule(&k.receipt, scopeAnswer, wantAny)},
	)...)
	if fine {
		// Only rules for the answer: the pipeline sends.
		t.pipeline = t.http == nil && t.command == nil && t.mcp == nil && t.sql == nil && t.again == nil && !t.recorded
		d.oneTransport(n, t)
	}
	return s
}

// Send is how an operation is sent again.
type Send struct {
	transport transport
	kind      *Kind
}

// Via is who sends: http, command, mcp, sql or pipeline. A nil Send is the pipeline's.
func (s *Send) Via() string {
	if s == nil {
		return "pipeline"
	}
	_, via := s.transport.way()
	return via
}

// Request renders what a send would transmit, with the operation's own key and
// token (I4). Errors: *MissingSecretError, and sentences for people, e.g. when
// parts of the input are not kept or a value would lead elsewhere.
func (s *Send) Request(rec ledger.Record) (Request, error) {
	o := rec.Operation
	switch {
	case s.Via() == "pipeline":
		return Request{}, fmt.Errorf("its pipeline sends it, not indoubt")
	case s.transport.recorded:
		return recorded(o)
	case o.Redacted:
		return Request{}, fmt.Errorf("parts of its input are not kept, so it cannot be sent from here")
	}
	keyHeader := s.kind.KeyHeader
	if keyHeader != "" && o.Key == "" {
		return Request{}, fmt.Errorf("it has no idempotency key to send")
	}
	vars := s.kind.variables(rec)
	vars.sending = true
	if again := s.again(o); again != nil {
		return again.request(vars, keyHeader, nil)
	}
	input, err := s.kind.seen(o)
	if err != nil {
		return Request{}, err
	}
	if vars.input, err = s.kind.Token.insert(input, o.Token); err != nil {
		return Request{}, err
	}
	return s.transport.request(vars, keyHeader, nil)
}

// Carries reports whether a rendered request holds the operation's key and its
// token, as the other side reads it: the only ground for saying that they were
// sent. What a command merely finds in its environment or on its standard input
// because every command does may never leave it.
func (s *Send) Carries(o ledger.Operation, req Request) (key, token bool) {
	texts := req.message().leaving(&s.transport)
	key = s.carriesKey(o) && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, o.Key) })
	return key, slices.ContainsFunc(texts, func(t string) bool { return ledger.HasWord(t, o.Token) })
}

// carriesKey reports whether what would be sent repeats the operation's key, so
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
	case (t.http != nil || t.again != nil) && s.kind.KeyHeader != "":
		return true
	case s.again(o) != nil:
		return o.Request != nil && keyOf(o.Request) == o.Key
	case t.recorded:
		return o.Command != nil && slices.ContainsFunc(o.Command.Argv, func(a string) bool { return strings.Contains(a, "{{key}}") })
	case t.command != nil && t.command.stdin == nil:
		return true // it is told, on its standard input
	}
	return slices.ContainsFunc(t.templates(), func(t *template) bool { return t.uses("key") })
}
