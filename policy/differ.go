package policy

import (
	"context"
	"fmt"
	"strings"

	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

var plainField = lazyregexp.New(`^it((?:\.\w+|\["[^"\\]+"\]|\[\d+\])+)$`)

// other says how an effect differs from what was requested.
type other struct{ *Kind }

// unit is the number by which the policy's costs and titles divide a field of the input
// to get an amount of its currency; 0 where they do not.
func (k other) unit(expected *expr.Expression) float64 {
	var texts []string
	for _, c := range []*costRule{k.duplicate, k.miss} {
		if c != nil && c.expr != nil {
			texts = append(texts, c.expr.Text)
		}
	}
	for _, e := range k.title.Expressions() {
		texts = append(texts, e.Text)
	}
	m := wholeField.FindStringSubmatch(strings.TrimSpace(expected.Text))
	if m == nil {
		return 0
	}
	field := m[1]
	for _, text := range texts {
		for _, m := range dividedField.FindAllStringSubmatch(text, -1) {
			if m[1] == field {
				var by float64
				if _, err := fmt.Sscan(m[2], &by); err == nil && by > 0 {
					return by
				}
			}
		}
	}
	return 0
}

// A form's fields are texts, so that a policy writes double(input.amount).
var (
	wholeField   = lazyregexp.New(`^(?:(?:int|double)\()?(input(?:\.\w+)+)\)?$`)
	dividedField = lazyregexp.New(`(input(?:\.\w+)+)\)?\s*/\s*(\d+(?:\.\d+)?)`)
)

// differences says in one sentence which parts of `same` do not hold: "amount is
// 43.00 USD, expected 42.00 USD". It is for people, so it leaves out what cannot be
// computed.
func (r *Read) differences(ctx context.Context, one *variables) string {
	var out []string
	for _, c := range r.same.Comparisons() {
		if holds, err := c.Whole.Truth(ctx, one.Names); err == nil && !holds {
			out = append(out, other{r.kind}.difference(ctx, one, c))
		}
	}
	return expr.Shorten(strings.Join(out, "; "), 300)
}

func (k other) difference(ctx context.Context, one *variables, c expr.Comparison) string {
	plain := "not so: " + expr.Shorten(c.Whole.Text, 80)
	if c.Found == nil {
		return plain
	}
	found, err := c.Found.Eval(ctx, one.Names)
	if err != nil {
		return plain
	}
	expected, err := c.Expected.Eval(ctx, one.Names)
	if err != nil {
		return plain
	}
	label := expr.Shorten(c.Found.Text, 40)
	if m := plainField.FindStringSubmatch(strings.TrimSpace(c.Found.Text)); m != nil {
		label = strings.TrimPrefix(m[1], ".")
	}
	unit := k.unit(c.Expected)
	is, wanted := k.written(found, unit), k.written(expected, unit)
	if is == wanted { // too close to tell apart as amounts
		is, wanted = k.written(found, 0), k.written(expected, 0)
	}
	return fmt.Sprintf("%s is %s, expected %s", label, is, wanted)
}

// written shows a value, as an amount where it has a unit.
func (k other) written(v expr.Value, unit float64) string {
	if n, err := v.Number(); err == nil && unit > 0 && k.policy != nil {
		return expr.Cents(n/unit) + " " + k.policy.currency
	}
	data, err := v.Data()
	if err != nil {
		return "something else"
	}
	text, err := expr.Encode(data)
	if err != nil {
		return "something else"
	}
	return expr.Shorten(string(text), 60)
}
