package policy

import (
	"context"
	"encoding/json"

	"indoubt/ledger"
)

// Step is one expression of a read and what it gave.
type Step struct {
	Page             int // 1 is the first; 0 of an answer to a write
	Name, Expression string
	Value            json.RawMessage // nil when it erred
	Err              error
}

// tracer evaluates expressions one by one.
type tracer struct {
	ctx   context.Context
	page  int
	steps []Step
}

func (t *tracer) step(name string, e *expression, vars *variables) any {
	if e == nil {
		return nil
	}
	s := Step{Page: t.page, Name: name, Expression: e.text}
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

// tracedEffects are how many of the effects found are looked at one by one.
const tracedEffects = 20

// trace evaluates every expression of the read on the answer to one page, in the
// order in which they are asked. `same` and `receipt` are asked for each effect
// found.
func (r *Read) trace(ctx context.Context, rec ledger.Record, a ledger.Answer, page int) []Step {
	t := &tracer{ctx: ctx, page: page}
	vars := newVariables(rec).withAnswer(&a)
	t.step("valid", r.valid, vars)
	effects, _ := t.step("found", r.found, vars).([]any)
	for _, it := range effects[:min(len(effects), tracedEffects)] {
		t.step("same", r.same, vars.effect(exactNumbers(it)))
		t.step("receipt", r.receipt, vars.effect(exactNumbers(it)))
	}
	t.step("complete", r.complete, vars)
	if r.next != nil {
		t.step("next", r.next.expr, vars)
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
