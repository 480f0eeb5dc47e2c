package policy

import (
	"encoding/json"
	"fmt"
	"strings"
)

func (m *mcpRule) render(r *rendering) (*MCPRequest, error) {
	s := m.server.mcp
	out := &MCPRequest{Server: m.server.Name, Dir: s.dir, Tool: m.tool, ReadOnly: m.vouched}
	arguments, err := m.argumentsOf(r)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	out.Arguments = arguments
	for i, t := range s.command {
		v, err := r.text(t)
		if err != nil {
			return nil, fmt.Errorf("argument %d of server %s: %w", i, out.Server, err)
		}
		out.Command = append(out.Command, v)
	}
	for _, p := range s.env {
		v, err := r.text(p.value)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", p.name, err)
		}
		out.Env = append(out.Env, p.name+"="+v)
	}
	if s.url == nil {
		return out, nil
	}
	if out.URL, err = r.text(s.url); err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	if !r.show {
		r.vars.secrets.parts(out.URL, inAddress)
	}
	out.Header, err = r.headers(s.headers)
	return out, err
}

func (m *mcpRule) argumentsOf(r *rendering) (json.RawMessage, error) {
	var data any = map[string]any{}
	if m.arguments != nil {
		var err error
		if data, err = r.tree(m.arguments); err != nil {
			return nil, err
		}
	}
	if name, ok := data.(string); ok && r.show {
		return json.RawMessage(name), nil // a secret by its name
	}
	if _, ok := data.(map[string]any); !ok {
		return nil, fmt.Errorf("a tool takes a mapping of names to values")
	}
	return marshal(data)
}

// text is the call as a person reads it.
func (m *MCPRequest) text() string {
	return strings.TrimRight(fmt.Sprintf("MCP %s: %s\n%s", m.Server, m.Tool, m.Arguments), "\n")
}
