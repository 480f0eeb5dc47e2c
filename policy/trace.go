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

// tracer evaluates expressions one by one.
type tracer struct {
	ctx   context.Context
	steps []Step
}

func (t *tracer) step(name string, e *expression, vars *variables) any {
	if e == nil {
		return nil
	}
	s := Step{Name: name, Expression: e.text}
	vars.problem = nil
	v, err := e.eval(t.ctx, vars)
	var data any
	if err == nil {
		data, err = native(v)
	}
	if err == nil {
		s.Value, err = marshal(data)
	}
	s.Err = err
	t.steps = append(t.steps, s)
	return data
}

// Trace evaluates every expression of the read on an answer, one by one, for
// `policy try`. `same` and `receipt` are asked for each effect found.
func (r *Read) Trace(ctx context.Context, rec ledger.Record, a ledger.Answer) []Step {
	t := &tracer{ctx: ctx}
	vars := newVariables(rec).withAnswer(&a)
	t.step("valid", r.valid, vars)
	found := t.step("found", r.found, vars)
	t.step("complete", r.complete, vars)
	if r.next != nil {
		t.step("next", r.next.expr, vars)
	}
	effects, _ := found.([]any)
	for i, it := range effects {
		if i == 3 {
			break
		}
		t.step("same", r.same, vars.effect(exactNumbers(it)))
		t.step("receipt", r.receipt, vars.effect(exactNumbers(it)))
	}
	return t.steps
}

// TraceAnswer evaluates the kind's rules on an answer to a write, one by one.
func (k *Kind) TraceAnswer(ctx context.Context, rec ledger.Record, a ledger.Answer) []Step {
	t := &tracer{ctx: ctx}
	vars := newVariables(rec).withAnswer(&a)
	t.step("refused", k.refused, vars)
	t.step("committed", k.committed, vars)
	t.step("already", k.already, vars)
	t.step("receipt", k.receipt, vars)
	return t.steps
}
