package policy

import (
	"context"
	"testing"

	"indoubt/ledger"
)

func TestAMismatchSaysWhatDiffers(t *testing.T) {
	p := must(t, `
version: 1
currency: EUR
kinds:
  charge:
    title: charge ${money(input.amount / 100)}
    cost: { duplicate: input.amount / 100 * 2, miss: input.order.net/1000 }
    read:
      http: { get: "https://h.example/${token}" }
      list: body
      mark: asked
      same: it.amount == input.amount && input.order.net == it.net && it.status == "succeeded" && it.tags.size() < 2
    token: { into: t }
  form:
    title: charge ${money(double(input.amount) / 100)}
    read: { http: { get: https://h.example/x }, list: body, mark: it.k, mark_is: key, same: it.amount == int(input.amount) }
  odd:
    read: { http: { get: https://h.example/x }, list: body, mark: it.k, mark_is: key, same: 'it.a == input.a || it["b, &&"].x == "a == b"' }
  keyed:
    read: { http: { get: https://h.example/x }, list: body, mark: it.k, mark_is: key, same: 'it["b, &&"].x == "a == b" && it.n == input.n' }
`)
	rec := ledger.Record{Operation: ledger.Operation{Token: "tok", Key: "k1", Input: []byte(`{"amount":4200,"order":{"net":1500000},"a":1,"n":123456789012345678901234567890}`)}}
	for _, c := range []struct{ kind, body, want string }{
		{"charge", `[{"amount":4300,"net":1500000,"status":"succeeded","tags":[]}]`, "amount is 43.00 EUR, expected 42.00 EUR"},
		{"charge", `[{"amount":1200000,"net":0,"status":"failed","tags":[1,2]}]`,
			`amount is 12,000.00 EUR, expected 42.00 EUR; net is 0.00 EUR, expected 1,500.00 EUR; status is "failed", expected "succeeded"; not so: it.tags.size() < 2`},
		{"charge", `[{"amount":"4200","net":1500000,"status":"succeeded","tags":[]}]`, `amount is "4200", expected 42.00 EUR`},
		{"charge", `[{"amount":4200,"net":1500000,"status":"succeeded","tags":[]}]`, ""},
		{"charge", `[{"amount":4200.3,"net":1500000,"status":"succeeded","tags":[]}]`, "amount is 4200.3, expected 4200"},
		{"form", `[{"k":"k1","amount":4300}]`, "amount is 43.00 EUR, expected 42.00 EUR"},
		{"odd", `[{"k":"k1","a":2,"b, &&":{"x":1}}]`, `not so: it.a == input.a || it["b, &&"].x == "a == b"`},
		{"keyed", `[{"k":"k1","b, &&":{"x":"other"},"n":1}]`, `["b, &&"].x is "other", expected "a == b"; n is 1, expected 123456789012345678901234567890`},
	} {
		f, err := p.Kind(c.kind).Read.Judge(context.Background(), rec, ledger.Answer{Via: "http", Status: 200, Body: []byte(c.body)})
		if err != nil || len(f.Effects) != 1 || f.Effects[0].Differs != c.want || f.Effects[0].Same != (c.want == "") {
			t.Errorf("%s %s: %+v, %v\nwant %s", c.kind, c.body, f.Effects, err, c.want)
		}
	}
}
