package policy

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/file"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		need.OK(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want := need.Get(os.ReadFile(path))(t)
	need.Equal(t, cmp.Diff(string(want), got), "", name)
}

// same compares what was wanted with what came.
func same(t testing.TB, want, got any) {
	t.Helper()
	need.Equal(t, cmp.Diff(want, got), "")
}

// says checks that an error says so, or that there is none where want is "".
func says(t testing.TB, err error, want string, of ...any) {
	t.Helper()
	need.That(t, (want != "" || err == nil) && (want == "" || err != nil && strings.Contains(err.Error(), want)), "%v: %v, want %q", of, err, want)
}

// must parses a policy that has to be right.
func must(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Parse("policy.yaml", []byte(text))
	need.Must(t, err == nil, "refused:\n%v", err)
	return p
}

// refused parses a policy that has to be refused.
func refused(t testing.TB, text string) file.Errors {
	t.Helper()
	_, err := Parse("policy.yaml", []byte(text))
	var list file.Errors
	need.Must(t, errors.As(err, &list) && len(list) != 0, "not refused with problems: %v", err)
	return list
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	names, err := filepath.Glob("testdata/*.yaml")
	need.Must(t, err == nil && len(names) != 0, "no test files %v", err)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			need.OK(t, err)
			_, err = Parse("policy.yaml", text)
			need.Must(t, err != nil, "not refused")
			golden(t, strings.TrimSuffix(filepath.Base(name), ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestRefused(t *testing.T) {
	kind := func(lines string) string {
		return "version: 1\ndownstreams: { d: { base: https://d.example } }\nkinds:\n  k:\n    downstream: d\n" + lines
	}
	cases := []struct {
		name, text string
		line, col  int
		message    string
		hint       string
	}{
		{"empty", "", 0, 0, "the file is empty", "version: 1"},
		{"only a comment", "# nothing\n", 0, 0, "the file is empty", ""},
		{"a list", "- a\n", 1, 1, "a policy is a mapping", ""},
		{"no version", "currency: EUR\n", 1, 1, "is missing", "version: 1"},
		{"another version", "version: 2\n", 1, 10, "reads version 1", ""},
		{"second document", "version: 1\n---\nversion: 1\n", 2, 1, "second document", ""},
		{"anchor", "version: 1\ndefaults: &a { deadline: 1m }\n", 2, 11, "anchors", ""},
		{"merge", "version: 1\nkinds:\n  a:\n    <<: { deadline: 1m }\n", 4, 5, "form of key", ""},
		{"twice", "version: 1\nversion: 1\n", 2, 1, "said twice; first in line 1", ""},
		{"tab", "version: 1\nkinds:\n\tk: 1\n", 3, 1, "not YAML", "spaces, not tabs"},
		{"tag", kind("    answer:\n      committed: !body.failed\n"), 7, 18, "is a YAML tag", `committed: "!body.failed"`},
		{"needs quotes: colon", kind("    answer:\n      committed: body.x == \"a: b\"\n"), 7, 18, "not YAML", `committed: 'body.x == "a: b"'`},
		{"needs quotes: begins quoted", kind("    answer:\n      committed: \"a\" == body.x\n"), 7, 22, "not YAML", `committed: '"a" == body.x'`},
		{"needs quotes: within braces", "version: 1\ndownstreams:\n  a:\n    mcp: { command: [x], env: { A: ${env.A} } }\n", 4, 37, "not YAML", `A: "${env.A}"`},
		{"needs quotes: list", kind("    answer:\n      committed: [json].size() > 0\n"), 7, 24, "not YAML", `committed: "[json].size() > 0"`},
		{"needs quotes: in a mapping", kind("    cost: { duplicate: \"a\" == input.x ? 1 : 2, miss: low }\n"), 6, 28, "not YAML", "put quotes around a value"},
		{"a bracket is open", kind("    cost: { duplicate: 3, miss: low\n"), 6, 11, "not YAML", "is closed"},
		{"template as expression", kind("    answer:\n      committed: ${status} == 200\n"), 7, 18, "an expression, not a template", "without ${ }"},
		{"wrong type", kind("    answer:\n      committed: size(body.x)\n"), 7, 18, "must give true or false, but gives a number", ""},
		{"text as truth", kind("    answer:\n      refused: string(body.x)\n"), 7, 16, "but gives text", "compare it"},
		{"column in an expression", kind("    answer:\n      refused: status == 1 && stats == 2\n"), 7, 31, "there is no `stats` here", "did you mean `status`?"},
		{"column in a quoted expression", kind("    answer:\n      refused: \"status == 1 && stats == 2\"\n"), 7, 32, "there is no `stats` here", ""},
		{"column in a template", kind("    title: for ${input.a} und ${imput.b}\n"), 6, 33, "there is no `imput` here", "did you mean `input`?"},
		{"open template", kind("    title: for ${input.a\n"), 6, 16, "`${` is not closed", ""},
		{"secret in a title", kind("    title: for ${env.KEY}\n"), 6, 18, "may stand only in what is sent", ""},
		{"it in list", kind("    read: { http: { get: /x }, list: it.x }\n"), 6, 38, "`it` may not stand here", "`mark` says where"},
		{"computed secret", kind("    read: { http: { post: /x, headers: { A: \"${env[input.name]}\" } }, list: body }\n"), 6, 48, "named in the policy itself", ""},
		{"computed file", kind("    read: { http: { post: /x, headers: { A: \"${file(input.path)}\" } }, list: body }\n"), 6, 48, "named in the policy itself", ""},
		{"all secrets", kind("    read: { http: { post: /x, json: \"${env}\" }, list: body }\n"), 6, 40, "named in the policy itself", ""},
		{"answer in a title", kind("    title: for ${body.x}\n"), 6, 18, "there is no `body` here", ""},
		{"list is no list", kind("    read: { http: { get: /x }, list: status == 200 }\n"), 6, 38, "must give a list of candidates", "? [body] : []"},
		{"number and text", kind("    answer:\n      refused: status == \"200\"\n"), 7, 23, "no matching overload", "never equals a text"},
		{"integer division", kind("    cost: { miss: input.a * (7 / 2) }\n"), 6, 32, "7 / 2 is 3", "7.0 / 2"},
		{"syntax", kind("    answer:\n      refused: status ==\n"), 7, 25, "ends too early", ""},
		{"more syntax", kind("    answer:\n      refused: status = 2\n"), 7, 23, "not an expression", ""},
		{"empty expression", kind("    answer:\n      refused: \"\"\n"), 7, 16, "the expression is empty", ""},
		{"token without token", kind("    read: { http: { get: /x }, list: body, mark: it.t }\n"), 6, 5, "looks for the `token`", "token: { into:"},
		{"read without list", kind("    read: { http: { get: /x } }\n"), 6, 11, "does not say what it finds", ""},
		{"read without request", kind("    read: { list: body }\n"), 6, 11, "says nothing to ask with", ""},
		{"two requests", kind("    read: { http: { get: /x }, command: [a], list: body }\n"), 6, 41, "exclude each other", ""},
		{"read that writes", kind("    read: { http: { put: /x }, list: body }\n"), 6, 11, "a read does not put", ""},
		{"cursor from nowhere", kind("    read: { http: { get: /x, query: { c: \"${cursor}\" } }, list: body }\n"), 6, 5, "does not say where it comes from", ""},
		{"redacted search", kind("    redact: [card]\n    read: { http: { get: \"/x/${input.card.number}\" }, list: body }\n"), 7, 26, "keeps only as a digest", ""},
		{"no server", kind("    read: { mcp: { server: m, tool: t, arguments: {} }, list: structured.x }\n"), 6, 18, "there is no downstream \"m\"", ""},
		{"not a database", kind("    read: { sql: { query: SELECT 1 }, list: rows }\n"), 6, 18, "is not reached over sql", ""},
		{"relative address", kind("    read: { http: { post: charges }, list: body }\n"), 6, 27, "must begin with / or with https://host/", ""},
		{"computed host", kind("    read: { http: { post: \"https://${input.host}/x\" }, list: body }\n"), 6, 27, "must begin with / or with https://host/ written out", "after the host"},
		{"protocol-relative", kind("    read: { http: { post: //evil.example/x }, list: body }\n"), 6, 27, "must begin with /", ""},
		{"user in host", kind("    read: { http: { post: https://a@b.example/x }, list: body }\n"), 6, 27, "must begin with /", ""},
		{"two methods", kind("    read: { http: { post: /a, put: /b }, list: body }\n"), 6, 36, "has one method", ""},
		{"body twice", kind("    read: { http: { post: /a, json: {}, form: {} }, list: body }\n"), 6, 19, "exclude each other", ""},
		{"get with body", kind("    read: { http: { get: /a, json: {} }, list: body }\n"), 6, 19, "a get has no body", ""},
		{"sender's header", kind("    read: { http: { post: /a, headers: { content-length: 3 } }, list: body }\n"), 6, 40, "written by the sender itself", ""},
		{"command as text", kind("    read: { command: tool find, list: json }\n"), 6, 22, "must be a list of arguments", "there is no shell"},
		{"computed command", kind("    read: { command: [\"${input.x}\"], list: json }\n"), 6, 23, "the command itself is written out", ""},
		{"computed link host", kind("    link: https://${input.x}/y\n"), 6, 11, "must begin with https://host/", ""},
		{"javascript link", kind("    link: javascript:alert(1)\n"), 6, 11, "must begin with https://host/", ""},
		{"path without base", "version: 1\nkinds:\n  k:\n    read: { http: { post: /a }, list: body }\n", 4, 27, "a path needs a downstream", ""},
		{"unknown downstream", "version: 1\ndownstreams: { stripe: { base: https://s.example } }\nkinds: { k: { downstream: strype } }\n", 3, 27, `no downstream "strype"`, "`stripe`"},
		{"unknown word", kind("    cost: { miss: hihg }\n"), 6, 19, `"hihg" is not a word`, "`high`"},
		{"negative cost", kind("    cost: { miss: -1 }\n"), 6, 19, "zero or more", ""},
		{"cost is not a number", kind("    cost: { miss: input.a > 3 }\n"), 6, 19, "must give a number", ""},
		{"unknown field", kind("    escalate_afer: 3m\n"), 6, 5, "unknown field", "`escalate_after`"},
		{"bad duration", kind("    deadline: 2 minutes\n"), 6, 15, "is not a duration", "2m"},
		{"negative duration", kind("    deadline: -2m\n"), 6, 15, "is not a duration", ""},
		{"bare number", kind("    deadline: 30\n"), 6, 15, "is not a duration", ""},
		{"endless", kind("    deadline: 36500d\n"), 6, 15, "longer than ten years", ""},
		{"deadline too long", kind("    deadline: 31d\n"), 6, 15, "from 10ms to 30d", ""},
		{"backwards", kind("    retry: { backoff: 30s..1s }\n"), 6, 23, "ends before it begins", ""},
		{"rate", "version: 1\ndownstreams: { d: { rate: 20 } }\n", 2, 27, "is not a rate", "20/s"},
		{"effect", kind("    effect: twice\n"), 6, 13, "must be read, once, safe or replaces", ""},
		{"choice", kind("    repeat: alow\n"), 6, 13, "must be hold, allow or replay", "`allow`"},
		{"ttl shorter than memory", "version: 1\ndownstreams: { d: { base: https://d.example, key: { header: K, remembers: 24h } } }\nkinds: { k: { downstream: d, key: { from: [a], ttl: 1h }, lands_within: 0s } }\n", 3, 30, "shorter than the downstream remembers", ""},
		{"effect in defaults", "version: 1\ndefaults: { effect: replaces }\n", 2, 21, "only a kind can be safe to repeat", ""},
		{"replaces nothing", kind("    effect: replaces\n"), 6, 5, "without `target`", "target: "},
		{"replaces beside a memory", "version: 1\ndownstreams: { d: { base: https://d.example, key: { header: K, remembers: 24h } } }\nkinds: { k: { downstream: d, target: x, effect: replaces, lands_within: 0s } }\n", 3, 41, "answer a rollback with the old result", ""},
		{"proof in defaults", "version: 1\ndefaults: { lands_within: 1m }\n", 2, 27, "does not belong into `defaults`", "never inherited"},
		{"read in defaults", "version: 1\ndefaults: { read: { list: body } }\n", 2, 19, "does not belong into `defaults`", ""},
		{"kind is text", "version: 1\nkinds: { k: high }\n", 2, 13, "must be a mapping", ""},
		{"kind's name", "version: 1\nkinds: { \"a b\": { deadline: 1m } }\n", 2, 10, "not the name of a kind", ""},
		{"word that is a name", "version: 1\nwords: { input: 3 }\n", 2, 10, "cannot be a word", ""},
		{"token twice", kind("    token: { into: a, append: b }\n"), 6, 12, "exclude each other", ""},
		{"token path", kind("    token: { into: \"a[.b\" }\n"), 6, 20, "not a path into the input", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			list := refused(t, c.text)
			for _, p := range list {
				if p.Line == c.line && (c.col == 0 || p.Column == c.col) && strings.Contains(p.Message, c.message) && strings.Contains(p.Hint, c.hint) {
					need.That(t, c.line <= 0 || p.Excerpt != "", "no excerpt")
					return
				}
			}
			t.Errorf("want %d:%d %q (hint %q), got:\n%v", c.line, c.col, c.message, c.hint, list)
		})
	}
}

func TestFileIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"size":     "version: 1\n#" + strings.Repeat("x", file.MaxFile),
		"brackets": "version: 1\nkinds: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"maps":     "version: 1\nkinds: " + strings.Repeat("{a: ", 50) + strings.Repeat("}", 50),
		"dashes":   "version: 1\nkinds:\n" + strings.Repeat("- ", 1000) + "x\n",
		"indent":   "version: 1\nkinds:\n" + deepIndent(60),
		"binary":   "version: 1\n\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, text)
		})
	}
}

func deepIndent(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

func TestHostileTextInProblemsIsVisible(t *testing.T) {
	list := refused(t, "version: 1\nkinds:\n  \"a\\u202Eb\": { deadline: 1m }\n# \x1b]0;x\n")
	for _, p := range list {
		if strings.ContainsAny(p.Error(), "\x1b\u202e") {
			t.Errorf("raw control characters in %q", p.Error())
		}
	}
}

func TestKindsInheritAndMatch(t *testing.T) {
	p := must(t, `
version: 1
words: { high: 500 }
defaults:
  deadline: 3m
  cost: { miss: 7 }
  retry: { max: 2, backoff: 1s..9s }
  redact: [password]
kinds:
  stripe.*:
    escalate_after: 1m
  stripe.charge.*:
    escalate_after: 2m
  stripe.charge.eu:
    escalate_after: 3m
    cost: { duplicate: high }
    retry: { max: 5 }
    redact: [card]
  "*":
    escalate_after: 4m
`)
	for name, want := range map[string]struct {
		pattern string
		after   time.Duration
	}{
		"stripe.refund": {"stripe.*", time.Minute}, "stripe.charge.us": {"stripe.charge.*", 2 * time.Minute}, "stripe.charge.eu": {"stripe.charge.eu", 3 * time.Minute}, "mail": {"*", 4 * time.Minute},
	} {
		k := p.Kind(name)
		if k.Pattern != want.pattern || k.EscalateAfter != want.after || k.Name != name || !k.Known || k.Deadline != 3*time.Minute {
			t.Errorf("%s: pattern %q after %v known %v deadline %v", name, k.Pattern, k.EscalateAfter, k.Known, k.Deadline)
		}
	}
	k := p.Kind("stripe.charge.eu")
	duplicate, miss := k.Costs(ledger.Operation{})
	need.That(t, duplicate == (ledger.Cost{Value: 500, Word: "high"}) && miss == (ledger.Cost{Value: 7, Guess: true}), "costs %+v %+v", duplicate, miss)
	need.Equal(t, k.Retry, (RetryRule{5, time.Second, 9 * time.Second}), "retry")
	need.Equal(t, cmp.Diff([]string{"password", "card"}, k.Redact), "", "a kind must not un-redact what the defaults hide")
	same(t, []string{"password"}, p.Kind("mail").Redact)
}

func TestUnknownKindFallsBack(t *testing.T) {
	for name, p := range map[string]*Policy{
		"no file": Default(), "not listed": must(t, "version: 1\ndefaults: { cost: { miss: 3, duplicate: 4 } }\n"),
	} {
		k := p.Kind("x.y")
		duplicate, miss := k.Costs(ledger.Operation{})
		need.That(t, !k.Known && k.Pattern == "" && k.Name == "x.y" && duplicate.Guess && miss.Guess, "%s: %+v %+v %+v", name, k.Known, duplicate, miss)
		need.That(t, k.LandsWithin == nil && k.VisibleWithin == nil && k.Retry.Max == 0, "%s: a default proves or sends", name)
	}
	need.That(t, Default().Empty() && Default().Digest() != "" && !must(t, "version: 1").Empty(), "empty")
}

func TestDigestIsOfTheText(t *testing.T) {
	one := must(t, "version: 1\n")
	need.That(t, one.Digest() == must(t, "version: 1\n").Digest() && one.Digest() != must(t, "version: 1 # a comment\n").Digest() && len(one.Digest()) == 64, "%s", one.Digest())
}

func TestScalars(t *testing.T) {
	for text, want := range map[string]time.Duration{"2m": 2 * time.Minute, "7d": 168 * time.Hour, "1h30m": 90 * time.Minute, "500ms": 500 * time.Millisecond, "0s": 0, "0": 0, "1.5s": 1500 * time.Millisecond} {
		got, err := file.ParseDuration(text)
		need.That(t, err == nil && got == want, "%s: %v %v", text, got, err)
	}
	for text, want := range map[string]float64{"20/s": 20, "600/m": 10, "600/min": 10, "3600/h": 1} {
		got, err := file.ParseRate(text)
		need.That(t, err == nil && got == want, "%s: %v %v", text, got, err)
	}
	for text, want := range map[string]int64{"64KiB": 65536, "4MB": 4000000, "100": 100} {
		got, err := file.ParseSize(text)
		need.That(t, err == nil && got == want, "%s: %v %v", text, got, err)
	}
	for _, text := range []string{"", "x", "1y", "1m2", "-1s", "1e9s", "٣s"} {
		_, err := file.ParseDuration(text)
		need.That(t, err != nil, "%q is a duration", text)
	}
}

func TestWarnings(t *testing.T) {
	p := must(t, `
version: 1
downstreams:
  d: { base: https://d.example, key: { header: K, remembers: 1h } }
kinds:
  a:
    downstream: d
    token: { into: t }
    read: { http: { get: /x }, list: body.list, mark: it.t, next: body.next }
  a2:
    downstream: d
    lands_within: 0s
    token: { into: t }
    read: { http: { get: /x }, list: body.list }
  b:
    effect: safe
  e:
    downstream: d
    lands_within: 2h
`)
	var got strings.Builder
	for _, w := range p.Warnings() {
		got.WriteString(w.Error() + "\n")
	}
	golden(t, "warnings.txt", got.String())
}

func TestExplain(t *testing.T) {
	p := need.Get(Parse("policy.yaml", Example()))(t)
	text := ""
	for _, kind := range []string{"stripe.charge", "stripe.refund", "deploy", "unheard.of"} {
		text += p.Explain(kind) + "\n"
	}
	golden(t, "explain.txt", text)
}

func TestDesignExampleLoads(t *testing.T) {
	// The page's own example, without the connector this version lacks.
	p := must(t, `
version: 1
currency: USD
words: { none: 0, low: 1, medium: 10, high: 100, severe: 1000 }

defaults:
  cost: { duplicate: high, miss: medium }
  deadline: 2m
  retry: { max: 0 }        # after doubt
  escalate_after: 15m

downstreams:
  stripe:
    base: https://api.stripe.com
    headers: { Authorization: "Bearer ${env.STRIPE_KEY}" }
    rate: 20/s
    key: { header: Idempotency-Key, remembers: 24h }

kinds:
  stripe.charge:
    downstream: stripe
    title: charge ${input.customer} ${input.amount / 100} ${input.currency}
    target: invoice ${input.invoice}
    cost: { duplicate: input.amount / 100 * 2, miss: input.amount / 100 }
    key: { from: [customer, amount, invoice], ttl: 7d }   # or random | content | session | row
    token: { into: metadata.indoubt }
    lands_within: 2m
    visible_within: 0s
    read:
      http: { get: /v1/payment_intents, query: { customer: "${input.customer}", limit: 100 } }
      valid: status == 200 && body.object == "list"
      list: body.data                            # the candidates; sees only the answer
      mark: it.metadata.indoubt                  # where a candidate shows its token
      complete: "!body.has_more"
      next: body.data[size(body.data) - 1].id
      stable: true
      same: it.amount == input.amount
      created: it.created
      final: it.status in ["succeeded", "requires_capture"]
      receipt: it.id
      reply: it
    resend: here
    answer:
      already: status < 300 && header("Idempotent-Replayed") == "true"
    retry: { max: 3, backoff: 500ms..30s }
    link: https://dashboard.stripe.com/payments/${receipt}

  deploy:
    target: ${input.service}
    effect: safe
    resend: here
    read:
      command: [tool, deploy, --version, "${input.version}", --dry-run]
      state: json.effect == "noop"
`)
	op := ledger.Operation{Kind: "stripe.charge", Input: []byte(`{"customer":"cus_9","amount":42000,"currency":"usd","invoice":"INV-1"}`)}
	k := p.Kind("stripe.charge")
	need.Equal(t, k.Title(op), "charge cus_9 420 usd")
	need.Equal(t, k.Target(op), "invoice INV-1")
	duplicate, miss := k.Costs(op)
	need.That(t, duplicate.Value == 840 && miss.Value == 420 && !miss.Guess, "%v %v", duplicate, miss)
	need.That(t, k.Remembers == 24*time.Hour && k.KeyHeader == "Idempotency-Key" && len(k.Key.From) == 3, "%+v", k)
}
