package expr

import (
	"strings"
)

// Comparison is one part of a condition on a candidate, which compares it with what is
// expected.
type Comparison struct {
	Whole           *Expression // the part, as true or false
	Found, Expected *Expression // its two sides; nil where it is not a plain comparison
}

// Comparisons takes a condition on a candidate apart at its outermost && and ==. What
// cannot be taken apart safely stays whole.
func (e *Expression) Comparisons() []Comparison {
	if e == nil {
		return nil
	}
	parts := cutOutside(e.Text, "&&")
	if len(cutOutside(e.Text, "||")) > 1 || len(cutOutside(e.Text, "?")) > 1 {
		parts = []string{e.Text}
	}
	var out []Comparison
	for _, part := range parts {
		whole, problem := Compile(part, ForEffect, Bool)
		if problem != nil {
			return nil
		}
		c := Comparison{Whole: whole}
		if sides := cutOutside(part, "=="); len(sides) == 2 {
			c.sides(sides)
		}
		out = append(out, c)
	}
	return out
}

// sides compiles both sides; the one that looks at `it` is what was found.
func (c *Comparison) sides(texts []string) {
	var made [2]*Expression
	for i, text := range texts {
		var problem *Problem
		if made[i], problem = Compile(text, ForEffect, Any); problem != nil {
			return
		}
	}
	switch left, right := made[0].Uses("it"), made[1].Uses("it"); {
	case left && !right:
		c.Found, c.Expected = made[0], made[1]
	case right && !left:
		c.Found, c.Expected = made[1], made[0]
	}
}

// cutOutside cuts an expression at a sign that stands outside of brackets and
// strings.
func cutOutside(text, sign string) []string {
	var out []string
	from := 0
	if !outside(text, "([{", ")]}", func(i, depth int) bool {
		if depth == 0 && i >= from && strings.HasPrefix(text[i:], sign) {
			out = append(out, text[from:i])
			from = i + len(sign)
		}
		return true
	}) {
		return []string{text}
	}
	return append(out, text[from:])
}
