package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger"
)

func TestRedirectsAreWrittenOut(t *testing.T) {
	text := `
version: 1
downstreams: { files: { base: "https://files.example", redirects: [%s] } }
kinds: { k: { downstream: files, read: { http: { get: "/${input.id}" }, list: "[body]" } } }
`
	p, err := Parse("p.yaml", []byte(fmt.Sprintf(text, `cdn.example, "eu.example:8443"`)))
	if err != nil {
		t.Fatal(err)
	}
	req, err := p.Kind("k").Read.Request(ledger.Record{Operation: ledger.Operation{Kind: "k", Input: []byte(`{"id":"a"}`)}}, nil)
	if err != nil || !slices.Equal(req.HTTP.Redirects, []string{"cdn.example", "eu.example:8443"}) {
		t.Errorf("%v %v", req, err)
	}
	for _, bad := range []string{`"*.example"`, `"https://cdn.example"`, `"cdn.example/x"`, `""`, `"${env.HOST}"`, `".example"`, `"cdn.example:0"`} {
		if _, err := Parse("p.yaml", []byte(fmt.Sprintf(text, bad))); err == nil || !strings.Contains(err.Error(), "redirects") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
