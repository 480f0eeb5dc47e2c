package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

// mcpServer is how an MCP server is reached: by a command or by a URL.
type mcpServer struct {
	command []*expr.Template
	dir     string
	env     []Pair
	url     *expr.Template
	headers []Pair
}

// mcpRule is a call of one tool. server is resolved once all fields are read.
type MCP struct {
	at        file.Place
	name      string // of the downstream; "": the kind's own
	Tool      string
	arguments *expr.Tree // nil: none
	Vouched   bool
	Server    *Downstream
}

var (
	envName  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	toolName = file.Short(`^[A-Za-z0-9_./:@-]+$`, 128)
)

const settledOnly, settledHint = "only ${env.NAME} and ${file(\"…\")} may stand here", "it is the same for every operation"

// settled reads a template in which only secrets may be computed: what it makes
// is shared by all operations.
func readSettled(d *file.Decoder, n *file.Node) *expr.Template {
	t := d.Template(n, expr.ForRequest)
	if !t.Settled() {
		d.Fail(n.Place, settledOnly, settledHint)
		return nil
	}
	return t
}

// readServer reads `mcp:` of a downstream.
func readServer(d *file.Decoder, ds *Downstream, n *file.Node) {
	s := &mcpServer{}
	fine := d.Fields(n, file.Table{
		"command": func(n *file.Node) { s.command = readArgv(d, n, readSettled) },
		"dir":     d.Text(&s.dir),
		"env": func(n *file.Node) {
			s.env = readEnvironment(d, n)
			for _, e := range n.Entries {
				if i := slices.IndexFunc(s.env, func(p Pair) bool { return p.Name == e.Name }); i >= 0 && !s.env[i].value.Settled() {
					d.Fail(e.Value.Place, settledOnly, settledHint)
				}
			}
		},
		"url":     func(n *file.Node) { s.url = readServerAddress(d, n) },
		"headers": func(n *file.Node) { s.headers = readHeaders(d, n) },
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
	ds.is(d, n, "mcp")
}

func readServerAddress(d *file.Decoder, n *file.Node) *expr.Template {
	t := readSettled(d, n)
	if t == nil {
		return nil
	}
	if first, written := t.Beginning(); written && !OriginWritten(first) && !OriginWritten(first+"/") {
		d.Fail(n.Place, fmt.Sprintf("%q is not an address", n.Text), "for example https://mcp.example.com/mcp")
	}
	return t
}

func readEnvironment(d *file.Decoder, n *file.Node) []Pair {
	env := readPairs(d, n)
	for _, p := range env {
		if !envName.MatchString(p.Name) {
			d.Fail(n.Below(p.Name), fmt.Sprintf("%q is not the name of a variable", p.Name), "")
		}
	}
	return env
}

// readTool reads `mcp:` of a read.
func readTool(d *file.Decoder, n *file.Node) *MCP {
	m := &MCP{at: n.Place}
	fine := d.Fields(n, file.Table{
		"server": d.Text(&m.name),
		"tool": file.Parsed(d, &m.Tool, func(text string) (string, error) {
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
	if fine && m.Tool == "" {
		d.Fail(n.Place, "says no tool", "mcp: { tool: search_nodes, arguments: { query: \"${token}\" } }")
	}
	return m
}

func (m *MCP) Attach(d *file.Decoder, known Reach) {
	m.Server = known.named(d, m.name, "server", "mcp", m.at)
}

func (m *MCP) Questions() []*expr.Template { return m.arguments.Templates() }
func (m *MCP) Via() string                 { return "mcp" }

func (m *MCP) beside() []*expr.Template {
	if m.Server == nil { // the file is wrong
		return nil
	}
	s := m.Server.mcp
	return slices.Concat(s.command, []*expr.Template{s.url}, values(s.env), values(s.headers))
}

func (m *MCP) render(r *Rendering) Request {
	s := m.Server.mcp
	out := &MCPRequest{Server: m.Server.Name, Dir: s.dir, Tool: m.Tool, ReadOnly: m.Vouched, Arguments: m.argumentsOf(r)}
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

func (m *MCP) argumentsOf(r *Rendering) json.RawMessage {
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

func (m *MCPRequest) Leaving() []string { return JSONTexts(m.Arguments) }

type overMCP struct{}

func (overMCP) complete(a *ledger.Answer) {
	if a.RPC == nil {
		a.RPC = &ledger.RPCAnswer{Result: json.RawMessage(`{"content":[]}`)}
	}
}

func (overMCP) whole(a *ledger.Answer) bool { return a.RPC != nil }

func (overMCP) usable(a *ledger.Answer) error {
	switch {
	case a.Truncated:
		return errCut
	case a.RPC == nil:
		return overHTTP{}.usable(a)
	case a.RPC.Error:
		return rpcError(a.RPC)
	}
	return nil // that a tool says isError is for `valid`
}

func (overMCP) succeeded(a *ledger.Answer, _ bool) (bool, error) {
	failed, err := toolAnswer(a, "isError")
	return failed == false, err
}

func (overMCP) refusal(a *ledger.Answer, byPolicy bool) error {
	if byPolicy {
		return overHTTP{}.refusal(a, byPolicy)
	}
	return fmt.Errorf("the tool says that it failed%s", said(a))
}

// said is the first text of a tool's answer, ": …", or "".
func said(a *ledger.Answer) string {
	content, _ := toolAnswer(a, "content")
	list, _ := content.([]any)
	if len(list) == 0 {
		return ""
	}
	part, _ := list[0].(map[string]any)
	text, _ := part["text"].(string)
	if text = expr.Shorten(text, 100); text == "" {
		return ""
	}
	return ": " + text
}

// toolResult decodes the result of an MCP tool call. A response that is an error
// has none.
func toolResult(a *ledger.Answer) (map[string]any, error) {
	switch {
	case a.RPC == nil:
		return nil, fmt.Errorf("an answer of this kind has no tool result")
	case a.RPC.Error:
		return nil, rpcError(a.RPC)
	case a.Truncated:
		return nil, errCut
	}
	doc, err := expr.Decode(a.RPC.Result)
	if errors.Is(err, expr.ErrTwice) {
		return nil, fmt.Errorf("the server's result is JSON that names a member twice")
	}
	result, ok := doc.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("the server's result is not a JSON object")
	}
	return result, nil
}

func rpcError(r *ledger.RPCAnswer) error {
	return fmt.Errorf("the server answered error %d: %s", r.Code, expr.Shorten(r.Message, 200))
}

// toolAnswer is `content`, `structured` or `isError` of a tool's answer. A missing one
// is an error, except isError, which is false then (MCP 2025-06-18). Of a JSON-RPC error
// the content is its message.
func toolAnswer(a *ledger.Answer, name string) (any, error) {
	if a.RPC == nil {
		return nil, fmt.Errorf("an answer of this kind has no `%s`", name)
	}
	if a.RPC.Error { // a tool's error, from a server whose library throws it as one of the protocol's
		switch name {
		case "isError":
			return true, nil
		case "content":
			return []any{map[string]any{"type": "text", "text": a.RPC.Message}}, nil
		}
	}
	result, err := toolResult(a)
	if err != nil {
		return nil, err
	}
	switch name {
	case "isError":
		switch v := result["isError"].(type) {
		case nil:
			return false, nil
		case bool:
			return v, nil
		}
		return nil, fmt.Errorf("`isError` is neither true nor false")
	case "content":
		list, ok := result["content"].([]any)
		if !ok {
			return nil, fmt.Errorf("the tool's answer has no content")
		}
		return list, nil
	}
	v, ok := result["structuredContent"]
	if !ok || v == nil {
		return nil, fmt.Errorf("the tool's answer has no structured content")
	}
	return v, nil
}

// document is the JSON a tool answered with: its structured content, else
// the one text it gave.
func (overMCP) document(a *ledger.Answer) (any, error) {
	result, err := toolResult(a)
	if err != nil {
		return nil, err
	}
	if v := result["structuredContent"]; v != nil {
		return v, nil
	}
	list, _ := result["content"].([]any)
	if len(list) != 1 {
		return nil, fmt.Errorf("the tool answered with %d parts, not one", len(list))
	}
	part, _ := list[0].(map[string]any)
	text, ok := part["text"].(string)
	if !ok {
		return nil, fmt.Errorf("the tool's answer is not text")
	}
	doc, err := expr.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the tool's text is not JSON")
	}
	return doc, nil
}
