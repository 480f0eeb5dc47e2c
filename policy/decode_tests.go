package policy

import (
	"encoding/json"
	"fmt"
	"net/textproto"

	"indoubt/ledger"
)

// SavedAnswer is an answer written down, for the cases of `tests:` and for
// `policy try`. What a way of asking does not have is left out.
type SavedAnswer struct {
	Status  int                 // of http; 0 stands for 200
	Header  map[string][]string // canonical names
	Body    []byte              // of http
	Exit    int                 // of a command
	Stdout  []byte
	Stderr  []byte
	Result  json.RawMessage   // of a tool call, nil when it answered with an error
	Error   *ledger.RPCAnswer // of a tool call
	Rows    json.RawMessage   // of a query
	Changed int64             // how many rows a statement changed

	via string
}

// Via is the way the answer came as far as it says so: http, command, mcp or sql.
func (s SavedAnswer) Via() string {
	if s.via == "" {
		return "http"
	}
	return s.via
}

// Answer is the saved answer as if it had come the given way: http, command, mcp
// or sql.
func (s SavedAnswer) Answer(via string) ledger.Answer {
	a := ledger.Answer{Via: via, Sent: true}
	switch via {
	case "command":
		a.Exited, a.Exit, a.Stdout, a.Stderr = true, s.Exit, s.Stdout, s.Stderr
		if s.Stdout == nil {
			a.Stdout = s.Body
		}
	case "mcp":
		a.RPC = &ledger.RPCAnswer{Result: s.Result}
		if s.Error != nil {
			a.RPC = s.Error
		}
	case "sql":
		a.Rows, a.Affected = s.Rows, s.Changed
	default:
		a.Status, a.Header, a.Body = s.Status, s.Header, s.Body
		if s.Status == 0 {
			a.Status = 200
		}
		if s.Body == nil {
			a.Body = s.Stdout
		}
	}
	return a
}

// savedAnswer reads an answer of a case.
func (d *decoder) savedAnswer(n *node, path string) SavedAnswer {
	s := SavedAnswer{}
	text := func(out *[]byte) func(n *node, path string) {
		return func(n *node, path string) { *out = testBody(plainValue(n)) }
	}
	result := map[string]any{}
	part := func(name string, list bool) func(n *node, path string) {
		return func(n *node, path string) {
			if list && n.kind != sequenceNode {
				d.fail(n.at, path, fmt.Sprintf("must be a list, but is %s", n.what()), "content: [{ type: text, text: … }]")
			}
			result[name] = plainValue(n)
		}
	}
	d.fields(n, path, []field{
		{"status", func(n *node, path string) { d.integer(n, path, &s.Status, 100, 599) }},
		{"headers", func(n *node, path string) { s.Header = d.plainHeaders(n, path) }},
		{"body", text(&s.Body)},
		{"exit", func(n *node, path string) { d.integer(n, path, &s.Exit, 0, 255) }},
		{"stdout", text(&s.Stdout)},
		{"stderr", text(&s.Stderr)},
		{"structured", part("structuredContent", false)},
		{"content", part("content", true)},
		{"isError", func(n *node, path string) {
			failed := false
			d.boolean(n, path, &failed)
			result["isError"] = failed
		}},
		{"error", func(n *node, path string) {
			s.Error = &ledger.RPCAnswer{Error: true}
			d.fields(n, path, []field{
				{"code", func(n *node, path string) { d.integer(n, path, &s.Error.Code, -1_000_000, 1_000_000) }},
				{"message", func(n *node, path string) { s.Error.Message, _ = d.scalar(n, path) }},
			})
		}},
		{"rows", func(n *node, path string) {
			if n.kind != sequenceNode {
				d.fail(n.at, path, fmt.Sprintf("must be a list, but is %s", n.what()), "rows: [{ id: 1 }], or rows: []")
				return
			}
			s.Rows = testBody(plainValue(n))
		}},
		{"affected", func(n *node, path string) {
			count := 0
			d.integer(n, path, &count, 0, 1_000_000)
			s.Changed = int64(count)
		}},
	})
	for _, e := range n.entries {
		switch e.key {
		case "structured", "content", "isError", "error":
			s.via = "mcp"
		case "rows", "affected":
			s.via = "sql"
		case "exit", "stdout", "stderr":
			s.via = "command"
		}
	}
	if _, ok := result["content"]; !ok {
		result["content"] = []any{}
	}
	s.Result = testBody(result)
	return s
}

const testHint = "- { name: …, answer: { status: 200, body: … }, want: landed }"

func (d *decoder) tests(k *Kind, n *node, path string) {
	if n.kind != sequenceNode {
		d.fail(n.at, path, fmt.Sprintf("must be a list of cases, but is %s", n.what()), testHint)
		return
	}
	for i, item := range n.items {
		k.Tests = append(k.Tests, d.test(item, index(path, i)))
	}
}

func (d *decoder) test(item *node, at string) Test {
	t := Test{Line: item.at.line, Token: "indoubt-test"}
	text := func(out *string) func(n *node, path string) {
		return func(n *node, path string) { *out, _ = d.scalar(n, path) }
	}
	class := ""
	d.fields(item, at, []field{
		{"name", text(&t.Name)},
		{"input", func(n *node, _ string) { t.Input = plainValue(n) }},
		{"token", text(&t.Token)},
		{"class", func(n *node, path string) { d.choice(n, path, &class, classNames()...) }},
		{"after", func(n *node, path string) { d.optionalDuration(n, path, &t.After) }},
		{"want", func(n *node, path string) { d.choice(n, path, &t.Want, testWants...) }},
		{"advice", func(n *node, path string) { d.choice(n, path, &t.Advice, adviceVerbs...) }},
		{"answer", func(n *node, path string) { t.pages = append(t.pages, d.savedAnswer(n, path)) }},
		{"pages", func(n *node, path string) {
			if n.kind != sequenceNode {
				d.fail(n.at, path, fmt.Sprintf("must be a list of answers, but is %s", n.what()), "pages: [{ body: … }, { body: … }]")
				return
			}
			for i, page := range n.items {
				t.pages = append(t.pages, d.savedAnswer(page, index(path, i)))
			}
		}},
	})
	t.Class = ledger.ErrorClass(class)
	if item.kind != mappingNode {
		return t
	}
	if t.Want == "" && t.Advice == "" {
		d.fail(item.at, at, "does not say what it wants", "want: "+either(testWants))
	}
	return t
}

func (d *decoder) plainHeaders(n *node, path string) map[string][]string {
	out := map[string][]string{}
	if n.kind != mappingNode {
		d.fail(n.at, path, "must be a mapping (name: value)", "")
		return out
	}
	for _, e := range n.entries {
		if text, ok := d.scalar(e.value, join(path, e.key)); ok {
			out[textproto.CanonicalMIMEHeaderKey(e.key)] = []string{text}
		}
	}
	return out
}

// plainValue is a node as data, for the cases of `tests:`.
func plainValue(n *node) any {
	return n.data(func(n *node) any {
		if n.boolean {
			return n.text == "true"
		}
		if v, ok := jsonNumber(n.text); ok && n.number {
			return v
		}
		return n.text
	})
}

// testBody is the body of a case: text as it is, everything else as JSON.
func testBody(v any) []byte {
	switch x := v.(type) {
	case nil:
		return []byte{}
	case string:
		return []byte(x)
	}
	text, err := marshal(v)
	if err != nil {
		return []byte{}
	}
	return text
}
