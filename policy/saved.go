package policy

import (
	"encoding/json"
	"net/textproto"

	"indoubt/ledger"
)

// answerBy is an answer of a case as if it had come the given way: http, command, mcp or sql.
func answerBy(via string, a ledger.Answer) ledger.Answer {
	a.Via, a.Sent, a.Exited = via, true, via == "command"
	switch {
	case via == "http" && a.Status == 0:
		a.Status = 200
	case via == "mcp" && a.RPC == nil:
		a.RPC = &ledger.RPCAnswer{Result: json.RawMessage(`{"content":[]}`)}
	}
	return a
}

// savedAnswer reads an answer of a case. A field that a transport does not have is left out; Via is
// the way that it came, as far as it says so.
func (d fileDecoder) savedAnswer(n *node) (a ledger.Answer) {
	result := map[string]any{"content": []any{}}
	by := func(via string, read reader) reader {
		return func(n *node) {
			a.Via = via
			read(n)
		}
	}
	text := func(out *[]byte) reader {
		return func(n *node) { *out = testBody(plainValue(n)) }
	}
	d.fields(n,
		field{"status", d.integer(&a.Status, 100, 599)},
		field{"headers", func(n *node) { a.Header = d.plainHeaders(n) }},
		field{"body", text(&a.Body)},
		field{"exit", by("command", d.integer(&a.Exit, 0, 255))},
		field{"stdout", by("command", text(&a.Stdout))},
		field{"stderr", by("command", text(&a.Stderr))},
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
			a.RPC = &ledger.RPCAnswer{Error: true}
			d.fields(n, field{"code", d.integer(&a.RPC.Code, -1_000_000, 1_000_000)}, field{"message", d.text(&a.RPC.Message)})
		})},
		field{"rows", by("sql", func(n *node) {
			if d.must(n, sequenceNode, "a list", "rows: [{ id: 1 }], or rows: []") {
				a.Rows = testBody(plainValue(n))
			}
		})},
	)
	if a.Via == "mcp" && a.RPC == nil {
		a.RPC = &ledger.RPCAnswer{Result: testBody(result)}
	}
	return a
}

func (d fileDecoder) test(item *node) Test {
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

func (d fileDecoder) plainHeaders(n *node) map[string][]string {
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
