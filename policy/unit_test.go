package policy

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func TestTheTitleTellsTheUnitOfAnAmount(t *testing.T) {
	const number, form = `{"amount":42000,"n":7}`, `{"amount":"42000","n":7}`
	for _, c := range []struct {
		title, input string
		want         float64
	}{
		{"charge ${money(input.amount / 100)}", number, 0.01},
		{"charge ${money(double(input.amount) / 100)} for 7", form, 0.01},
		{"book ${money(input.amount)}", number, 1},
		{"pay ${money(input.amount)} or ${input.amount}", number, 1},
		{"pay ${input.amount}", number, 0},
		{"charge ${money(input.amount / 100)} of ${input.amount}", number, 0}, // which is it?
		{"charge ${money(input.amount + 100)}", number, 0},
		{"charge ${input.n}", number, 0},
		{"charge", number, 0},
		{"charge ${money(input.amount / 100)}", `[1]`, 0},
	} {
		p := need.Get(Parse("policy.yaml", []byte("version: 1\ncurrency: USD\nkinds:\n  pay:\n    title: \""+c.title+"\"\n")))(t)
		need.Equal(t, Unit(p.Kind("pay"), ledger.Operation{Kind: "pay", Input: []byte(c.input)}, "amount"), c.want, c.title, c.input)
	}
}
