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

// A check that writes would be one more of the operation that is in doubt: what no form
// says to read needs the word of the policy.
func TestI5_AReadThatIsNoneByItsFormNeedsAWord(t *testing.T) {
	for _, c := range []struct{ name, kind, read, more, want string }{
		{"by post", "k", `http: { post: /v1/charges }`, "", "asks by post"},
		{"a search by post", "k", `http: { post: /v1/charges/search }`, "", "asks by post"},
		{"its own address", "k", `http: { post: /v1/charges }`, "    match: POST /api/v1/charges\n", "asks by post"},
		{"its own address, spelled otherwise", "k", `http: { post: "/./v1/%63harges/" }`, "    match: POST /api/v1/charges\n", "asks by post"},
		{"its own address by a value", "k", `http: { post: "/v1/${input.x}" }`, "    match: pay.example/api/**\n", "asks by post"},
		{"a mutation", "k", `http: { post: /graphql, json: { query: "mutation { pay }" } }`, "", "asks by post"},
		{"a header that deletes", "k", `http: { get: /v1/charges, headers: { X-HTTP-Method: delete } }`, "", "another method by X-Http-Method"},
		{"a header that is computed", "k", `http: { get: /v1/charges, headers: { X-Method-Override: "${input.m}" } }`, "", "another method"},
		{"a field that deletes", "k", `http: { get: /v1/charges, query: { _method: delete } }`, "", "another method by _method"},
		{"a field of the address that deletes", "k", `http: { get: "/v1/charges?_method=delete" }`, "", "another method by _method"},
		{"get that writes", "k", `http: { get: "/v1/pay/${input.id}" }`, "    match: GET /api/v1/pay/*\n", "by which k writes"},
		{"get that writes for another kind", "k", `http: { get: "/v1/charges" }`, "  other: { downstream: pay, match: \"GET,POST /api/v1/pay/*\" }\n", "by which other writes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("policy.yaml", []byte(readingAndWriting(c.kind, c.read, c.more)))
			need.That(t, err != nil && strings.Contains(err.Error(), c.want) && strings.Contains(err.Error(), c.kind+".read"), "%v\nwant %s", err, c.want)
			must(t, readingAndWriting(c.kind, c.read+"\n      read_only: true", c.more))
		})
	}
}

// No word helps where the policy itself says that it is a write.
func TestI5_AReadThatIsAWriteIsRefused(t *testing.T) {
	for _, c := range []struct{ name, kind, read, more, want string }{
		{"the tool that is recorded", "mcp.tools.pay", `mcp: { server: tools, tool: pay }`, "", "tool pay of mcp.tools.pay"},
		{"the tool, the server named otherwise", "mcp.bank.pay", `mcp: { server: tools, tool: pay }`, "", "tool pay of mcp.bank.pay"},
		{"the tool of another kind", "k", `mcp: { server: tools, tool: pay }`, "  mcp.tools.pay: { token: { into: ref } }\n", "tool pay of mcp.tools.pay"},
		{"a tool said to write", "k", `mcp: { server: tools, tool: pay }`, "  mcp.tools.pay: { effect: once }\n", "tool pay of mcp.tools.pay"},
		{"put", "k", `http: { put: /v1/charges }`, "", "does not put"},
		{"the same statement", "k", `sql: { database: books, query: "INSERT INTO t (a) VALUES (?)", args: ["${token}"] }`, "", "a read cannot begin with INSERT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("policy.yaml", []byte(readingAndWriting(c.kind, c.read+"\n      read_only: true", c.more)))
			need.That(t, err != nil && strings.Contains(err.Error(), c.want) && strings.Contains(err.Error(), c.kind+".read"), "%v\nwant %s", err, c.want)
		})
	}
}

func TestReadsThatNeedNoWord(t *testing.T) {
	for name, c := range map[string]struct{ read, more string }{
		"get":                    {`http: { get: /v1/charges }`, "    match: POST /api/v1/charges\n"},
		"another action by get":  {`http: { get: "/?Action=List" }`, ""},
		"get that is a read":     {`http: { get: /v1/find }`, "  find: { match: GET /api/v1/find, effect: read }\n"},
		"another downstream's":   {`http: { get: /v1/find }`, "  other: { downstream: elsewhere, match: GET /pay }\n"},
		"another tool":           {`mcp: { server: tools, tool: find }`, "  mcp.tools.find: { effect: read }\n  mcp.tools.*: { effect: once }\n"},
		"a tool of many actions": {`mcp: { server: tools, tool: charge, arguments: { action: find } }`, ""},
		"another server's tool":  {`mcp: { server: tools, tool: pay }`, "  mcp.bank.refund: { effect: once }\n"},
		"a command's dry run":    {`command: [tool, pay, "${input.n}", --dry-run]`, ""},
	} {
		_, err := Parse("policy.yaml", []byte(readingAndWriting("k", c.read, c.more)))
		need.That(t, err == nil, "%s: %v", name, err)
	}
}

// What the file does not tell, a rendered command does; it is refused before anything runs.
func TestI5_NoCheckIsTheRecordedCommand(t *testing.T) {
	for name, c := range map[string]struct {
		read    string
		argv    []string
		refused bool
	}{
		"the recorded command": {`command: [tool, pay, "${input.n}", "${token}"]`, []string{"./tool", "pay", "5", "{{token}}"}, true},
		"another command":      {`command: [tool, find, "${input.n}"]`, []string{"tool", "pay", "5"}, false},
		"a longer one":         {`command: [tool, pay, "${input.n}", --dry-run]`, []string{"tool", "pay", "5"}, false},
	} {
		rec := operation("k", `{"n":5}`)
		rec.Operation.Command = &ledger.Command{Argv: c.argv}
		_, err := must(t, readingAndWriting("k", c.read, "")).Kind("k").Read.Request(rec, nil)
		need.That(t, (err != nil) == c.refused && (!c.refused || errors.Is(err, errWouldWrite)), "%s: %v", name, err)
	}
}
