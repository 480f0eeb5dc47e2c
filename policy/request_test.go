package policy

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

const stripe = `
version: 1
downstreams:
  stripe:
    base: "${env.TEST_BASE}/root/"
    headers: { Authorization: "Bearer ${env.TEST_KEY}", X-Team: billing }
    key: { header: idempotency-key, remembers: 24h }
kinds:
  charge:
    downstream: stripe
    token: { into: metadata.indoubt }
    lands_within: 2m
    visible_within: 0s
    read:
      http: { get: /v1/charges, query: { customer: "${input.customer}", limit: 100, after: "${cursor}", expand: [a, b] } }
      list: body.data
      mark: it.metadata.indoubt
      next: body.next
  search:
    downstream: stripe
    read: { http: { post: "/v1/${input.customer}/search", form: "${input}", headers: { x-team: "${input.team}" } }, read_only: true, list: body.data }
  data:
    downstream: stripe
    token: { into: t }
    read: { http: { post: /v1, json: { data: "${input}", note: "t ${token}", n: 3, yes: true, none: null } }, read_only: true, list: body.data }
  command:
    token: { into: t }
    read:
      command:
        argv: [tool, --to, "${input.to}", "--note=${input.note}", --, "${input.rest}"]
        dir: /srv
        env: { TOKEN: "${env.TEST_KEY}", FILE: "${file('` + "FILE" + `')}" }
      list: json
  again:
    resend: here
`

func stripePolicy(t *testing.T) *Policy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	need.OK(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	t.Setenv("TEST_BASE", "https://api.example")
	t.Setenv("TEST_KEY", "sk_live_1")
	return must(t, strings.ReplaceAll(stripe, "FILE')", file+"')"))
}

func operation(kind, input string) ledger.Record {
	return ledger.Record{Found: true, Operation: ledger.Operation{ID: "01", Kind: kind, Key: "k-1", Token: "indoubt-7E3A", Input: []byte(input)}}
}

func TestReadRequest(t *testing.T) {
	k := stripePolicy(t).Kind("charge")
	rec := operation("charge", `{"customer":"cus 9&x=1"}`)
	got := need.Get(k.Read.Request(rec, nil))(t)
	if want := "https://api.example/root/v1/charges?customer=cus+9%26x%3D1&expand=a&expand=b&limit=100"; got.HTTP.URL != want {
		t.Errorf("%s\nwant %s", got.HTTP.URL, want)
	}
	want := "GET ${env.TEST_BASE}/root/v1/charges?customer=cus+9%26x%3D1&expand=a&expand=b&limit=100\nAuthorization: Bearer ${env.TEST_KEY}\nX-Team: billing"
	same(t, want, got.Shown)
	need.That(t, got.HTTP.Header["Authorization"][0] == "Bearer sk_live_1" && got.HTTP.Header["Idempotency-Key"] == nil, "%v", got.HTTP.Header)
	next, err := k.Read.Request(rec, "ch_100")
	need.That(t, err == nil && strings.Contains(next.HTTP.URL, "after=ch_100"), "%v %v", next.HTTP, err)
	need.That(t, k.Read.Proves() && k.Read.Pages() && k.Read.Via() == "http", "what the read is")
}

func TestFormsAreWrittenAsTheyAreRead(t *testing.T) {
	k := stripePolicy(t).Kind("search")
	got := need.Get(k.Read.Request(operation("search", `{"customer":"cus_9","amount":42000,"team":"x","metadata":{"order":9007199254740993},"items":[{"price":"p1"}]}`), nil))(t)
	h := got.HTTP
	need.That(t, h.Method == "POST" && h.URL == "https://api.example/root/v1/cus_9/search", "%v %v", h.Method, h.URL)
	same(t, http.Header{"Authorization": {"Bearer sk_live_1"}, "X-Team": {"x"}, "Content-Type": {"application/x-www-form-urlencoded"}}, h.Header)
	form := need.Get(url.ParseQuery(string(h.Body)))(t)
	same(t, url.Values{"customer": {"cus_9"}, "amount": {"42000"}, "team": {"x"}, "metadata[order]": {"9007199254740993"}, "items[0][price]": {"p1"}}, form)
	need.That(t, !strings.Contains(got.Shown, "sk_live_1") && strings.Contains(got.Shown, "metadata%5Border%5D=9007199254740993"), "%v", got.Shown)
}

func TestJSONKeepsItsNumbers(t *testing.T) {
	k := stripePolicy(t).Kind("data")
	got := need.Get(k.Read.Request(operation("data", `{"list":[{"tags":["a"],"id":123456789012345678901234567890,"price":1.10}]}`), nil))(t)
	want := `{"data":{"list":[{"id":123456789012345678901234567890,"price":1.1,"tags":["a"]}]},"n":3,"none":null,"note":"t indoubt-7E3A","yes":true}`
	need.That(t, string(got.HTTP.Body) == want, "%s\n%s", got.HTTP.Body, want)
}

func TestTokenNeedsItsPlace(t *testing.T) {
	for _, c := range []struct {
		rule        TokenRule
		input, want string
		err         string
	}{
		{TokenRule{Into: "m.t"}, `{}`, `{"m":{"t":"T"}}`, ""},
		{TokenRule{Into: "m.t"}, `{"m":null,"n":9007199254740993}`, `{"m":{"t":"T"},"n":9007199254740993}`, ""},
		{TokenRule{Into: "m.t"}, `{"m":{"t":"T"}}`, `{"m":{"t":"T"}}`, ""},
		{TokenRule{Into: "m.t"}, `{"m":{"t":"other"}}`, "", "no place"},
		{TokenRule{Into: "m.t"}, `{"m":"text"}`, "", "no place"},
		{TokenRule{Into: "l[1].t"}, `{"l":[{}]}`, "", "no place"},
		{TokenRule{Into: "l[0]"}, `{}`, "", "no place"},
		{TokenRule{Append: "l"}, `{}`, `{"l":["T"]}`, ""},
		{TokenRule{Append: "l"}, `{"l":["a","T"]}`, `{"l":["a","T"]}`, ""},
		{TokenRule{Append: "l"}, `{"l":7}`, "", "no place"},
		{TokenRule{Append: "l"}, `{"l":"a"}`, `{"l":"a T"}`, ""},
		{TokenRule{Append: "l"}, `{"l":"a T"}`, `{"l":"a T"}`, ""},
		{TokenRule{Append: "l"}, `{"l":"a\nb"}`, `{"l":"a\nb\n\nT"}`, ""},
		{TokenRule{Append: "l"}, `{"l":""}`, `{"l":"T"}`, ""},
		{TokenRule{Append: "e[0].o"}, `{"e":[{"o":["a"]}]}`, `{"e":[{"o":["a","T"]}]}`, ""},
		{TokenRule{Into: "x"}, `[1]`, "", "no place"},
		{TokenRule{}, `[1]`, `[1]`, ""},
	} {
		got, err := c.rule.Insert([]byte(c.input), "T")
		if c.err == "" && (err != nil || string(got) != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v on %s = %s, %v", c.rule, c.input, got, err)
		}
	}
}

func TestMissingSecretIsSaidByName(t *testing.T) {
	p := stripePolicy(t)
	os.Unsetenv("TEST_KEY")
	_, err := p.Kind("search").Read.Request(operation("search", `{"customer":"c","team":"x"}`), nil)
	var missing *transport.MissingError
	need.That(t, errors.As(err, &missing) && missing.Name == "TEST_KEY" && strings.Contains(err.Error(), "environment variable TEST_KEY is not set"), "%v", err)
	q := must(t, "version: 1\nkinds: { k: { read: { list: body, http: { get: https://h.example/x, headers: { A: \"${file('/nonexistent/x')}\" } } } } }\n")
	if _, err := q.Kind("k").Read.Request(operation("k", `{}`), nil); !errors.As(err, &missing) || missing.What == "variable" {
		t.Errorf("%v", err)
	}
}

func TestErrorsDoNotQuoteSecrets(t *testing.T) {
	t.Setenv("TEST_KEY", "sk_live_1")
	p := must(t, `
version: 1
kinds:
  a: { read: { list: body, http: { get: https://h.example/x, headers: { A: "${int(env.TEST_KEY)}" } } } }
  b: { read: { list: body, http: { get: https://h.example/x, headers: { A: "${timestamp(env.TEST_KEY)}" } } } }
  c: { read: { list: json, command: [tool, "-${env.TEST_KEY + input.x}"] } }
`)
	for _, kind := range p.Kinds() {
		_, err := p.Kind(kind).Read.Request(operation(kind, `{"x":1}`), nil)
		need.That(t, err != nil && !strings.Contains(err.Error(), "sk_live"), "%s: %v", kind, err)
	}
}

func TestI11_ArgumentsStayArguments(t *testing.T) {
	p := stripePolicy(t)
	k := p.Kind("command")
	got := need.Get(k.Read.Request(operation("command", `{"to":"a b; rm -rf /","note":"-x","rest":"--help"}`), nil))(t)
	same(t, []string{"tool", "--to", "a b; rm -rf /", "--note=-x", "--", "--help"}, got.Command.Argv)
	same(t, []string{"TOKEN=sk_live_1", "FILE=from-file"}, got.Command.Env)
	if got.Command.Dir != "/srv" || strings.Contains(got.Shown, "sk_live") || strings.Contains(got.Shown, "from-file") ||
		!strings.Contains(got.Shown, "TOKEN=${env.TEST_KEY}") {
		t.Error(got.Shown)
	}
	want := `"token":"indoubt-7E3A"`
	need.That(t, strings.Contains(string(got.Command.Stdin), want), "%s", got.Command.Stdin)
	for _, c := range []struct{ kind, input, err string }{
		{"command", `{"to":"-rf","note":"","rest":""}`, `argument 2 begins with "-"`},
		{"command", `{"to":"a\u0000b","note":"","rest":""}`, "zero byte"},
		{"command", `{"to":{"x":1},"note":"","rest":""}`, "no place inside text"},
		{"search", `{"customer":"c","team":"a\r\nX-Evil: 1"}`, "control characters"},
		{"search", `{"customer":"..","team":"a"}`, "leads elsewhere"},
	} {
		_, err := p.Kind(c.kind).Read.Request(operation(c.kind, c.input), nil)
		says(t, err, c.err, c.kind, c.input)
	}
}

func TestRecordedCommand(t *testing.T) {
	p := stripePolicy(t)
	rec := operation("again", `{}`)
	known := func(string) (string, error) { return "same", nil }
	rec.Operation.Command = &ledger.Command{Argv: []string{"curl", "-H", "Auth: ${TEST_KEY}", "-H", "Key: {{key}}", "{{token}}", "${OTHER} $TEST_KEY"}, Dir: "/w", Expand: map[string]string{"TEST_KEY": "same"}}
	rec.Operation.Redacted = true
	got, err := p.Kind("again").Resending(rec, known)
	need.OK(t, err)
	same(t, []string{"curl", "-H", "Auth: sk_live_1", "-H", "Key: k-1", "indoubt-7E3A", "${OTHER} $TEST_KEY"}, got.Command.Argv)
	need.That(t, !strings.Contains(got.Shown, "sk_live") && strings.HasSuffix(got.Shown, "\nin your environment") && got.Command.Dir == "/w", "%v", got.Shown)
	// A value that looks like a placeholder is not expanded again.
	t.Setenv("TEST_KEY", "{{token}}")
	if got, err = p.Kind("again").Resending(rec, known); err != nil || got.Command.Argv[2] != "Auth: {{token}}" {
		t.Error(got, err)
	}
	os.Unsetenv("TEST_KEY")
	var missing *transport.MissingError
	_, err = p.Kind("again").Resending(rec, known)
	need.That(t, errors.As(err, &missing), "%v", err)
	rec.Operation.Command.Argv = []string{"curl", "--password", "redacted:abcdef"}
	_, err = p.Kind("again").Resending(rec, known)
	need.That(t, err != nil && strings.Contains(err.Error(), "not kept"), "%v", err)
}

func TestRedactedIsNotSearchedFor(t *testing.T) {
	p := stripePolicy(t)
	rec := operation("charge", `{"customer":"redacted:00ff","team":"x"}`)
	rec.Operation.Redacted = true
	_, err := p.Kind("charge").Read.Request(rec, nil)
	need.That(t, err != nil && strings.Contains(err.Error(), "input.customer, which is kept only as a digest"), "%v", err)
	rec.Operation.Input = []byte(`{"customer":"c","other":"redacted:00ff"}`)
	if _, err := p.Kind("charge").Read.Request(rec, nil); err != nil {
		t.Error("a read that does not need it goes on", err)
	}
}

// Nothing searches for the marker, and nothing sends it.
func TestAnErasedOperationIsNeitherSentNorSearchedFor(t *testing.T) {
	p := stripePolicy(t)
	rec := operation("charge", `"[redacted]"`)
	rec.Operation.Redacted, rec.Operation.RedactedBy, rec.Operation.RedactedAt = true, "maya", time.Unix(1_790_000_000, 0)
	const says = "redacted by maya at 2026-09-21T14:13:20Z"
	_, err := p.Kind("again").Resending(rec, nil)
	need.That(t, err != nil && strings.Contains(err.Error(), says), "%v", err)
	_, err = p.Kind("charge").Read.Request(rec, nil)
	need.That(t, err != nil && strings.Contains(err.Error(), "the check needs its input, and it was "+says), "%v", err)
}

func TestSecretsGoOnlyToTheirDownstream(t *testing.T) {
	t.Setenv("TEST_KEY", "sk_live_1")
	p := must(t, `
version: 1
downstreams: { d: { base: https://d.example, headers: { Authorization: "${env.TEST_KEY}" } } }
kinds: { k: { downstream: d, read: { http: { get: https://other.example/x }, list: body } } }
`)
	got, err := p.Kind("k").Read.Request(operation("k", `{}`), nil)
	need.That(t, err == nil && got.HTTP.Header["Authorization"] == nil, "%v %v", got.HTTP, err)
}

// TestAWholeAddressFromTheEnvironment: its host is no value of a path.
func TestAWholeAddressFromTheEnvironment(t *testing.T) {
	t.Setenv("PAY_BASE", "https://pay.example/api")
	p := must(t, "version: 1\nkinds:\n  k: { read: { http: { get: \"${env.PAY_BASE}/v1/${input.id}\" }, list: body.data } }\n")
	got, err := p.Kind("k").Read.Request(operation("k", `{"id":"a/b"}`), nil)
	need.That(t, err == nil && got.HTTP.URL == "https://pay.example/api/v1/a%2Fb" && got.Shown == "GET ${env.PAY_BASE}/v1/a%2Fb", "%+v %v", got.HTTP, err)
	for _, id := range []string{"", "..", "a/../../b"} {
		got, err := p.Kind("k").Read.Request(operation("k", `{"id":"`+id+`"}`), nil)
		need.That(t, err != nil, "%q: %+v", id, got.HTTP)
	}
}
