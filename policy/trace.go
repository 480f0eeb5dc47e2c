package policy

import (
	"context"
	"encoding/json"

	"indoubt/ledger"
)

// Step is one expression of a read and what it gave.
type Step struct {
	Name, Expression string
	Value            json.RawMessage // nil when it erred
	Err              error
}

// Trace evaluates every expression of the read on an answer, one by one, for
// `policy try`. `same` and `receipt` are asked for each effect found.
func (r *Read) Trace(ctx context.Context, rec ledger.Record, a ledger.Answer) []Step {
	var out []Step
	step := func(name string, e *expression, vars *variables) any {
		if e == nil {
			return nil
		}
		s := Step{Name: name, Expression: e.text}
		vars.problem = nil
		v, err := e.eval(ctx, vars)
		var data any
		if err == nil {
			data, err = native(v)
		}
		if err == nil {
			s.Value, err = marshal(data)
		}
		s.Err = err
		out = append(out, s)
		return data
	}
	vars := newVariables(rec).withAnswer(&a)
	step("valid", r.valid, vars)
	found := step("found", r.found, vars)
	step("complete", r.complete, vars)
	if r.next != nil {
		step("next", r.next.expr, vars)
	}
	effects, _ := found.([]any)
	for i, it := range effects {
		if i == 3 {
			break
		}
		step("same", r.same, vars.effect(exactNumbers(it)))
		step("receipt", r.receipt, vars.effect(exactNumbers(it)))
	}
	return out
}
