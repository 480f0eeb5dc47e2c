package policy

import (
	"context"
	"testing"

	"indoubt/ledger"
)

// What was found is found, also where the rest of the answer makes no sense.
func TestFoundEffectsOutliveABrokenComplete(t *testing.T) {
	p, err := Parse("p.yaml", []byte(`
version: 1
kinds:
  k:
    token: { into: ref }
    lands_within: 1s
    visible_within: 0s
    read:
      http: { get: "https://pay.example/charges" }
      list: body.data
      mark: it.ref
      complete: "!body.more"
      receipt: it.id
`))
	if err != nil {
		t.Fatal(err)
	}
	rec := ledger.Record{Operation: ledger.Operation{Kind: "k", Token: "t-1"}}
	answer := func(body string) ledger.Answer { return ledger.Answer{Via: "http", Status: 200, Body: []byte(body)} }
	f, err := p.Kind("k").Read.Judge(context.Background(), rec, answer(`{"data":[{"id":"a","ref":"t-1"}]}`))
	if err != nil || len(f.Effects) != 1 || f.Complete {
		t.Errorf("%+v %v", f, err)
	}
	if f, err = p.Kind("k").Read.Judge(context.Background(), rec, answer(`{"data":[]}`)); err == nil {
		t.Errorf("none, and not whole: %+v", f)
	}
}
