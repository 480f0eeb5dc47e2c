package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What was an address or a name when it was recorded may be an option by now.
func TestI11_RecordedArgumentBecomesNoOption(t *testing.T) {
	p := must(t, "version: 1\nkinds: { k: { send: { command: recorded } } }")
	t.Setenv("PLACE", "--exec=rm")
	rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Command: &ledger.Command{Argv: []string{"fetch", "-v", "${PLACE}"}, Expand: []string{"PLACE"}}}}
	req, err := p.Kind("k").Send.Request(rec)
	need.That(t, err != nil && strings.Contains(err.Error(), "option"), "%+v %v", req.Command, err)
	t.Setenv("PLACE", "https://example.com")
	_, err = p.Kind("k").Send.Request(rec)
	need.That(t, err == nil, "%v", err)
}

func TestCheckSaysThatTheKeyIsNotSent(t *testing.T) {
	const text = `
version: 1
downstreams: { pay: { base: "https://pay.example", key: { remembers: 1h } } }
kinds:
  k:
    downstream: pay
    lands_within: 1s
    send: { http: { post: /charges, json: { amount: 1 } } }
`
	for want, text := range map[bool]string{true: text, false: strings.Replace(text, "amount: 1", `once: "${key}"`, 1)} {
		p := must(t, text)
		said := false
		for _, w := range p.Warnings() {
			said = said || strings.Contains(w.Message, "does not carry")
		}
		if said != want {
			t.Errorf("said: %t, want %t: %v", said, want, p.Warnings())
		}
	}
}

// A token counts as sent only where the other side can read it whole: in what was
// rendered, without the encoding it travels in. What a command finds in its
// environment or on its standard input without the policy's asking is no evidence.
func TestI6_TokenCountsAsSentWhereItIsSeen(t *testing.T) {
	const head = "version: 1\ndownstreams: { d: { base: https://h.example } }\nkinds:\n  k:\n    downstream: d\n    send: "
	for _, c := range []struct {
		name, send, token string
		argv              []string
		want              bool
	}{
		{name: "a JSON body", send: `{ http: { post: /x, json: { note: "${input.text}\n${token}" } } }`, want: true},
		{name: "a form", send: `{ http: { post: /x, form: { note: "${'a b ' + token}" } } }`, want: true},
		{name: "a query", send: `{ http: { post: /x, query: { ref: "${token}" } } }`, want: true},
		{name: "a header", send: `{ http: { post: /x, headers: { X-Ref: "${token}" } } }`, want: true},
		{name: "a segment of the path", send: `{ http: { put: "/x/${token}" } }`, want: true},
		{name: "a part of a longer name", send: `{ http: { put: "/x/r_${token}" } }`},
		{name: "nothing of the request", send: `{ http: { post: /x, json: { note: hello } } }`},
		{name: "a token that the input happens to hold inside a word", send: `{ http: { post: /x, json: { note: "${input.text}" } } }`, token: "ell"},
		{name: "an argument", send: `{ command: [tool, "--ref=${token}"] }`, want: true},
		{name: "the program's own name", send: `{ command: recorded }`, argv: []string{"{{token}}"}},
		{name: "a declared variable", send: `{ command: { argv: [tool], env: { REF: "${token}" } } }`, want: true},
		{name: "a declared input", send: `{ command: { argv: [tool], stdin: { ref: "${token}" } } }`, want: true},
		{name: "the input that every command gets", send: `{ command: [tool] }`},
		{name: "a recorded argument", send: `{ command: recorded }`, argv: []string{"tool", "ref={{token}}"}, want: true},
		{name: "a recorded command without it", send: `{ command: recorded }`, argv: []string{"tool"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := must(t, head+c.send)
			o := ledger.Operation{Kind: "k", Key: "key-1", Token: c.token, Input: []byte(`{"text":"hello"}`)}
			if o.Token == "" {
				o.Token = ledger.NewToken()
			}
			if c.argv != nil {
				o.Command = &ledger.Command{Argv: c.argv}
			}
			send := p.Kind("k").Send
			req := need.Get(send.Request(ledger.Record{Operation: o}))(t)
			_, token := send.Carries(o, req)
			need.That(t, token == c.want, "token sent: %t, want %t: %s", token, c.want, req.Shown)
		})
	}
}

const attempting = `
version: 1
kinds:
  k:
    title: "try ${attempt.n} of ${op.attempts}"
    token: { into: ref }
    lands_within: 1s
    visible_within: 0s
    read: { http: { get: "https://h.example/x/${attempt.n}" }, list: body.data, mark: it.ref, complete: "true" }
    send:
      command: [tool, "${attempt.n}"]
      refused: attempt.n == 1.0 && exit == 3
      already: attempt.n > 1 && attempt.outcome == "" && attempt.class == "" && attempt.ended_at == null && exit == 4
  when:
    send: { command: [tool, "${attempt.started_at}"] }
`

// TestAttemptIsTheNewest: and in what is sent the one that is about to be made.
func TestAttemptIsTheNewest(t *testing.T) {
	p := must(t, attempting)
	k := p.Kind("k")
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rec := operation("k", `{}`)
	doubt := ledger.Attempt{ID: "a1", N: 1, StartedAt: at, DeadlineAt: at.Add(time.Minute), EndedAt: at.Add(time.Second), Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, TokenSent: true}
	sends := func(want string) {
		t.Helper()
		req, err := k.Send.Request(rec)
		need.That(t, err == nil && req.Command.Argv[1] == want && strings.HasPrefix(req.Shown, "tool "+want+"\n"), "%+v %v, want %s", req.Command, err, want)
	}
	sends("1")
	rec.Operation.AttemptCount = 2 // a row of a list, without its attempts
	need.Equal(t, k.Title(rec.Operation), "try 2 of 2")
	rec.Operation.AttemptCount, rec.Attempts = 1, []ledger.Attempt{doubt}
	sends("2")
	if v := attemptValue(rec); v["n"] != 1.0 || v["id"] != "a1" || v["started_at"] != at || v["deadline_at"] != at.Add(time.Minute) || v["ended_at"] != at.Add(time.Second) ||
		v["outcome"] != "uncertain" || v["class"] != "timeout" {
		t.Errorf("%v", v)
	}
	if req, err := k.Read.Request(rec, nil); err != nil || req.HTTP.URL != "https://h.example/x/1" {
		t.Error(req.HTTP, err)
	}
	exit := func(n int) ledger.Answer { return ledger.Answer{Via: "command", Exited: true, Exit: n} }
	if r, err := k.JudgeAnswer(t.Context(), rec, exit(3)); err != nil || r.Outcome != ledger.OutcomeFailed {
		t.Error(r, err)
	}
	rec.Attempts = append(rec.Attempts, ledger.Attempt{ID: "a2", N: 2, StartedAt: at.Add(time.Hour)})
	if r, err := k.JudgeAnswer(t.Context(), rec, exit(3)); err != nil || r.Decided {
		t.Error(r, err)
	}
	if r, err := k.JudgeAnswer(t.Context(), rec, exit(4)); err != nil || !r.Already {
		t.Error(r, err)
	}
	_, err := p.Kind("when").Send.Request(rec)
	need.That(t, err != nil, "a send knows when it is made")
}

// TestI6_ALookFromTheNewestAttemptProvesNothingOfEarlierOnes: and the check of the
// policy says so.
func TestI6_ALookFromTheNewestAttemptProvesNothingOfEarlierOnes(t *testing.T) {
	p := must(t, attempting)
	said := false
	for _, w := range p.Warnings() {
		said = said || strings.Contains(w.Message, "`attempt`")
	}
	need.That(t, said, "no warning")
	need.That(t, p.Kind("k").Read.newestOnly(), "it does not look from the newest attempt on")
}

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
		need.OK(t, err, kind)
		need.Must(t, len(req.Digest) == 64, "%s: digest %q", kind, req.Digest)
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
		need.Must(t, strings.Count(sends, was) == 1, "%q is %d times in the policy", was, strings.Count(sends, was))
		t.Setenv("DIGEST_B", "one")
		need.That(t, digest(sends, kind) != digest(strings.Replace(sends, was, is, 1), kind), "%s: %s and %s have the same digest", kind, was, is)
	}
	before := map[string]string{}
	for _, kind := range []string{"http", "secret", "command", "url", "stdio", "sql"} {
		before[kind] = digest(sends, kind)
	}
	t.Setenv("DIGEST_A", "two")
	for kind, was := range before {
		need.Equal(t, digest(sends, kind), was, kind, "the same has another digest")
	}
}

// What a command reads and where it runs is part of what is shown.
func TestACommandIsShownWhole(t *testing.T) {
	req := need.Get(must(t, sends).Kind("command").Send.Request(doubt("command")))(t)
	want := "A=1 pay 1\nin /a\nstdin: {\"n\":1}"
	need.That(t, req.Shown == want, "%q, want %q", req.Shown, want)
}

func TestRedirectsAreWrittenOut(t *testing.T) {
	text := `
version: 1
downstreams: { files: { base: "https://files.example", redirects: [%s] } }
kinds: { k: { downstream: files, read: { http: { get: "/${input.id}" }, list: "[body]" } } }
`
	p := must(t, fmt.Sprintf(text, `cdn.example, "eu.example:8443"`))
	req, err := p.Kind("k").Read.Request(ledger.Record{Operation: ledger.Operation{Kind: "k", Input: []byte(`{"id":"a"}`)}}, nil)
	need.That(t, err == nil && slices.Equal(req.HTTP.Redirects, []string{"cdn.example", "eu.example:8443"}), "%v %v", req, err)
	for _, bad := range []string{`"*.example"`, `"https://cdn.example"`, `"cdn.example/x"`, `""`, `"${env.HOST}"`, `".example"`, `"cdn.example:0"`} {
		_, err := Parse("p.yaml", []byte(fmt.Sprintf(text, bad)))
		need.That(t, err != nil && strings.Contains(err.Error(), "redirects"), "%s: %v", bad, err)
	}
}
