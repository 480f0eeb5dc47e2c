package policy

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// comparison is one part of `same` that compares what was found with what was
// meant, so that a mismatch can say which field differs.
type comparison struct {
	text            string
	whole           *expression // the part, as true or false
	found, expected *expression // its two sides; nil where it is no plain comparison
	label           string
	unit            float64 // 100 where the policy divides the field by 100; 0: none
}

// comparisons takes `same` apart at its outermost && and ==. What cannot be
// taken apart safely stays whole.
func (k *Kind) comparisons(e *expression) []comparison {
	if e == nil {
		return nil
	}
	parts := cutOutside(e.text, "&&")
	if len(cutOutside(e.text, "||")) > 1 || len(cutOutside(e.text, "?")) > 1 {
		parts = []string{e.text}
	}
	var out []comparison
	for _, part := range parts {
		c := comparison{text: shorten(part, 80)}
		var problem *compileProblem
		if c.whole, problem = compile(part, scopeEffect, wantBool); problem != nil {
			return nil
		}
		if sides := cutOutside(part, "=="); len(sides) == 2 {
			c.sides(sides)
			c.unit = k.unit(c.found, c.expected)
		}
		out = append(out, c)
	}
	return out
}

var plainField = regexp.MustCompile(`^it((?:\.\w+|\["[^"\\]+"\]|\[\d+\])+)$`)

// sides compiles both sides; the one that looks at `it` is what was found.
func (c *comparison) sides(texts []string) {
	var made [2]*expression
	for i, text := range texts {
		var problem *compileProblem
		if made[i], problem = compile(text, scopeEffect, wantAny); problem != nil {
			return
		}
	}
	switch left, right := made[0].uses("it"), made[1].uses("it"); {
	case left && !right:
	case right && !left:
		made[0], made[1] = made[1], made[0]
	default:
		return
	}
	c.found, c.expected = made[0], made[1]
	c.label = shorten(c.found.text, 40)
	if m := plainField.FindStringSubmatch(strings.TrimSpace(c.found.text)); m != nil {
		c.label = strings.TrimPrefix(m[1], ".")
	}
}

// unit is what the policy divides a field of the input by to get an amount of
// its currency, where one side is that field: costs and titles say so.
func (k *Kind) unit(found, expected *expression) float64 {
	if found == nil {
		return 0
	}
	var texts []string
	for _, c := range []*costRule{k.duplicate, k.miss} {
		if c != nil && c.expr != nil {
			texts = append(texts, c.expr.text)
		}
	}
	for _, e := range k.title.expressions() {
		texts = append(texts, e.text)
	}
	m := wholeField.FindStringSubmatch(strings.TrimSpace(expected.text))
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
	wholeField   = regexp.MustCompile(`^(?:(?:int|double)\()?(input(?:\.\w+)+)\)?$`)
	dividedField = regexp.MustCompile(`(input(?:\.\w+)+)\)?\s*/\s*(\d+(?:\.\d+)?)`)
)

// differences says in one sentence which parts of `same` do not hold: "amount is
// 43.00 USD, expected 42.00 USD". It is for people, so that what cannot be told
// is left out.
func (r *Read) differences(ctx context.Context, one *variables) string {
	var out []string
	for _, c := range r.kind.comparisons(r.same) {
		vars := *one
		vars.problem = nil
		if holds, err := c.whole.truth(ctx, &vars); err != nil || holds {
			continue
		}
		out = append(out, c.say(ctx, &vars, r.kind))
	}
	return shorten(strings.Join(out, "; "), 300)
}

func (c comparison) say(ctx context.Context, vars *variables, k *Kind) string {
	plain := "not so: " + c.text
	if c.found == nil {
		return plain
	}
	found, err := c.found.eval(ctx, vars)
	if err != nil {
		return plain
	}
	expected, err := c.expected.eval(ctx, vars)
	if err != nil {
		return plain
	}
	is, wanted := c.write(found, k), c.write(expected, k)
	if is == wanted { // too close to tell apart as amounts
		c.unit = 0
		is, wanted = c.write(found, k), c.write(expected, k)
	}
	return fmt.Sprintf("%s is %s, expected %s", c.label, is, wanted)
}

// write shows a value, an amount in the policy's unit.
func (c comparison) write(v ref.Val, k *Kind) string {
	if n, err := number(v); err == nil && c.unit > 0 && k.policy != nil {
		text := string(amount(types.Double(n / c.unit)).(types.String))
		return text + " " + k.policy.currency
	}
	data, err := native(v)
	if err != nil {
		return "something else"
	}
	text, err := marshal(data)
	if err != nil {
		return "something else"
	}
	return shorten(string(text), 60)
}

// cutOutside cuts an expression at a sign that stands outside of brackets and
// strings.
func cutOutside(text, sign string) []string {
	var out []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			n := quoted(text[i:], i > 0 && (text[i-1] == 'r' || text[i-1] == 'R'))
			if n < 0 {
				return []string{text}
			}
			i += n - 1
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], sign):
			out = append(out, text[from:i])
			i += len(sign) - 1
			from = i + 1
		}
	}
	return append(out, text[from:])
}
