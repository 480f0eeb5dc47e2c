package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"indoubt/policy/file"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

// mcpServer is how an MCP server is reached: by a command or by a URL.
type mcpServer struct {
	command []*expr.Template
	dir     string
	env     []pair
	url     *expr.Template
	headers []pair
}

// mcpRule is a call of one tool. server is resolved once all fields are read.
type mcpRule struct {
	at        file.Place
	name      string // of the downstream; "": the kind's own
	tool      string
	arguments *expr.Tree // nil: none
	vouched   bool
	server    *Downstream
}

var (
	envName  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	toolName = file.Short(`^[A-Za-z0-9_./:@-]+$`, 128)
)

const settledOnly, settledHint = "only ${env.NAME} and ${file(\"…\")} may stand here", "it is the same for every operation"

// settled reads a template in which only secrets may be computed: what it makes
// is shared by all operations.
func (d decoder) settled(n *file.Node) *expr.Template {
	t := d.Template(n, expr.ForRequest)
	if !t.Settled() {
		d.Fail(n.Place, settledOnly, settledHint)
		return nil
	}
	return t
}

// mcpServer reads `mcp:` of a downstream.
func (d decoder) mcpServer(ds *Downstream, n *file.Node) {
	s := &mcpServer{}
	fine := d.Fields(n, file.Table{
		"command": func(n *file.Node) { s.command = d.argv(n, d.settled) },
		"dir":     d.Text(&s.dir),
		"env": func(n *file.Node) {
			s.env = d.environment(n)
			for _, e := range n.Entries {
				if i := slices.IndexFunc(s.env, func(p pair) bool { return p.name == e.Name }); i >= 0 && !s.env[i].value.Settled() {
					d.Fail(e.Value.Place, settledOnly, settledHint)
				}
			}
		},
		"url":     func(n *file.Node) { s.url = d.serverAddress(n) },
		"headers": func(n *file.Node) { s.headers = d.headers(n) },
	})
	if n.Kind != file.Mapping {
		return
	}
	switch {
	case s.command != nil && s.url != nil:
		d.Fail(n.Place, "`command` and `url` exclude each other", "leave out one of the two")
	case s.command == nil && s.url == nil && fine:
		d.Fail(n.Place, "says neither `command` nor `url`", "command: [npx, -y, some-server], or url: https://mcp.example.com/mcp")
	case s.url == nil && s.headers != nil:
		d.Fail(n.Place, "`headers` need a `url`", "a command gets its secrets by `env`")
	case s.command == nil && (s.env != nil || s.dir != ""):
		d.Fail(n.Place, "`env` and `dir` need a `command`", "")
	}
	ds.mcp = s
	d.is(ds, n, "mcp")
}

func (d decoder) serverAddress(n *file.Node) *expr.Template {
	t := d.settled(n)
	if t == nil {
		return nil
	}
	if first, written := t.Beginning(); written && !originWritten(first) && !originWritten(first+"/") {
		d.Fail(n.Place, fmt.Sprintf("%q is not an address", n.Text), "for example https://mcp.example.com/mcp")
	}
	return t
}

func (d decoder) environment(n *file.Node) []pair {
	env := d.pairs(n)
	for _, p := range env {
		if !envName.MatchString(p.name) {
			d.Fail(n.Below(p.name), fmt.Sprintf("%q is not the name of a variable", p.name), "")
		}
	}
	return env
}

// is notes what a downstream is; it is one thing.
func (d decoder) is(ds *Downstream, n *file.Node, via string) {
	if ds.Via != "" && ds.Via != via {
		d.Fail(n.Place, fmt.Sprintf("a downstream is one thing, and this one is %s already", ds.Via), "make two of it")
		return
	}
	ds.Via = via
}

// mcpCall reads `mcp:` of a read.
func (d decoder) mcpCall(n *file.Node) *mcpRule {
	m := &mcpRule{at: n.Place}
	fine := d.Fields(n, file.Table{
		"server": d.Text(&m.name),
		"tool": file.Parsed(d.Decoder, &m.tool, func(text string) (string, error) {
			if !toolName(text) {
				return "", fmt.Errorf("%q is not the name of a tool: a tool cannot be computed", text)
			}
			return text, nil
		}, "for example search_nodes"),
		"arguments": func(n *file.Node) {
			m.arguments = d.Value(n)
			if n.Kind != file.Mapping && (n.Kind != file.Scalar || m.arguments.Text.Single() == nil) {
				d.Fail(n.Place, "must be a mapping (name: value)", "arguments: { query: \"${token}\" }")
			}
		},
	})
	if fine && m.tool == "" {
		d.Fail(n.Place, "says no tool", "mcp: { tool: search_nodes, arguments: { query: \"${token}\" } }")
	}
	return m
}

// downstreamFor finds the server or database that a request names, else the
// kind's own.
func (d decoder) downstreamFor(k *Kind, name, field, via string, at file.Place) *Downstream {
	ds := k.Downstream
	if name != "" {
		ds = d.policy.downstreams[name]
	}
	switch {
	case ds == nil && name != "":
		d.Fail(at, fmt.Sprintf("there is no downstream %q", name), ledger.DidYouMean(name, sortedNames(d.policy.downstreams)))
	case ds == nil:
		d.Fail(at, fmt.Sprintf("does not say which `%s`", field), fmt.Sprintf("say `%s:` here or `downstream:` in the kind", field))
	case ds.Via != via:
		d.Fail(at, fmt.Sprintf("downstream %q is not reached over %s", ds.Name, via), fmt.Sprintf("say `%s:` in it", via))
	default:
		return ds
	}
	return nil
}

func (m *mcpRule) questions() []*expr.Template { return m.arguments.Templates() }
func (m *mcpRule) via() string                 { return "mcp" }

func (m *mcpRule) beside() []*expr.Template {
	if m.server == nil { // the file is wrong
		return nil
	}
	s := m.server.mcp
	return slices.Concat(s.command, []*expr.Template{s.url}, values(s.env), values(s.headers))
}

func (m *mcpRule) render(r *rendering) Request {
	s := m.server.mcp
	out := &MCPRequest{Server: m.server.Name, Dir: s.dir, Tool: m.tool, ReadOnly: m.vouched, Arguments: m.argumentsOf(r)}
	for i, t := range s.command {
		out.Command = append(out.Command, r.At(fmt.Sprintf("argument %d of server %s", i, out.Server)).Text(t))
	}
	out.Env = r.environment(s.env)
	if s.url != nil {
		out.URL = r.At("address").Text(s.url)
		r.keep(out.URL)
		out.Header = r.headers(s.headers)
	}
	return Request{MCP: out}
}

func (m *mcpRule) argumentsOf(r *rendering) json.RawMessage {
	if m.arguments == nil {
		return json.RawMessage("{}")
	}
	data := r.At("arguments").Tree(m.arguments)
	if name, ok := data.(string); ok && r.Show {
		return json.RawMessage(name) // a secret by its name
	}
	if _, ok := data.(map[string]any); !ok {
		r.Fail(fmt.Errorf("a tool takes a mapping of names to values"))
	}
	return ledger.EncodeJSON(data)
}

func (m *MCPRequest) text() string {
	return strings.TrimRight(fmt.Sprintf("MCP %s: %s\n%s", m.Server, m.Tool, m.Arguments), "\n")
}

func (m *MCPRequest) leaving() []string { return jsonTexts(m.Arguments) }
