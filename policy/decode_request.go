package policy

import (
	"fmt"
	"net/textproto"
	"regexp"
	"strings"
)

// transport is how a request travels: one of its fields is set.
type transport struct {
	http     *httpRule
	command  *commandRule
	mcp      *mcpRule
	sql      *sqlRule
	recorded bool     // the command line that was recorded
	pipeline bool     // not sent from here
	secrets  []string // written out in the policy
	guarded  *Kind    // of a read: the kind whose write it must not be
}

type httpRule struct {
	method  string
	base    *template // of the downstream; nil when path is a whole address
	path    *template
	query   *value
	json    *value
	form    *value
	headers []pair // the downstream's first
	// redirects are those of the downstream.
	redirects []string
}

type commandRule struct {
	argv  []argument
	dir   string
	env   []pair
	stdin *value
}

// argument is one element of argv. dash allows a rendered value to begin with
// `-`, which a command would take for an option (I11).
type argument struct {
	value *template
	dash  bool
}

func (d *decoder) transportFields(t *transport, k *Kind, read bool) []field {
	return []field{
		{"http", func(n *node, path string) { t.http = d.http(k, n, path) }},
		{"command", func(n *node, path string) {
			if n.kind == scalarNode && n.text == "recorded" {
				t.recorded = true
				return
			}
			t.command = d.command(n, path)
		}},
		{"mcp", func(n *node, path string) { t.mcp = d.mcpCall(n, path, read) }},
		{"sql", func(n *node, path string) { t.sql = d.statement(n, path) }},
	}
}

var readMethods = []string{"get", "post"}
var sendMethods = []string{"post", "put", "patch", "delete", "get"}

func (d *decoder) http(k *Kind, n *node, path string) *httpRule {
	h := &httpRule{}
	method := func(name string) field {
		return field{name, func(n *node, path string) {
			if h.method != "" {
				d.fail(n.at, path, fmt.Sprintf("a request has one method; `%s` is said already", strings.ToLower(h.method)), "")
				return
			}
			h.method = strings.ToUpper(name)
			h.path = d.address(n, path)
		}}
	}
	var known []field
	for _, m := range sendMethods {
		known = append(known, method(m))
	}
	known = append(known,
		field{"query", func(n *node, path string) { h.query = d.value(n, path, scopeRequest) }},
		field{"json", func(n *node, path string) { h.json = d.value(n, path, scopeRequest) }},
		field{"form", func(n *node, path string) { h.form = d.value(n, path, scopeRequest) }},
		field{"headers", func(n *node, path string) { h.headers = d.headers(n, path) }},
	)
	d.fields(n, path, known)
	if h.method == "" {
		if n.kind == mappingNode {
			d.fail(n.at, path, "says no method and path", "for example get: /v1/charges")
		}
		return nil
	}
	if h.json != nil && h.form != nil {
		d.fail(n.at, path, "`json` and `form` exclude each other", "leave out one of the two")
	}
	if h.method == "GET" && (h.json != nil || h.form != nil) {
		d.fail(n.at, path, "a get has no body", "use `query`")
	}
	return h
}

// address reads a path below the downstream's base, or a whole address.
func (d *decoder) address(n *node, path string) *template {
	t := d.template(n, path, scopeRequest)
	if t == nil {
		return nil
	}
	first := t.parts[0]
	switch {
	case first.expr == nil && strings.HasPrefix(first.literal, "/") && !strings.HasPrefix(first.literal, "//"):
	case first.expr == nil && originWritten(first.literal):
	case first.expr != nil && t.single() == nil && first.expr.secret() && len(first.expr.names) == 1:
		// ${env.BASE}/path: the host comes from the environment, not from data.
	default:
		d.fail(n.at, path, "must begin with / or with https://host/ written out", "only the part after the host may be computed")
		return nil
	}
	if strings.ContainsAny(strings.ReplaceAll(first.literal, "$${", ""), " \t\r\n") {
		d.fail(n.at, path, "an address has no spaces", "write %20")
	}
	return t
}

// base reads a downstream's address; it may come from the environment.
func (d *decoder) base(ds *Downstream, n *node, path string) {
	t := d.template(n, path, scopeRequest)
	if t == nil {
		return
	}
	for _, e := range t.expressions() {
		if !e.secret() || len(e.names) != 1 {
			d.fail(n.at, path, "only ${env.NAME} may stand in a base", "")
			return
		}
	}
	if first := t.parts[0]; first.expr == nil && !originWritten(strings.TrimSuffix(first.literal, "/")+"/") {
		d.fail(n.at, path, fmt.Sprintf("%q is no address", n.text), "for example https://api.example.com")
		return
	}
	if strings.ContainsAny(n.text, "?#") {
		d.fail(n.at, path, "a base has no query", "")
		return
	}
	ds.Base, ds.base = n.text, t
	d.is(ds, n, path, "http")
}

// hostName is a host, with a port where it is not the scheme's own. No part of it
// is left open: the headers go there, and the secrets in them.
var hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?$`)

// redirects reads the hosts that a downstream's reads may be redirected to.
func (d *decoder) redirects(ds *Downstream, n *node, path string) {
	d.strings(n, path, &ds.Redirects)
	for _, host := range ds.Redirects {
		if !hostName.MatchString(host) {
			d.fail(n.at, path, fmt.Sprintf("%q is no host", host), "write each host out: redirects: [files.example.com, eu.example.com:8443]")
		}
	}
}

func (d *decoder) headers(n *node, path string) []pair {
	out := d.pairs(n, path, scopeRequest)
	for i, h := range out {
		if !headerName.MatchString(h.name) {
			d.fail(n.at, join(path, h.name), fmt.Sprintf("%q is no header name", h.name), "")
		}
		out[i].name = textproto.CanonicalMIMEHeaderKey(h.name)
		switch out[i].name {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection":
			d.fail(n.at, join(path, h.name), "this header is written by the sender itself", "leave it out")
		}
	}
	return out
}

func (d *decoder) command(n *node, path string) *commandRule {
	c := &commandRule{}
	switch n.kind {
	case sequenceNode:
		d.argv(c, n, path)
	case mappingNode:
		d.fields(n, path, []field{
			{"argv", func(n *node, path string) { d.argv(c, n, path) }},
			{"dir", func(n *node, path string) {
				if text, ok := d.scalar(n, path); ok {
					c.dir = text
				}
			}},
			{"env", func(n *node, path string) {
				c.env = d.pairs(n, path, scopeRequest)
				d.variableNames(c.env, n, path)
			}},
			{"stdin", func(n *node, path string) { c.stdin = d.value(n, path, scopeRequest) }},
		})
		if len(c.argv) == 0 && len(d.problems) == 0 {
			d.fail(n.at, path, "says no command", "argv: [tool, find, \"${token}\"]")
		}
	default:
		d.fail(n.at, path, fmt.Sprintf("must be a list of arguments, but is %s", n.what()),
			"there is no shell: write [tool, find, \"${token}\"]")
		return nil
	}
	return c
}

func (d *decoder) argv(c *commandRule, n *node, path string) {
	if n.kind != sequenceNode || len(n.items) == 0 {
		d.fail(n.at, path, "must be a list of arguments", "there is no shell: write [tool, find, \"${token}\"]")
		return
	}
	for i, item := range n.items {
		at := index(path, i)
		a := argument{}
		if item.kind == mappingNode {
			d.fields(item, at, []field{
				{"value", func(n *node, path string) { a.value = d.template(n, path, scopeRequest) }},
				{"dash", func(n *node, path string) { d.boolean(n, path, &a.dash) }},
			})
		} else {
			a.value = d.template(item, at, scopeRequest)
		}
		if a.value == nil {
			continue
		}
		if i == 0 && len(a.value.expressions()) > 0 {
			d.fail(item.at, at, "the command itself cannot be computed", "write its name or path")
		}
		if i == 0 && a.value.text == "" {
			d.fail(item.at, at, "the command is empty", "")
		}
		c.argv = append(c.argv, a)
	}
}

func (d *decoder) oneTransport(n *node, path string, t *transport) bool {
	count := 0
	for _, set := range []bool{t.http != nil, t.command != nil, t.mcp != nil, t.sql != nil, t.recorded, t.pipeline} {
		if set {
			count++
		}
	}
	if count == 1 {
		return true
	}
	message := "says nothing to ask with"
	if count > 1 {
		message = "`http`, `command`, `mcp` and `sql` exclude each other"
	}
	d.fail(n.at, path, message, "http: { get: … }, command: [ … ], mcp: { tool: … } or sql: { query: … }")
	return false
}

func (d *decoder) send(k *Kind, n *node, path string) {
	s := &Send{Line: n.at.line}
	k.Send = s
	if n.kind == scalarNode {
		word := ""
		d.choice(n, path, &word, "pipeline")
		s.transport.pipeline = true
		return
	}
	rule := func(out **expression) func(n *node, path string) {
		return func(n *node, path string) { *out = d.expression(n, path, scopeAnswer, wantBool) }
	}
	known := append(d.transportFields(&s.transport, k, false),
		field{"committed", rule(&k.committed)}, field{"refused", rule(&k.refused)}, field{"already", rule(&k.already)},
		field{"receipt", func(n *node, path string) { k.receipt = d.expression(n, path, scopeAnswer, wantAny) }},
	)
	before := len(d.problems)
	d.fields(n, path, known)
	if len(d.problems) > before || n.kind != mappingNode {
		return
	}
	t := &s.transport
	if t.http == nil && t.command == nil && t.mcp == nil && t.sql == nil && !t.recorded {
		t.pipeline = true // only rules for the answer: the pipeline sends
		return
	}
	d.oneTransport(n, path, t)
}
