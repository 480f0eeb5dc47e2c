package policy

import (
	"strings"
	"testing"
)

const sends = `version: 1
downstreams:
  d: { base: "https://d.example", headers: { X: "1" }, key: { header: K, remembers: 24h } }
  m: { mcp: { url: "https://m.example/mcp", headers: { X: "1" } } }
  c: { mcp: { command: [server, --root, /a], env: { A: "1" } } }
  s: { sql: { sqlite: a.db } }
kinds:
  http: { downstream: d, send: { http: { post: "/pay/${input.a}", query: { q: "1" }, headers: { H: "1" }, json: { n: "${input.a}" } } } }
  secret: { downstream: d, send: { http: { post: /pay, headers: { H: "${env.DIGEST_A}" }, json: { n: "${env.DIGEST_A}" } } } }
  command: { send: { command: { argv: [pay, "${input.a}"], dir: /a, env: { A: "1" }, stdin: { n: 1 } } } }
  url: { send: { mcp: { server: m, tool: pay, arguments: { n: 1 } } } }
  stdio: { send: { mcp: { server: c, tool: pay, arguments: { n: 1 } } } }
  sql: { send: { sql: { database: s, query: "INSERT INTO t VALUES (?)", args: ["${input.a}"] } } }
`

// What a person agreed to is told from everything else that could be sent, and
// never by the value of a secret.
func TestADigestTellsRequestsApart(t *testing.T) {
	t.Setenv("DIGEST_A", "one")
	digest := func(text, kind string) string {
		t.Helper()
		req, err := must(t, text).Kind(kind).Send.Request(doubt(kind))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if len(req.Digest) != 64 {
			t.Fatalf("%s: digest %q", kind, req.Digest)
		}
		return req.Digest
	}
	for _, c := range [][3]string{
		{"http", "https://d.example", "https://e.example"}, {"http", `{ X: "1" }, key`, `{ X: "2" }, key`}, {"http", "header: K,", "header: L,"},
		{"http", "post: \"/pay/", "post: \"/charge/"}, {"http", "post: \"/pay/", "put: \"/pay/"}, {"http", `q: "1"`, `q: "2"`}, {"http", `H: "1"`, `H: "2"`},
		{"http", `n: "${input.a}" } } } }`, `n: "${input.a + 1}" } } } }`}, {"http", `json: { n: "${input.a}" }`, `form: { n: "${input.a}" }`},
		{"secret", "${env.DIGEST_A}\" }, json", "${env.DIGEST_B}\" }, json"},
		{"command", "argv: [pay, ", "argv: [charge, "}, {"command", "dir: /a", "dir: /b"}, {"command", `env: { A: "1" }, stdin`, `env: { A: "2" }, stdin`}, {"command", "stdin: { n: 1 }", "stdin: { n: 2 }"},
		{"url", "https://m.example/mcp", "https://m.example/other"}, {"url", `{ X: "1" } } }`, `{ X: "2" } } }`}, {"url", "tool: pay, arguments: { n: 1 } } } }\n  stdio", "tool: charge, arguments: { n: 1 } } } }\n  stdio"},
		{"stdio", "--root, /a", "--root, /b"}, {"stdio", `env: { A: "1" } } }`, `env: { A: "2" } } }`}, {"stdio", "tool: pay, arguments: { n: 1 } } } }\n  sql", "tool: pay, arguments: { n: 2 } } } }\n  sql"},
		{"sql", "a.db", "b.db"}, {"sql", "INTO t", "INTO u"}, {"sql", `["${input.a}"]`, `["${input.a + 1}"]`},
	} {
		kind, was, is := c[0], c[1], c[2]
		if strings.Count(sends, was) != 1 {
			t.Fatalf("%q is %d times in the policy", was, strings.Count(sends, was))
		}
		t.Setenv("DIGEST_B", "one")
		if digest(sends, kind) == digest(strings.Replace(sends, was, is, 1), kind) {
			t.Errorf("%s: %s and %s have the same digest", kind, was, is)
		}
	}
	before := map[string]string{}
	for _, kind := range []string{"http", "secret", "command", "url", "stdio", "sql"} {
		before[kind] = digest(sends, kind)
	}
	t.Setenv("DIGEST_A", "two")
	for kind, was := range before {
		if digest(sends, kind) != was {
			t.Errorf("%s: the same has another digest", kind)
		}
	}
}

// What a command reads and where it runs is part of what is shown.
func TestACommandIsShownWhole(t *testing.T) {
	req, err := must(t, sends).Kind("command").Send.Request(doubt("command"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "A=1 pay 1\nin /a\nstdin: {\"n\":1}"; req.Shown != want {
		t.Errorf("%q, want %q", req.Shown, want)
	}
}
