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
	at      place
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

func (d *decoder) transportFields(t *transport, read bool) []field {
	return []field{
		{"http", func(n *node) { t.http = d.http(n) }},
		{"command", func(n *node) {
			if t.recorded = n.kind == scalarNode && n.text == "recorded"; !t.recorded {
				t.command = d.command(n)
			}
		}},
		{"mcp", func(n *node) { t.mcp = d.mcpCall(n, read) }},
		{"sql", func(n *node) { t.sql = d.statement(n) }},
	}
}

func (d *decoder) http(n *node) *httpRule {
	h := &httpRule{at: n.place}
	var known []field
	for _, method := range []string{"post", "put", "patch", "delete", "get"} {
		known = append(known, field{method, func(n *node) {
			if h.method != "" {
				d.fail(n.place, fmt.Sprintf("a request has one method; `%s` is said already", strings.ToLower(h.method)), "")
				return
			}
			h.method, h.path = strings.ToUpper(method), d.address(n)
		}})
	}
	d.fields(n, append(known,
		field{"query", d.data(&h.query)},
		field{"json", d.data(&h.json)},
		field{"form", d.data(&h.form)},
		field{"headers", func(n *node) { h.headers = d.headers(n) }},
	)...)
	if h.method == "" {
		if n.kind == mappingNode {
			d.fail(n.place, "says no method and path", "for example get: /v1/charges")
		}
		return nil
	}
	if h.json != nil && h.form != nil {
		d.fail(n.place, "`json` and `form` exclude each other", "leave out one of the two")
	}
	if h.method == "GET" && (h.json != nil || h.form != nil) {
		d.fail(n.place, "a get has no body", "use `query`")
	}
	return h
}

// address reads a path below the downstream's base, or a whole address.
func (d *decoder) address(n *node) *template {
	t := d.template(n, scopeRequest)
	if t == nil {
		return nil
	}
	first := t.parts[0]
	switch {
	case first.expr == nil && strings.HasPrefix(first.literal, "/") && !strings.HasPrefix(first.literal, "//"):
	case first.expr == nil && originWritten(first.literal):
	case first.expr != nil && t.single() == nil && first.expr.onlySecret():
		// ${env.BASE}/path: the host comes from the environment, not from data.
	default:
		d.fail(n.place, "must begin with / or with https://host/ written out", "only the part after the host may be computed")
		return nil
	}
	if strings.ContainsAny(strings.ReplaceAll(first.literal, "$${", ""), " \t\r\n") {
		d.fail(n.place, "an address has no spaces", "write %20")
	}
	return t
}

// base reads a downstream's address; it may come from the environment.
func (d *decoder) base(ds *Downstream, n *node) {
	t := d.template(n, scopeRequest)
	switch {
	case t == nil:
	case !t.settled():
		d.fail(n.place, "only ${env.NAME} may stand in a base", "")
	case t.parts[0].expr == nil && !originWritten(strings.TrimSuffix(t.parts[0].literal, "/")+"/"):
		d.fail(n.place, fmt.Sprintf("%q is no address", n.text), "for example https://api.example.com")
	case strings.ContainsAny(n.text, "?#"):
		d.fail(n.place, "a base has no query", "")
	default:
		ds.Base, ds.base = n.text, t
		d.is(ds, n, "http")
	}
}

// hostName is a host, with a port where it is not the scheme's own. No part of it
// is left open: the headers go there, and the secrets in them.
var hostName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?$`)

// redirects reads the hosts that a downstream's reads may be redirected to.
func (d *decoder) redirects(ds *Downstream, n *node) {
	d.strings(&ds.Redirects)(n)
	for _, host := range ds.Redirects {
		if !hostName.MatchString(host) {
			d.fail(n.place, fmt.Sprintf("%q is no host", host), "write each host out: redirects: [files.example.com, eu.example.com:8443]")
		}
	}
}

func (d *decoder) headers(n *node) []pair {
	out := d.pairs(n)
	for i, h := range out {
		if !headerName.MatchString(h.name) {
			d.fail(n.below(h.name), fmt.Sprintf("%q is no header name", h.name), "")
		}
		out[i].name = textproto.CanonicalMIMEHeaderKey(h.name)
		switch out[i].name {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection":
			d.fail(n.below(h.name), "this header is written by the sender itself", "leave it out")
		}
	}
	return out
}

const argvHint = "there is no shell: write [tool, find, \"${token}\"]"

func (d *decoder) command(n *node) *commandRule {
	c := &commandRule{}
	switch n.kind {
	case sequenceNode:
		c.argv = d.argv(n)
	case mappingNode:
		fine := d.fields(n,
			field{"argv", func(n *node) { c.argv = d.argv(n) }},
			field{"dir", d.text(&c.dir)},
			field{"env", func(n *node) { c.env = d.environment(n) }},
			field{"stdin", d.data(&c.stdin)},
		)
		if fine && len(c.argv) == 0 {
			d.fail(n.place, "says no command", "argv: [tool, find, \"${token}\"]")
		}
	default:
		d.must(n, sequenceNode, "a list of arguments", argvHint)
		return nil
	}
	return c
}

func (d *decoder) argv(n *node) (argv []argument) {
	if n.kind != sequenceNode || len(n.items) == 0 {
		d.fail(n.place, "must be a list of arguments", argvHint)
	}
	for i, item := range n.items {
		a := argument{}
		if item.kind == mappingNode {
			d.fields(item, field{"value", d.filled(&a.value, scopeRequest)}, field{"dash", d.boolean(&a.dash)})
		} else {
			a.value = d.template(item, scopeRequest)
		}
		if a.value == nil {
			continue
		}
		if i == 0 && len(a.value.expressions()) > 0 {
			d.fail(item.place, "the command itself cannot be computed", "write its name or path")
		}
		if i == 0 && a.value.text == "" {
			d.fail(item.place, "the command is empty", "")
		}
		argv = append(argv, a)
	}
	return argv
}

func (d *decoder) oneTransport(n *node, t *transport) bool {
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
		t.pipeline = t.http == nil && t.command == nil && t.mcp == nil && t.sql == nil && !t.recorded
		d.oneTransport(n, t)
	}
	return s
}
