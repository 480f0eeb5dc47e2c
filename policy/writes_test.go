package policy

import (
	"errors"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// readingAndWriting is a policy whose read and write are filled in.
func readingAndWriting(kind, read, more string) string {
	return `version: 1
downstreams:
  pay: { base: "https://pay.example/api" }
  elsewhere: { base: "${env.PAY_BASE}" }
  tools: { mcp: { command: [npx, server] } }
  books: { sql: { sqlite: /var/lib/books.db } }
kinds:
  ` + kind + `:
    downstream: pay
    token: { into: ref }
    read:
      ` + read + `
      list: '[1]'
` + more
}

// TestI5_AReadThatIsAWriteIsRefused: a check of an operation in doubt would be one
// more of it.
func TestI5_AReadThatIsAWriteIsRefused(t *testing.T) {
	for _, c := range []struct{ name, kind, read, more, want string }{
		{"its match", "k", `http: { post: /v1/charges }`, "    match: POST /api/v1/charges\n", "`match` of k"},
		{"its match with a host", "k", `http: { post: /v1/charges }`, "    match: POST pay.example/api/v1/charges\n", "`match` of k"},
		{"its match with any path", "k", `http: { post: "/v1/${input.x}/charges" }`, "    match: pay.example/api/**\n", "`match` of k"},
		{"a match of get", "k", `http: { get: "/v1/pay/${input.id}" }`, "    match: GET /api/v1/pay/*\n", "`match` of k"},
		{"another kind's match", "k", `http: { post: /v1/refunds }`, "  other: { match: POST /api/v1/refunds }\n", "`match` of other"},
		{"a header that deletes", "k", `http: { get: /v1/charges, headers: { X-HTTP-Method: delete } }`, "", "DELETE"},
		{"a field that deletes", "k", `http: { post: /v1/charges/7, form: { _method: delete } }`, "", "DELETE"},
		{"a header that is computed", "k", `http: { get: /v1/charges, headers: { X-Method-Override: "${input.m}" } }`, "", "computed"},
		{"a mutation", "k", `http: { post: /graphql, json: { query: "# pays\nmutation { pay }" } }`, "", "mutation"},
		{"a named mutation beside a query", "k", `http: { post: /graphql, json: { query: "query A { a }\n mutation B { b }", operationName: B } }`, "", "mutation"},
		{"the tool that is recorded", "mcp.tools.pay", `mcp: { server: tools, tool: pay, read_only: true }`, "", "tool pay of mcp.tools.pay"},
		{"the tool, the server named otherwise", "mcp.bank.pay", `mcp: { server: tools, tool: pay }`, "", "tool pay of mcp.bank.pay"},
		{"the tool of another kind", "k", `mcp: { server: tools, tool: pay }`, "  mcp.tools.pay: { token: { into: ref } }\n", "tool pay of mcp.tools.pay"},
		{"a tool said to write", "k", `mcp: { server: tools, tool: pay }`, "  mcp.tools.pay: { effect: once }\n", "tool pay of mcp.tools.pay"},
		{"the same statement", "k", `sql: { database: books, query: "INSERT INTO t (a) VALUES (?)", args: ["${token}"] }`, "", "a read cannot begin with INSERT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("policy.yaml", []byte(readingAndWriting(c.kind, c.read, c.more)))
			need.That(t, err != nil && strings.Contains(err.Error(), c.want) && strings.Contains(err.Error(), c.kind+".read"), "%v\nwant %s", err, c.want)
		})
	}
}

// TestReadsBesideAWriteAreAccepted: what differs from the write in what tells the
// interface what to do.
func TestReadsBesideAWriteAreAccepted(t *testing.T) {
	for name, c := range map[string]struct{ read, more string }{
		"get":                     {`http: { get: /v1/charges }`, "    match: POST /api/v1/charges\n"},
		"a search":                {`http: { post: /v1/charges/search }`, "    match: POST /api/v1/charges\n"},
		"a search within a match": {`http: { post: /v1/charges/search }`, "    match: POST /api/v1/charges/*\n  search: { match: POST /api/v1/charges/search, effect: read }\n"},
		"another host":            {`http: { post: "https://search.example/api/v1/charges" }`, "    match: POST pay.example/api/v1/charges\n"},
		"GraphQL":                 {`http: { post: /graphql, json: { query: "query($t: ID!) { charge(ref: $t) { id } }" } }`, "    match: POST /api/graphql\n"},
		"GraphQL in short":        {`http: { post: /graphql, json: { query: "{ charge(ref: \"${token}\") { mutation } }" } }`, "    match: POST /api/graphql\n"},
		"another action":          {`http: { post: /, form: { Action: ListCharges } }`, ""},
		"another action by get":   {`http: { get: "/?Action=List" }`, ""},
		"another target":          {`http: { post: /, headers: { X-Amz-Target: A.Query } }`, "    match: POST /api/\n"},
		"JSON-RPC":                {`http: { post: /rpc, json: { method: find, params: ["${token}"] } }`, ""},
		"a dry run":               {`http: { post: /v1/things, query: { dryRun: All } }`, ""},
		"a dry run in json":       {`http: { post: /v1/things, json: { validate_only: true } }`, ""},
		"get in place of post":    {`http: { post: /v1/charges, headers: { X-HTTP-Method-Override: GET } }`, ""},
		"another tool":            {`mcp: { server: tools, tool: find }`, "  mcp.tools.find: { effect: read }\n  mcp.tools.*: { effect: once }\n"},
		"a tool of many actions":  {`mcp: { server: tools, tool: charge, arguments: { action: find } }`, ""},
		"another server's tool":   {`mcp: { server: tools, tool: pay }`, "  mcp.bank.refund: { effect: once }\n"},
		"a command's dry run":     {`command: [tool, pay, "${input.n}", --dry-run]`, ""},
	} {
		_, err := Parse("policy.yaml", []byte(readingAndWriting("k", c.read, c.more)))
		need.That(t, err == nil, "%s: %v", name, err)
	}
}

// TestI5_NoRequestOfAReadIsTheWriteItLooksFor: what the file does not tell yet, a
// rendered request does; it is refused before anything is sent.
func TestI5_NoRequestOfAReadIsTheWriteItLooksFor(t *testing.T) {
	t.Setenv("PAY_BASE", "https://pay.example/api")
	curl := &ledger.Command{Argv: []string{"curl", "--fail", "-d", "x", "https://pay.example/api/v1/find?a=1"}}
	for _, c := range []struct {
		name, read, more, input string
		command                 *ledger.Command
		refused                 bool
	}{
		{"a match by its value", `http: { post: "/v1/${input.what}" }`, `    match: POST /api/v1/charges`, `{"what":"charges"}`, nil, true},
		{"a host by its variable", `http: { post: "${env.PAY_BASE}/v1/charges" }`, `    match: POST pay.example/api/v1/charges`, `{}`, nil, true},
		{"what was recorded says the same", `http: { post: /, headers: { X-Amz-Target: A.Put } }`, `    match: POST /api/`, `recorded`, nil, true},
		{"what was recorded says another thing", `http: { post: /, headers: { X-Amz-Target: A.Query } }`, `    match: POST /api/`, `recorded`, nil, false},
		{"an action of the form that was recorded", `http: { post: /, form: { Action: Put } }`, "", `recorded`, nil, true},
		{"the action of a list", `http: { post: /, form: { Action: List } }`, "", `recorded`, nil, false},
		{"what the proxy recorded", `http: { post: /v1/find }`, "", `{"method":"POST","path":"/api/v1/find","body":{"a":1}}`, nil, true},
		{"what it recorded elsewhere", `http: { post: /v1/find }`, "", `{"method":"POST","path":"/api/v1/pay"}`, nil, false},
		{"a search of what it recorded", `http: { get: /v1/find }`, "", `{"method":"POST","path":"/api/v1/find"}`, nil, false},
		{"what it recorded by a header", `http: { post: /v1/find }`, "", `{"method":"GET","override":"PUT","path":"/api/v1/find"}`, nil, true},
		{"what curl was told to send", `http: { post: /v1/find }`, "", `{}`, curl, true},
		{"the same address by get", `http: { get: /v1/find }`, "", `{}`, curl, false},
		{"the recorded command", `command: [tool, pay, "${input.n}", "${token}"]`, "", `{"n":5}`, &ledger.Command{Argv: []string{"./tool", "pay", "5", "{{token}}"}}, true},
		{"another command", `command: [tool, find, "${input.n}"]`, "", `{"n":5}`, &ledger.Command{Argv: []string{"tool", "pay", "5"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := must(t, readingAndWriting("k", c.read, c.more))
			rec := operation("k", c.input)
			rec.Operation.Command = c.command
			if c.input == "recorded" {
				rec = operation("k", `{}`)
				rec.Operation.Request = &ledger.Request{Method: "POST", Origin: "https://pay.example", Target: "/api/",
					Header: map[string][]string{"X-Amz-Target": {"A.Put"}, "Content-Type": {"application/x-www-form-urlencoded"}}, Body: "Action=Put"}
			}
			_, err := p.Kind("k").Read.Request(rec, nil)
			need.That(t, (err != nil) == c.refused && (!c.refused || errors.Is(err, errWouldWrite)), "%v", err)
		})
	}
}
