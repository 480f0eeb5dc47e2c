package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

const connected = `
version: 1
downstreams:
  memory: { mcp: { command: [npx, -y, server-memory, "--key=${env.TEST_KEY}"], dir: /srv, env: { KEY: "${env.TEST_KEY}" } } }
  remote: { mcp: { url: "https://mcp.example/mcp", headers: { authorization: "Bearer ${env.TEST_KEY}" } } }
  books: { sql: { postgres: "${env.TEST_KEY}" }, rate: 5/s }
  local: { sql: { sqlite: /var/lib/books.db } }
kinds:
  mcp.memory.create_entities:
    downstream: memory
    token: { append: "entities[0].observations" }
    lands_within: 5s
    visible_within: 0s
    read:
      mcp: { tool: search_nodes, arguments: { query: "${token}", limit: 3 } }
      list: structured.entities
      mark: it.observations
      complete: "true"
      receipt: it.name
    resend: here
    answer:
      refused: isError && content[0].text.startsWith("invalid")
  mcp.memory.search_nodes: { effect: read }
  remote:
    token: { into: t }
    read: { mcp: { server: remote, tool: find, arguments: { page: "${cursor}", t: "${token}" } }, read_only: true, list: json.items, mark: it.t, next: json.next_page }
  book:
    downstream: books
    token: { into: token }
    lands_within: 5s
    visible_within: 0s
    read:
      sql:
        query: SELECT id, token, amount FROM "charges" WHERE token = $1 AND note LIKE $2 AND meta @> $3::jsonb AND amount IS DISTINCT FROM $4 AND big = $5 AND none = $6
        args: ["${token}", "%${input.note}%", "${input.meta}", "${input.amount}", "${input.big}", "${input.none}"]
      list: rows
      mark: it.token
      complete: "true"
      same: it.amount == input.amount
      receipt: it.id
  lite:
    token: { into: token }
    read: { sql: { database: local, query: "select * from c where t = ? limit 10 offset ?;", args: ["${token}", "${cursor}"] }, list: rows, mark: it.t, next: rows.size() }
`

func TestMCPRequests(t *testing.T) {
	t.Setenv("TEST_KEY", "sk_live_1")
	p := must(t, connected)
	rec := operation("mcp.memory.create_entities", `{"entities":[{"name":"a","observations":["x"]}]}`)
	k := p.Kind(rec.Operation.Kind)
	got, err := k.Read.Request(rec, nil)
	need.OK(t, err)
	want := &transport.MCPRequest{Server: "memory", Command: []string{"npx", "-y", "server-memory", "--key=sk_live_1"}, Dir: "/srv", Env: []string{"KEY=sk_live_1"},
		Tool: "search_nodes", Arguments: []byte(`{"limit":3,"query":"indoubt-7E3A"}`), ReadOnly: true}
	if diff := cmp.Diff(want, got.MCP); diff != "" || k.Read.Via() != "mcp" || !k.Read.Proves() || got.Shown != "MCP memory: search_nodes\n{\"limit\":3,\"query\":\"indoubt-7E3A\"}" {
		t.Error(diff)
	}
	rec.Operation.TokenSent, rec.Attempts = true, []ledger.Attempt{{N: 1, Sender: "mcp"}}
	got, err = k.Resending(rec, nil)
	need.Must(t, err == nil && k.Via(rec) == "mcp" && got.MCP.Tool == "create_entities" && !got.MCP.ReadOnly, "%+v %v", got.MCP, err)
	if want := `{"entities":[{"name":"a","observations":["x","indoubt-7E3A"]}]}`; string(got.MCP.Arguments) != want {
		t.Errorf("I4: it is sent with its token: %s", got.MCP.Arguments)
	}
	if got, err = p.Kind("remote").Read.Request(rec, 2.0); err != nil || got.MCP.URL != "https://mcp.example/mcp" ||
		got.MCP.Header["Authorization"][0] != "Bearer sk_live_1" || string(got.MCP.Arguments) != `{"page":2,"t":"indoubt-7E3A"}` || strings.Contains(got.Shown, "sk_live") {
		t.Errorf("%+v %v", got.MCP, err)
	}
	need.That(t, p.Downstream("remote").Via == "mcp" && p.Downstream("local").Via == "sql", "what a downstream is")
}

func TestI11_SQLHasOnlyBoundParameters(t *testing.T) {
	t.Setenv("TEST_KEY", "postgres://u:sk_live_1@h/db")
	p := must(t, connected)
	rec := operation("book", `{"note":"'; DROP TABLE charges; --","meta":{"a":[1]},"amount":4200.5,"big":123456789012345678901234567890,"none":null}`)
	got, err := p.Kind("book").Read.Request(rec, nil)
	need.OK(t, err)
	want := &transport.SQLRequest{Database: "books", Driver: "postgres", DSN: "postgres://u:sk_live_1@h/db",
		Query: "SELECT id, token, amount FROM \"charges\" WHERE token = $1 AND note LIKE $2 AND meta @> $3::jsonb AND amount IS DISTINCT FROM $4 AND big = $5 AND none = $6",
		Args:  []any{"indoubt-7E3A", "%'; DROP TABLE charges; --%", `{"a":[1]}`, 4200.5, "123456789012345678901234567890", nil}}
	shown := got.Shown
	same(t, want, got.SQL)
	need.That(t, !strings.Contains(shown, "sk_live") && strings.HasPrefix(shown, "SQL books (postgres)\nSELECT") && strings.HasSuffix(shown, "\n  6: null"), "%v", shown)
	if got, err = p.Kind("lite").Read.Request(operation("lite", `{}`), "20"); err != nil || got.SQL.DSN != "/var/lib/books.db" ||
		got.SQL.Query != "select * from c where t = ? limit 10 offset ?;" || cmp.Diff([]any{"indoubt-7E3A", "20"}, got.SQL.Args) != "" {
		t.Errorf("%+v %v", got.SQL, err)
	}
}

func TestI11_SQLStatementsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ driver, query, want string }{ // "" for want: accepted
		{"postgres", "SELECT * FROM t WHERE a = ${token}", "nothing is computed in a statement"},
		{"sqlite", "SELECT * FROM ${token}", "nothing is computed in a statement"},
		{"postgres", "SELECT a FROM t WHERE meta ? 'x' AND a = $1", ""},
		{"sqlite", "SELECT a FROM t WHERE a = ?; DELETE FROM t", "more than one statement"},
		{"sqlite", "-- nothing\n", "is empty"},
		{"sqlite", "DELETE FROM t WHERE a = ?", "a read cannot begin with DELETE"},
		{"sqlite", "/* SELECT */ DELETE FROM t WHERE a = ?", "a read cannot begin with DELETE"},
		{"sqlite", `SELECT replace(a, 'x', ''), t.update, update_at FROM t WHERE "delete" = ? -- the book's own`, ""},
		{"sqlite", "-- first\nWITH x AS (SELECT 1) SELECT a FROM t WHERE a = ?;  ", ""},
	} {
		rule := "read: { list: rows, complete: \"true\", sql: { query: Q, args: [\"${token}\"] } }"
		text := "version: 1\ndownstreams: { d: { sql: { " + c.driver + ": x } } }\nkinds:\n  k:\n    downstream: d\n    token: { into: t }\n    " +
			strings.Replace(rule, "Q", quoteJSON(c.query), 1) + "\n"
		_, err := Parse("policy.yaml", []byte(text))
		says(t, err, c.want, c.driver, c.query)
	}
}

func quoteJSON(s string) string {
	return string(ledger.EncodeJSON(s))
}

func TestConnectorsThatAreRefused(t *testing.T) {
	downstream := func(text string) string { return "version: 1\ndownstreams:\n  d: " + text + "\n" }
	read := func(text string) string {
		return downstream("{ mcp: { command: [x] } }") + "kinds:\n  k:\n    downstream: d\n    read: " + text + "\n"
	}
	for _, c := range []struct{ text, want string }{
		{downstream("{ mcp: {} }"), "says neither `command` nor `url`"},
		{downstream("{ mcp: { command: [x], url: https://h.example/ } }"), "exclude each other"},
		{downstream("{ mcp: { url: ftp://h } }"), "is not an address"},
		{downstream("{ mcp: { command: [\"${env.X}\"] } }"), "the command itself is written out"},
		{downstream("{ mcp: { command: [x, \"${input.a}\"] } }"), "only ${env.NAME}"},
		{downstream("{ mcp: { command: [x], headers: { a: b } } }"), "need a `url`"},
		{downstream("{ mcp: { url: https://h.example/, env: { A: b } } }"), "need a `command`"},
		{downstream("{ base: https://h.example, sql: { sqlite: x } }"), "a downstream is one thing"},
		{downstream("{ sql: { sqlite: x, postgres: y } }"), "this one is sqlite already"},
		{downstream("{ sql: {} }"), "does not say which database"},
		{downstream("{ sql: { mysql: x } }"), "unknown field"},
		{read("{ mcp: { tool: \"${input.t}\" }, list: structured }"), "a tool cannot be computed"},
		{read("{ mcp: { tool: t, arguments: [1] }, list: structured }"), "must be a mapping"},
		{read("{ mcp: { arguments: {} }, list: structured }"), "says no tool"},
		{read("{ sql: { query: SELECT 1 }, list: rows }"), "is not reached over sql"},
		{read("{ mcp: { tool: t }, command: [x], list: structured }"), "exclude each other"},
		{read("{ mcp: { tool: t }, next: structured.more, list: structured }"), "only a read over http can follow"},
	} {
		err := refused(t, c.text)
		need.That(t, strings.Contains(err.Error(), c.want), "%s\n%v\nwant %q", c.text, err, c.want)
	}
}

func tool(result string) ledger.Answer {
	return ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: []byte(result)}}
}

func TestMCPAndSQLAnswers(t *testing.T) {
	p := must(t, connected)
	rec := operation("x", `{"amount":1}`)
	table := func(rows string) ledger.Answer { return ledger.Answer{Via: "sql", Rows: []byte(rows)} }
	for _, c := range []struct {
		name, kind string
		answer     ledger.Answer
		want       string
	}{
		{"found", "mcp.memory.create_entities", tool(`{"content":[],"structuredContent":{"entities":[{"name":"a","observations":["indoubt-7E3A"]}]}}`), "landed"},
		{"none", "mcp.memory.create_entities", tool(`{"content":[],"structuredContent":{"entities":[]},"isError":false}`), "none"},
		{"the tool failed", "mcp.memory.create_entities", tool(`{"content":[],"structuredContent":{"entities":[]},"isError":true}`), "the tool says that it failed"},
		{"the tool says why", "remote", tool(`{"content":[{"type":"text","text":"no\nindex"}],"isError":true}`), "the tool says that it failed: no index"},
		{"isError is odd", "mcp.memory.create_entities", tool(`{"structuredContent":{"entities":[]},"isError":"no"}`), "neither true nor false"},
		{"no structure", "mcp.memory.create_entities", tool(`{"content":[{"type":"text","text":"[]"}]}`), "no structured content"},
		{"an error", "mcp.memory.create_entities", ledger.Answer{Via: "mcp", RPC: &ledger.RPCAnswer{Error: true, Code: -32601, Message: "no\nsuch tool"}}, "the server answered error -32601: no such tool"},
		{"nothing", "mcp.memory.create_entities", ledger.Answer{Via: "mcp"}, "no answer came"},
		{"result is a list", "mcp.memory.create_entities", tool(`[]`), "is not a JSON object"},
		{"JSON in text", "remote", tool(`{"content":[{"type":"text","text":"{\"items\":[{\"t\":\"indoubt-7E3A\"},{\"t\":\"indoubt-7E3A\"}],\"next_page\":null}"}]}`), "twice"},
		{"words in text", "remote", tool(`{"content":[{"type":"text","text":"2 found"}]}`), "the tool's text is not JSON"},
		{"two parts", "remote", tool(`{"content":[{},{}]}`), "2 parts, not one"},
		{"a row", "book", table(`[{"id":7,"token":"indoubt-7E3A","amount":1}]`), "landed"},
		{"another amount", "book", table(`[{"id":7,"token":"indoubt-7E3A","amount":2}]`), "different"},
		{"no row", "book", table(`[]`), "none"},
		{"no rows at all", "book", ledger.Answer{Via: "sql"}, "no rows came back"},
		{"too many", "book", ledger.Answer{Via: "sql", Rows: []byte(`[]`), Truncated: true}, "more rows came than are kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := p.Kind(c.kind).Read.JudgePage(context.Background(), rec, nil, c.answer)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = verdictOf(p.Kind(c.kind), rec, c.answer)
			}
			need.That(t, strings.Contains(got, c.want) && !strings.Contains(got, "\n"), "got %q, want %q", got, c.want)
		})
	}
	doubted := ledger.Record{Operation: rec.Operation, Attempts: []ledger.Attempt{{N: 1, Outcome: ledger.OutcomeUncertain}, {N: 2}}}
	for _, c := range []struct {
		kind   string
		answer ledger.Answer
		want   ledger.Ruling
	}{
		{"mcp.memory.create_entities", tool(`{"content":[{"type":"text","text":"invalid name"}],"isError":true}`), ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}},
		{"mcp.memory.create_entities", tool(`{"content":[]}`), ledger.Ruling{}},
	} {
		got, err := p.Kind(c.kind).JudgeAnswer(context.Background(), doubted, c.answer)
		need.That(t, got == c.want && err == nil, "%s %+v: %+v, %v; want %+v", c.kind, c.answer, got, err, c.want)
	}
}
