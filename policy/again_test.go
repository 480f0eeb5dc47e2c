package policy

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

// What was an address or a name when it was recorded may be an option by now.
func TestI11_RecordedArgumentBecomesNoOption(t *testing.T) {
	p := must(t, "version: 1\nkinds: { k: { resend: here } }")
	t.Setenv("PLACE", "--exec=rm")
	rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Command: &ledger.Command{Argv: []string{"fetch", "-v", "${PLACE}"}, Expand: map[string]string{"PLACE": "same"}}}}
	same := func(string) (string, error) { return "same", nil }
	req, err := p.Kind("k").Resending(rec, same)
	need.That(t, err != nil && strings.Contains(err.Error(), "option"), "%+v %v", req.Command, err)
	t.Setenv("PLACE", "https://example.com")
	_, err = p.Kind("k").Resending(rec, same)
	need.That(t, err == nil, "%v", err)
}

// A variable of a command may say whose account it uses.
func TestI5_NoCommandRunsAgainWithAnotherVariable(t *testing.T) {
	p := must(t, "version: 1\nkinds: { k: { resend: here } }")
	t.Setenv("ACCOUNT_KEY", "sesame")
	keyed := func(value string) (string, error) { return "digest of " + value, nil }
	for _, c := range []struct {
		name, known string
		digest      transport.Digest
		want        string
	}{
		{"the same", "digest of sesame", keyed, ""},
		{"another", "digest of other", keyed, "another ACCOUNT_KEY than your environment has"},
		{"no word of it", "", keyed, "does not show which ACCOUNT_KEY"},
		{"no key of the ledger", "digest of sesame", func(string) (string, error) { return "", errors.New("its key is not here") }, "its key is not here"},
	} {
		rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Command: &ledger.Command{Argv: []string{"pay", "--as=${ACCOUNT_KEY}"}, Expand: map[string]string{"ACCOUNT_KEY": c.known}}}}
		req, err := p.Kind("k").Resending(rec, c.digest)
		says(t, err, c.want, c.name)
		need.That(t, c.want != "" || req.Command.Argv[1] == "--as=sesame" && strings.HasSuffix(req.Shown, "\nin your environment"), "%s: %+v", c.name, req.Command)
	}
}

// A token counts as sent only where the other side can read it whole, without the
// encoding it travels in. What a command finds in its environment or on its standard
// input without the policy's asking is no evidence.
func TestI6_TokenCountsAsSentWhereItIsSeen(t *testing.T) {
	const head = "version: 1\ndownstreams: { d: { base: https://h.example } }\n"
	request := func(target, mediaType, body string) *ledger.Request {
		return &ledger.Request{Method: "POST", Origin: "https://h.example", Target: target, Header: map[string][]string{"Content-Type": {mediaType}, "X-Ref": {"r"}}, Body: body}
	}
	for _, c := range []struct {
		name, token string
		request     *ledger.Request
		argv        []string
		want        bool
	}{
		{name: "a JSON body", request: request("/x", "application/json", `{"note":"hello\nTOK"}`), want: true},
		{name: "a form", request: request("/x", "application/x-www-form-urlencoded", "note=a+b+TOK"), want: true},
		{name: "a query", request: request("/x?ref=TOK", "", ""), want: true},
		{name: "a segment of the path", request: request("/x/TOK", "", ""), want: true},
		{name: "a part of a longer name", request: request("/x/r_TOK", "", "")},
		{name: "nothing of the request", request: request("/x", "application/json", `{"note":"hello"}`)},
		{name: "a token that the input happens to hold inside a word", request: request("/x", "application/json", `{"note":"hello"}`), token: "ell"},
		{name: "the program's own name", argv: []string{"{{token}}"}},
		{name: "a recorded argument", argv: []string{"tool", "ref={{token}}"}, want: true},
		{name: "a recorded command without it", argv: []string{"tool"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := ledger.Operation{Kind: "k", Key: "key-1", Token: cmp.Or(c.token, ledger.NewToken()), Input: []byte(`{"text":"hello"}`), Request: c.request}
			text := head + "kinds: { k: { downstream: d, resend: here } }\n"
			if r := o.Request; r != nil {
				r.Target, r.Body = strings.ReplaceAll(r.Target, "TOK", o.Token), strings.ReplaceAll(r.Body, "TOK", o.Token)
			}
			if c.argv != nil {
				o.Command = &ledger.Command{Argv: c.argv}
			}
			k, rec := must(t, text).Kind(o.Kind), ledger.Record{Operation: o}
			req := need.Get(k.Resending(rec, nil))(t)
			_, token := k.Carries(rec, req)
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
    answer:
      refused: attempt.n == 1.0 && exit == 3
      already: attempt.n > 1 && attempt.outcome == "" && attempt.class == "" && attempt.ended_at == null && exit == 4
`

func TestAttemptIsTheNewest(t *testing.T) {
	p := must(t, attempting)
	k := p.Kind("k")
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rec := operation("k", `{}`)
	doubt := ledger.Attempt{ID: "a1", N: 1, StartedAt: at, DeadlineAt: at.Add(time.Minute), EndedAt: at.Add(time.Second), Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, TokenSent: true}
	rec.Operation.AttemptCount = 2 // a row of a list, without its attempts
	need.Equal(t, k.Title(rec.Operation), "try 2 of 2")
	rec.Operation.AttemptCount, rec.Attempts = 1, []ledger.Attempt{doubt}
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
	need.That(t, p.Kind("k").NewestOnly, "it does not look from the newest attempt on")
}

const sends = `version: 1
downstreams:
  d: { base: "https://d.example", headers: { X: "${env.DIGEST_A}" }, key: { header: K, remembers: 24h } }
  c: { mcp: { command: [server, --root, /a], env: { A: "1" } } }
kinds:
  http: { downstream: d, resend: here }
  command: { resend: here }
  mcp.c.pay: { downstream: c, resend: here }
`

// What a person agreed to is told from everything else that could be sent, and
// never by the value of a secret.
func TestADigestTellsRequestsApart(t *testing.T) {
	t.Setenv("DIGEST_A", "one")
	t.Setenv("DIGEST_B", "one")
	digest := func(text, kind string, change func(*ledger.Operation)) string {
		t.Helper()
		rec := operation(kind, `{"n":1}`)
		rec.Attempts = []ledger.Attempt{{N: 1, Sender: "mcp"}}
		o := &rec.Operation
		switch kind {
		case "http":
			o.Request = &ledger.Request{Method: "POST", Origin: "https://d.example", Target: "/pay", Header: map[string][]string{"H": {"1"}}, Callers: map[string]string{"X": "same"}, Body: "x"}
		case "command":
			o.Command = &ledger.Command{Argv: []string{"pay", "1"}, Dir: "/a"}
		}
		change(o)
		req, err := must(t, text).Kind(kind).Resending(rec, func(string) (string, error) { return "same", nil })
		need.OK(t, err, kind)
		need.Must(t, len(req.Digest) == 64, "%s: digest %q", kind, req.Digest)
		return req.Digest
	}
	none := func(*ledger.Operation) {}
	for _, c := range [][3]string{
		{"http", "header: K,", "header: L,"}, {"http", "${env.DIGEST_A}", "${env.DIGEST_B}"}, {"mcp.c.pay", "--root, /a", "--root, /b"}, {"mcp.c.pay", `A: "1"`, `A: "2"`},
	} {
		need.That(t, digest(sends, c[0], none) != digest(strings.Replace(sends, c[1], c[2], 1), c[0], none), "%s: %s and %s have the same digest", c[0], c[1], c[2])
	}
	for name, c := range map[string]struct {
		kind   string
		change func(*ledger.Operation)
	}{
		"method": {"http", func(o *ledger.Operation) { o.Request.Method = "PUT" }}, "target": {"http", func(o *ledger.Operation) { o.Request.Target = "/pay?q=1" }},
		"header": {"http", func(o *ledger.Operation) { o.Request.Header["H"] = []string{"2"} }}, "body": {"http", func(o *ledger.Operation) { o.Request.Body = "y" }},
		"argument": {"command", func(o *ledger.Operation) { o.Command.Argv[1] = "2" }}, "directory": {"command", func(o *ledger.Operation) { o.Command.Dir = "/b" }},
		"arguments": {"mcp.c.pay", func(o *ledger.Operation) { o.Input = []byte(`{"n":2}`) }},
	} {
		need.That(t, digest(sends, c.kind, none) != digest(sends, c.kind, c.change), "another %s has the same digest", name)
	}
	was := digest(sends, "http", none)
	t.Setenv("DIGEST_A", "two")
	need.Equal(t, digest(sends, "http", none), was, "the same has another digest")
}

// Only who had the caller's credential, by the record, sends again in its name.
func TestI5_NothingIsSentAgainUnderAnotherCredential(t *testing.T) {
	t.Setenv("CALLER_KEY", "sesame")
	const text = `version: 1
downstreams: { d: { base: "https://d.example", headers: { Authorization: "Bearer ${env.CALLER_KEY}", Account: acct_1 } } }
kinds: { k: { downstream: d, resend: here } }
`
	keyed := func(value string) (string, error) { return "digest of " + value, nil }
	for _, c := range []struct {
		name    string
		callers map[string]string
		header  map[string][]string
		digest  transport.Digest
		want    string
	}{
		{"the same", map[string]string{"Authorization": "digest of Bearer sesame"}, map[string][]string{"Account": {"acct_1"}}, keyed, ""},
		{"the same by digests", map[string]string{"Authorization": "digest of Bearer sesame", "Account": "digest of acct_1"}, nil, keyed, ""},
		{"another credential", map[string]string{"Authorization": "digest of Bearer other"}, map[string][]string{"Account": {"acct_1"}}, keyed, "another Authorization"},
		{"another account", map[string]string{"Authorization": "digest of Bearer sesame"}, map[string][]string{"Account": {"acct_2"}}, keyed, "another Account"},
		{"no word of the account", map[string]string{"Authorization": "digest of Bearer sesame"}, nil, keyed, "does not show which Account"},
		{"no word of the credential", nil, map[string][]string{"Account": {"acct_1"}}, keyed, "does not show which Authorization"},
		{"a header that the policy does not name", map[string]string{"Authorization": "digest of Bearer sesame", "X-Tenant": "digest of t"}, map[string][]string{"Account": {"acct_1"}}, keyed, "X-Tenant is not kept"},
		{"one of callers, which is kept", map[string]string{"Authorization": "digest of Bearer sesame", "X-Tenant": "digest of t"},
			map[string][]string{"Account": {"acct_1"}, "X-Tenant": {"t"}}, keyed, ""},
		{"no key of the ledger", map[string]string{"Authorization": "digest of Bearer sesame"}, map[string][]string{"Account": {"acct_1"}},
			func(string) (string, error) { return "", errors.New("the ledger's key is not here") }, "the ledger's key is not here"},
	} {
		rec := operation("k", `{}`)
		rec.Operation.Request = &ledger.Request{Method: "POST", Origin: "https://d.example", Target: "/pay", Header: c.header, Callers: c.callers, Withheld: []string{"Authorization"}}
		req, err := must(t, text).Kind("k").Resending(rec, c.digest)
		says(t, err, c.want, c.name)
		need.That(t, c.want != "" || req.HTTP.Header["Authorization"][0] == "Bearer sesame", "%s: %v", c.name, req.HTTP)
		need.That(t, c.want != "" || slices.Equal(req.HTTP.Header["X-Tenant"], c.header["X-Tenant"]), "%s: %v", c.name, req.HTTP)
	}
}

// What is not there to be sent goes back to its pipeline, for a reason that is said.
func TestWhatIsNotRecordedGoesBackToItsPipeline(t *testing.T) {
	const text = `version: 1
downstreams:
  d: { base: "https://d.example" }
  c: { mcp: { command: [server] } }
  u: { mcp: { url: "https://u.example/mcp", headers: { Authorization: "${env.DIGEST_A}" } } }
kinds:
  k: { downstream: d, resend: here }
  pipe: { downstream: d }
  mcp.c.pay: { downstream: c, resend: here }
  mcp.u.pay: { downstream: u, resend: here }
  mcp.other.pay: { downstream: c, resend: here }
`
	for _, c := range []struct {
		kind   string
		change func(*ledger.Operation)
		via    string
		want   string
	}{
		{"k", func(o *ledger.Operation) {}, "pipeline", "what was sent is not recorded"},
		{"pipe", func(o *ledger.Operation) { o.Request = &ledger.Request{} }, "pipeline", ""},
		{"k", func(o *ledger.Operation) { o.Request = &ledger.Request{Lost: "its body is longer than 64 KiB"} }, "http", "its body is longer than 64 KiB"},
		{"mcp.u.pay", func(o *ledger.Operation) {}, "mcp", "does not show which Authorization"},
		{"mcp.other.pay", func(o *ledger.Operation) {}, "mcp", "another server than c"},
		{"mcp.c.pay", func(o *ledger.Operation) { o.Redacted = true }, "mcp", "not kept"},
		{"mcp.c.pay", func(o *ledger.Operation) {}, "mcp", ""},
	} {
		rec := operation(c.kind, `{}`)
		if strings.HasPrefix(c.kind, "mcp.") {
			rec.Attempts = []ledger.Attempt{{N: 1, Sender: "mcp"}}
		}
		c.change(&rec.Operation)
		k := must(t, text).Kind(c.kind)
		need.Equal(t, k.Via(rec), c.via, "%s %s", c.kind, c.want)
		if c.kind != "pipe" {
			_, err := k.Resending(rec, nil)
			says(t, err, c.want, c.kind)
		}
	}
}
