package policy

import (
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const viewing = `
version: 1
downstreams:
  d: { base: "https://api.example.com/v2", headers: { Authorization: "Bearer ${env.VIEW_KEY}" }, key: { header: Idempotency-Key, remembers: 1d } }
kinds:
  pay:
    downstream: d
    match: POST /v2/pay
    input: ${input.body}
    title: pay ${input.order.id}
    target: order ${input.order.id}
    cost: { duplicate: double(input.amount), miss: 1 }
    key: { from: [order.id, amount] }
    token: { into: ref }
    lands_within: 1m
    visible_within: 1s
    read: { http: { get: /pays, query: { order: "${input.order.id}" } }, list: body, name: { it.order: "${input.order.id}" }, unique: true, same: it.amount == int(input.amount) }
    resend: here
    answer: { refused: body.asked == input.amount }
  again:
    downstream: d
    resend: here
`

func viewed(t *testing.T) *Policy {
	t.Helper()
	t.Setenv("VIEW_KEY", "view-1234567890")
	p := must(t, viewing)
	return p
}

// proxied is an operation as the HTTP proxy records it, piped the same one as a
// pipeline does.
func proxied(kind string) ledger.Operation {
	return ledger.Operation{ID: "01900000-0000-7000-8000-000000000000", Kind: kind, Key: "k-1", Token: "indoubt-7E3A01", TokenSent: true,
		Input: []byte(`{"method":"POST","path":"/v2/pay","query":{"x":"1"},"content_type":"application/json","body":{"order":{"id":"7"},"amount":"42"}}`),
		Request: &ledger.Request{Method: "POST", Origin: "https://api.example.com", Target: "/v2/pay?x=%31", Header: map[string][]string{"Content-Type": {"application/json"}, "Api-Version": {"3"}},
			Withheld: []string{"Authorization"}, Callers: map[string]string{"Authorization": "caller"}, Body: "{ \"order\":{\"id\":\"7\"}, \"amount\":\"42\",\"ref\":\"indoubt-7E3A01\"}\n"}}
}

func piped(kind string) ledger.Operation {
	o := proxied(kind)
	o.Input, o.Request = []byte(`{"order":{"id":"7"},"amount":"42"}`), nil
	return o
}

// What a kind is written for is what it sees, by any recorder.
func TestAKindSeesTheSameOfEveryRecorder(t *testing.T) {
	k := viewed(t).Kind("pay")
	for name, o := range map[string]ledger.Operation{"proxied": proxied("pay"), "plain": piped("pay")} {
		duplicate, _ := k.Costs(o)
		if k.Title(o) != "pay 7" || k.Target(o) != "order 7" || duplicate.Value != 42 || duplicate.Guess {
			t.Errorf("%s: %q %q %+v", name, k.Title(o), k.Target(o), duplicate)
		}
		m := k.Marks(o)
		need.That(t, len(m.Values) == 1 && m.Values[0] == "7", "%s: %+v", name, m)
		rec := ledger.Record{Found: true, Operation: o, Attempts: []ledger.Attempt{{N: 1}}}
		req, err := k.Read.Request(rec, nil)
		need.That(t, err == nil && req.HTTP.URL == "https://api.example.com/v2/pays?order=7", "%s: %+v %v", name, req.HTTP, err)
		if r, err := k.JudgeAnswer(t.Context(), rec, ledger.Answer{Via: "http", Status: 400, Body: []byte(`{"asked":"42"}`)}); err != nil || r.Proof != ledger.Refused {
			t.Errorf("%s: %+v %v", name, r, err)
		}
		// The negative control replaces what the kind sees, and the record stays one.
		controls, err := k.Read.NeverSent(rec)
		need.Must(t, err == nil && len(controls) == 1, "%s: %v", name, err)
		other, err := controls[0].Record()
		need.OK(t, err, name)
		seen, err := k.seen(other.Operation)
		in, ok := seen.(map[string]any)
		need.That(t, err == nil && ok && in["amount"] == "42" && in["order"].(map[string]any)["id"] != "7", "%s: %v %v", name, seen, err)
		if asked, err := k.Read.Request(other, nil); err != nil || strings.HasSuffix(asked.HTTP.URL, "=7") {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := proxied("pay")
	none.Input = []byte(`{"method":"POST","path":"/v2/pay"}`)
	_, err := k.Read.Request(ledger.Record{Operation: none}, nil)
	need.That(t, err != nil && strings.Contains(err.Error(), "has no body"), "a request without a body: %v", err)
}

func TestWhatWasRecordedIsSentAgain(t *testing.T) {
	p := viewed(t)
	for _, kind := range []string{"pay", "again"} {
		o := proxied(kind)
		k, caller := p.Kind(kind), func(string) (string, error) { return "caller", nil }
		req := need.Get(k.Resending(ledger.Record{Operation: o}, caller))(t)
		h := req.HTTP
		if h.Method != "POST" || h.URL != o.Request.Origin+o.Request.Target || string(h.Body) != o.Request.Body ||
			h.Header["Authorization"][0] != "Bearer view-1234567890" || h.Header["Api-Version"][0] != "3" || h.Header["Idempotency-Key"][0] != "k-1" || len(h.Header) != 4 {
			t.Errorf("%s: %+v", kind, h)
		}
		if strings.Contains(req.Shown, "view-1234567890") || !strings.Contains(req.Shown, "Bearer ${env.VIEW_KEY}") || !strings.Contains(req.Shown, o.Request.Body) || !strings.Contains(req.Shown, "ref\":\"indoubt-7E3A01") {
			t.Errorf("%s: shown as %s", kind, req.Shown)
		}
		rec := ledger.Record{Operation: o}
		if key, token := k.Carries(rec, req); !key || !token || k.Via(rec) != "http" {
			t.Errorf("%s: key %v, token %v, via %s", kind, key, token, k.Via(rec))
		}
		other := proxied(kind)
		other.Request.Body, other.Request.Binary = "", []byte{0xff, 1}
		one, err := k.Resending(ledger.Record{Operation: other}, caller)
		other.Request.Binary = []byte{0xff, 2}
		two, err2 := k.Resending(ledger.Record{Operation: other}, caller)
		need.That(t, err == nil && err2 == nil && one.Digest != two.Digest && strings.Contains(one.Shown, "[2 bytes, SHA-256"), "%s: two bodies have one digest: %v %v", kind, err, err2)
		for what, c := range map[string]struct {
			change func(*ledger.Operation)
			want   string
		}{
			"lost":         {func(o *ledger.Operation) { o.Request = &ledger.Request{Method: "POST", Lost: "its body is not kept"} }, "its body is not kept"},
			"elsewhere":    {func(o *ledger.Operation) { o.Request.Origin = "https://api.example.com:8443" }, "not where its downstream is"},
			"a credential": {func(o *ledger.Operation) { o.Request.Withheld = []string{"Authorization", "X-Mine"} }, "X-Mine is not kept"},
		} {
			o := proxied(kind)
			c.change(&o)
			_, err := k.Resending(ledger.Record{Operation: o}, caller)
			need.That(t, err != nil && strings.Contains(err.Error(), c.want), "%s, %s: %v", kind, what, err)
		}
	}
	_, err := p.Kind("pay").Resending(ledger.Record{Operation: piped("pay")}, nil)
	need.That(t, err != nil && strings.Contains(err.Error(), "not recorded"), "%v", err)
}

func TestWhatAKindSeesIsAPartOfARequest(t *testing.T) {
	for input, want := range map[string]string{
		"${input.body}": "", "'${ input.body.data[0] }'": "", "${input.query}": "", "body": "not a part of a recorded request", "${input}": "not a part", "${input.customer}": "no `customer`", "x ${input.body}": "not a part",
		"'${input.body + 1}'": "not a part", "{ a: b }": "one value",
	} {
		_, err := Parse("p.yaml", []byte("version: 1\nkinds:\n  k:\n    match: POST /x\n    input: "+input+"\n"))
		says(t, err, want, input)
	}
	for text, want := range map[string]string{
		"defaults: { input: \"${input.body}\" }": "does not belong",
	} {
		_, err := Parse("p.yaml", []byte("version: 1\n"+text+"\n"))
		need.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", text, err)
	}
}
