package policy

import (
	"fmt"
	"regexp"
)

// mcpServer is how an MCP server is reached: by a command or by a URL.
type mcpServer struct {
	command []*template
	dir     string
	env     []pair
	url     *template
	headers []pair
}

// mcpRule is a call of one tool. server is resolved once all fields are read.
type mcpRule struct {
	at        position
	name      string // of the downstream; "": the kind's own
	tool      string
	arguments *value // nil: none for a read, the operation's input for a send
	vouched   bool
	server    *Downstream
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_./:@-]{1,128}$`)

// settled reads a template in which only secrets may be computed: what it makes
// is shared by all operations.
func (d *decoder) settled(n *node, path string) *template {
	t := d.template(n, path, scopeRequest)
	for _, e := range t.expressions() {
		if !e.secret() || len(e.names) != 1 {
			d.fail(n.at, path, "only ${env.NAME} and ${file(\"…\")} may stand here", "it is the same for every operation")
			return nil
		}
	}
	return t
}

func (d *decoder) settledPairs(n *node, path string) []pair {
	out := d.pairs(n, path, scopeRequest)
	for _, p := range out {
		for _, e := range p.value.expressions() {
			if !e.secret() || len(e.names) != 1 {
				d.fail(p.value.at, join(path, p.name), "only ${env.NAME} and ${file(\"…\")} may stand here", "it is the same for every operation")
			}
		}
	}
	return out
}

// mcpServer reads `mcp:` of a downstream.
func (d *decoder) mcpServer(ds *Downstream, n *node, path string) {
	s := &mcpServer{}
	d.fields(n, path, []field{
		{"command", func(n *node, path string) { s.command = d.serverCommand(n, path) }},
		{"dir", func(n *node, path string) { s.dir, _ = d.scalar(n, path) }},
		{"env", func(n *node, path string) {
			s.env = d.settledPairs(n, path)
			d.variableNames(s.env, n, path)
		}},
		{"url", func(n *node, path string) { s.url = d.serverAddress(n, path) }},
		{"headers", func(n *node, path string) { s.headers = d.headers(n, path) }},
	})
	if n.kind != mappingNode {
		return
	}
	switch {
	case s.command != nil && s.url != nil:
		d.fail(n.at, path, "`command` and `url` exclude each other", "leave out one of the two")
	case s.command == nil && s.url == nil && len(d.problems) == 0:
		d.fail(n.at, path, "says neither `command` nor `url`", "command: [npx, -y, some-server], or url: https://mcp.example.com/mcp")
	case s.url == nil && s.headers != nil:
		d.fail(n.at, path, "`headers` need a `url`", "a command gets its secrets by `env`")
	case s.command == nil && (s.env != nil || s.dir != ""):
		d.fail(n.at, path, "`env` and `dir` need a `command`", "")
	}
	ds.mcp = s
	d.is(ds, n, path, "mcp")
}

func (d *decoder) serverCommand(n *node, path string) (out []*template) {
	if n.kind != sequenceNode || len(n.items) == 0 {
		d.fail(n.at, path, "must be a list of arguments", "there is no shell: write [npx, -y, some-server]")
		return nil
	}
	for i, item := range n.items {
		at := index(path, i)
		t := d.settled(item, at)
		if t == nil {
			continue
		}
		if i == 0 && (t.text == "" || len(t.expressions()) > 0) {
			d.fail(item.at, at, "the command itself is written out", "write its name or path")
		}
		out = append(out, t)
	}
	return out
}

func (d *decoder) serverAddress(n *node, path string) *template {
	t := d.settled(n, path)
	if t == nil {
		return nil
	}
	if first := t.parts[0]; first.expr == nil && !originWritten(first.literal) && !originWritten(first.literal+"/") {
		d.fail(n.at, path, fmt.Sprintf("%q is no address", n.text), "for example https://mcp.example.com/mcp")
	}
	return t
}

// variableNames refuses names that no environment has.
func (d *decoder) variableNames(env []pair, n *node, path string) {
	for _, p := range env {
		if !envName.MatchString(p.name) {
			d.fail(n.at, join(path, p.name), fmt.Sprintf("%q is no name of a variable", p.name), "")
		}
	}
}

// is notes what a downstream is; it is one thing.
func (d *decoder) is(ds *Downstream, n *node, path, via string) {
	if ds.Via != "" && ds.Via != via {
		d.fail(n.at, path, fmt.Sprintf("a downstream is one thing, and this one is %s already", ds.Via), "make two of it")
		return
	}
	ds.Via = via
}

// mcpCall reads `mcp:` of a read or a send.
func (d *decoder) mcpCall(n *node, path string, read bool) *mcpRule {
	m := &mcpRule{at: n.at}
	known := []field{
		{"server", func(n *node, path string) { m.name, _ = d.scalar(n, path) }},
		{"tool", func(n *node, path string) {
			text, ok := d.scalar(n, path)
			if ok && !toolName.MatchString(text) {
				d.fail(n.at, path, fmt.Sprintf("%q is no name of a tool, and a tool cannot be computed", text), "for example search_nodes")
			}
			m.tool = text
		}},
		{"arguments", func(n *node, path string) {
			m.arguments = d.value(n, path, scopeRequest)
			if n.kind != mappingNode && (n.kind != scalarNode || m.arguments.text.single() == nil) {
				d.fail(n.at, path, "must be a mapping (name: value)", "arguments: { query: \"${token}\" }")
			}
		}},
	}
	if read {
		known = append(known, field{"read_only", func(n *node, path string) { d.boolean(n, path, &m.vouched) }})
	} else if t, problem := parseTemplate("${input}", scopeRequest); problem == nil {
		m.arguments = &value{text: t} // what is sent is what was asked for
	}
	before := len(d.problems)
	d.fields(n, path, known)
	if m.tool == "" && n.kind == mappingNode && len(d.problems) == before {
		d.fail(n.at, path, "says no tool", "mcp: { tool: search_nodes, arguments: { query: \"${token}\" } }")
	}
	return m
}

// downstreamFor finds the server or database that a request names, else the
// kind's own.
func (d *decoder) downstreamFor(k *Kind, name, field, via string, at position, path string) *Downstream {
	ds := k.Downstream
	if name != "" {
		ds = d.policy.downstreams[name]
	}
	switch {
	case ds == nil && name != "":
		d.fail(at, path, fmt.Sprintf("there is no downstream %q", name), didYouMean(name, sortedNames(d.policy.downstreams)))
	case ds == nil:
		d.fail(at, path, fmt.Sprintf("does not say which `%s`", field), fmt.Sprintf("say `%s:` here or `downstream:` in the kind", field))
	case ds.Via != via:
		d.fail(at, path, fmt.Sprintf("downstream %q is not reached over %s", ds.Name, via), fmt.Sprintf("say `%s:` in it", via))
	default:
		return ds
	}
	return nil
}
