package policy

import (
	"strings"
	"testing"

	"indoubt/ledger"
)

// A search for an empty token finds whatever has none, however it is asked for.
func TestI2_NoQuestionWithAnEmptyToken(t *testing.T) {
	for name, read := range map[string]string{
		"on standard input": `command: [tool, find]`,
		"in an argument":    `command: [tool, find, '${"ref:" + token}']`,
		"in a query":        `http: { get: "https://pay.example/charges", query: { q: '${"ref:" + token}' } }`,
	} {
		t.Run(name, func(t *testing.T) {
			found := "body.data"
			if strings.HasPrefix(read, "command") {
				found = "json.data"
			}
			p, err := Parse("p.yaml", []byte("version: 1\nkinds:\n  k:\n    token: { into: ref }\n    read:\n      "+read+"\n      found: "+found+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Key: "key"}}
			if req, err := p.Kind("k").Read.Request(rec, nil); err == nil || !strings.Contains(err.Error(), "`token`") {
				t.Errorf("%+v %v", req, err)
			}
			rec.Operation.Token = "t-1"
			if _, err := p.Kind("k").Read.Request(rec, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
