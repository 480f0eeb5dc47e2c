package policy

import (
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// answerOf are the names that the answer to a way of asking has.
var answerOf = map[string][]string{
	"http":    {"status", "body", "header", "link", "json"},
	"command": {"exit", "stdout", "stderr", "json", "body"},
	"mcp":     {"content", "structured", "isError", "body", "json"},
	"sql":     {"rows"},
}

// lintNames warns of names that can never be there when an expression asks for
// them: it errs then, so that nothing is titled, asked or settled.
func (d checker) lintNames(k *Kind) {
	proxied := k.Input == "" && (len(k.Match) > 0 || strings.HasPrefix(k.Pattern, "http."))
	for _, f := range k.fields() {
		for _, e := range f.expressions {
			at := k.said(f.name).below(f.name)
			for _, path := range e.Inputs() {
				if name := firstOf(path); proxied && name != "" && !slices.Contains(requestParts, name) && !strings.Contains(e.Text, "has(input") {
					d.warn(at, fmt.Sprintf("reads input.%s, which no request through the HTTP proxy has: only %s", path, strings.Join(requestParts, ", ")), "input: ${input.body}, where it is in their bodies")
					proxied = false // the others are mended with it
				}
			}
			for _, member := range e.MembersUsed() {
				of, name, _ := strings.Cut(member, ".")
				if !slices.Contains(expr.Members[of], name) {
					d.warn(at, fmt.Sprintf("`%s` has no `%s`", of, name), ledger.DidYouMean(name, expr.Members[of]))
				}
			}
		}
	}
	for _, path := range k.Key.From {
		if name := firstOf(strings.TrimPrefix(path, "input.")); proxied && !slices.Contains(requestParts, name) {
			d.warn(k.said("key").below("key").below("from"), fmt.Sprintf("no request through the HTTP proxy has a %s, so one without a key is refused", path), "input: ${input.body}, where it is in their bodies")
			proxied = false
		}
	}
	d.lintAnswer(k)
}

// lintAnswer warns of names of the answer that the way a read asks never gives.
func (d checker) lintAnswer(k *Kind) {
	if k.Read == nil {
		return
	}
	known := answerOf[k.Read.Via()]
	for _, e := range k.Read.expressions() {
		for _, name := range expr.AnswerNames {
			if len(known) > 0 && e.Uses(name) && !slices.Contains(known, name) {
				d.warn(k.said("read").below("read"), fmt.Sprintf("asks for `%s`, which the answer of a read over %s never has", name, k.Read.Via()), "it has "+strings.Join(known, ", "))
				return
			}
		}
	}
}

// firstOf is the first name of a path of the input, "" where that is an index.
func firstOf(path string) string {
	name, _, _ := strings.Cut(path, ".")
	name, _, _ = strings.Cut(name, "[")
	return name
}

// asked is a field of a kind with the expressions in it.
type asked struct {
	name        string
	expressions []*expr.Expression
}

// fields are the fields of a kind that have expressions.
func (k *Kind) fields() []asked {
	out := []asked{
		{"title", k.title.Expressions()}, {"target", k.target.Expressions()}, {"link", k.link.Expressions()},
		{"answer", []*expr.Expression{k.committed, k.refused, k.already, k.receipt}},
	}
	for _, c := range []*costRule{k.duplicate, k.miss} {
		if c != nil {
			out = append(out, asked{"cost", []*expr.Expression{c.expr}})
		}
	}
	if k.Read != nil {
		out = append(out, asked{"read", k.Read.expressions()})
	}
	for i := range out {
		out[i].expressions = slices.DeleteFunc(out[i].expressions, func(e *expr.Expression) bool { return e == nil })
	}
	return out
}
