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
