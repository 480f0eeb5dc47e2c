package policy

import (
	"strings"
	"testing"

	"indoubt/ledger"
)

// What was an address or a name when it was recorded may be an option by now.
func TestI11_RecordedArgumentBecomesNoOption(t *testing.T) {
	p, err := Parse("p.yaml", []byte("version: 1\nkinds: { k: { send: { command: recorded } } }"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLACE", "--exec=rm")
	rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Command: &ledger.Command{Argv: []string{"fetch", "-v", "${PLACE}"}, Expand: []string{"PLACE"}}}}
	if req, err := p.Kind("k").Send.Request(rec); err == nil || !strings.Contains(err.Error(), "option") {
		t.Errorf("%+v %v", req.Command, err)
	}
	t.Setenv("PLACE", "https://example.com")
	if _, err := p.Kind("k").Send.Request(rec); err != nil {
		t.Error(err)
	}
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
		p, err := Parse("p.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
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
			p, err := Parse("p.yaml", []byte(head+c.send))
			if err != nil {
				t.Fatal(err)
			}
			o := ledger.Operation{Kind: "k", Key: "key-1", Token: c.token, Input: []byte(`{"text":"hello"}`)}
			if o.Token == "" {
				o.Token = ledger.NewToken()
			}
			if c.argv != nil {
				o.Command = &ledger.Command{Argv: c.argv}
			}
			send := p.Kind("k").Send
			req, err := send.Request(ledger.Record{Operation: o})
			if err != nil {
				t.Fatal(err)
			}
			if _, token := send.Carries(o, req); token != c.want {
				t.Errorf("token sent: %t, want %t: %s", token, c.want, req.Shown)
			}
		})
	}
}
