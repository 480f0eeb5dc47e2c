package policy

import (
	"encoding/json"
	"net/textproto"

	"indoubt/ledger"
)

// caseAnswer is an answer written down, for the cases of `tests:`. A field that a transport does not have is left out.
type caseAnswer struct {
	Status int                 // of http; 0 stands for 200
	Header map[string][]string // canonical names
	Body   []byte              // of http
	Exit   int                 // of a command
	Stdout []byte
	Stderr []byte
	Result json.RawMessage   // of a tool call, nil when it answered with an error
	Error  *ledger.RPCAnswer // of a tool call
	Rows   json.RawMessage   // of a query

	via string
}

// Via is the way the answer came as far as it says so: http, command, mcp or sql.
func (s caseAnswer) Via() string {
	if s.via == "" {
		return "http"
	}
	return s.via
}

// Answer is the saved answer as if it had come the given way: http, command, mcp
// or sql.
func (s caseAnswer) Answer(via string) ledger.Answer {
	a := ledger.Answer{Via: via, Sent: true}
	switch via {
	case "command":
		a.Exited, a.Exit, a.Stdout, a.Stderr = true, s.Exit, s.Stdout, s.Stderr
	case "mcp":
		a.RPC = &ledger.RPCAnswer{Result: s.Result}
		if s.Error != nil {
			a.RPC = s.Error
		}
	case "sql":
		a.Rows = s.Rows
	default:
		a.Status, a.Header, a.Body = s.Status, s.Header, s.Body
		if s.Status == 0 {
			a.Status = 200
		}
	}
	return a
}

// savedAnswer reads an answer of a case.
func (d requestDecoder) savedAnswer(n *node) (s caseAnswer) {
	result := map[string]any{"content": []any{}}
	by := func(via string, read reader) reader {
		return func(n *node) {
			s.via = via
			read(n)
		}
	}
	text := func(out *[]byte) reader {
		return func(n *node) { *out = testBody(plainValue(n)) }
	}
	d.fields(n,
		field{"status", d.integer(&s.Status, 100, 599)},
		field{"headers", func(n *node) { s.Header = d.plainHeaders(n) }},
		field{"body", text(&s.Body)},
		field{"exit", by("command", d.integer(&s.Exit, 0, 255))},
		field{"stdout", by("command", text(&s.Stdout))},
		field{"stderr", by("command", text(&s.Stderr))},
		field{"structured", by("mcp", func(n *node) { result["structuredContent"] = plainValue(n) })},
		field{"content", by("mcp", func(n *node) {
			d.must(n, sequenceNode, "a list", "content: [{ type: text, text: … }]")
			result["content"] = plainValue(n)
		})},
		field{"isError", by("mcp", func(n *node) {
			failed := false
			d.boolean(&failed)(n)
			result["isError"] = failed
		})},
		field{"error", by("mcp", func(n *node) {
			s.Error = &ledger.RPCAnswer{Error: true}
			d.fields(n, field{"code", d.integer(&s.Error.Code, -1_000_000, 1_000_000)}, field{"message", d.text(&s.Error.Message)})
		})},
		field{"rows", by("sql", func(n *node) {
			if d.must(n, sequenceNode, "a list", "rows: [{ id: 1 }], or rows: []") {
				s.Rows = testBody(plainValue(n))
			}
		})},
	)
	s.Result = testBody(result)
	return s
}

func (d requestDecoder) test(item *node) Test {
	t := Test{Token: "indoubt-test", Line: item.line}
	page := func(n *node) { t.pages = append(t.pages, d.savedAnswer(n)) }
	d.fields(item,
		field{"name", d.text(&t.Name)},
		field{"input", func(n *node) { t.Input = plainValue(n) }},
		field{"token", d.text(&t.Token)},
		field{"after", d.bound(&t.After)},
		field{"want", d.choice(&t.Want, testWants...)},
		field{"answer", page},
		field{"pages", func(n *node) { d.each(n, "a list of answers", "pages: [{ body: … }, { body: … }]", page) }},
	)
	if item.kind == mappingNode && t.Want == "" {
		d.fail(item.place, "does not say what it wants", "want: "+either(testWants))
	}
	return t
}

func (d requestDecoder) plainHeaders(n *node) map[string][]string {
	out := map[string][]string{}
	if n.kind != mappingNode {
		d.fail(n.place, "must be a mapping (name: value)", "")
	}
	for _, e := range n.entries {
		if text, ok := d.scalar(e.value); ok {
			out[textproto.CanonicalMIMEHeaderKey(e.name)] = []string{text}
		}
	}
	return out
}

// leaf is a scalar as data: true, false, a number that JSON can write, or text.
func (n *node) leaf() any {
	if n.boolean {
		return n.text == "true"
	}
	if n.number && json.Valid([]byte(n.text)) {
		return json.Number(n.text)
	}
	return n.text
}

// plainValue is a node as data.
func plainValue(n *node) any { return n.data((*node).leaf) }

// testBody is the body of a case: text as it is, everything else as JSON.
func testBody(v any) []byte {
	switch x := v.(type) {
	case nil:
		return []byte{}
	case string:
		return []byte(x)
	}
	return ledger.EncodeJSON(v)
}
