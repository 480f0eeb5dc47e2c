package policy

import (
	"context"
	"fmt"
	"strings"

	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

var plainField = lazyregexp.New(`^it((?:\.\w+|\["[^"\\]+"\]|\[\d+\])+)$`)

// differences says in one sentence which parts of `same` do not hold: "amount is 4300,
// expected 4200". It is for people, so it leaves out what cannot be computed.
func (r *Read) differences(ctx context.Context, one *variables) string {
	var out []string
	for _, c := range r.same.Comparisons() {
		if holds, err := c.Whole.Truth(ctx, one.Names); err == nil && !holds {
			out = append(out, difference(ctx, one, c))
		}
	}
	return expr.Shorten(strings.Join(out, "; "), 300)
}

func difference(ctx context.Context, one *variables, c expr.Comparison) string {
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
	return fmt.Sprintf("%s is %s, expected %s", label, written(found), written(expected))
}

func written(v expr.Value) string {
	data, err := v.Data()
	if err == nil {
		var text []byte
		if text, err = expr.Encode(data); err == nil {
			return expr.Shorten(string(text), 60)
		}
	}
	return "something else"
}
