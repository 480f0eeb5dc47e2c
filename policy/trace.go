package policy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"cel.dev/cel-go/common/types"

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

// tracedCandidates are how many of the candidates are looked at one by one.
const tracedCandidates = 20

// candidate evaluates what is asked of one candidate: first its mark and whose
// that is, then the rest, which is asked of the operation's own only.
func (t *tracer) candidate(r *Read, one *variables) {
	if r.mark != nil {
		t.step("mark", r.mark, one)
		expected, err := r.expected(one.rec)
		marks, unmarked := r.marks(t.ctx, one)
		own := err == nil && unmarked == nil && slices.ContainsFunc(marks, func(m string) bool { return r.owns(m, expected) })
		value, _ := marshal(own)
		t.steps = append(t.steps, Step{Page: t.page, Name: "own", Expression: "the mark is " + expected, Value: value, Err: errors.Join(err, unmarked)})
		if !own {
			return
		}
	}
	t.step("created", r.created, one)
	t.step("final", r.final, one)
	t.step("same", r.same, one)
	t.step("receipt", r.receipt, one)
	t.step("answer", r.answer, one)
}

// trace evaluates every expression of the read on the answer to one page, in the
// order in which they are asked.
func (r *Read) trace(ctx context.Context, rec ledger.Record, a ledger.Answer, page int) []Step {
	t := &tracer{ctx: ctx, page: page}
	vars := r.kind.variables(rec).withAnswer(&a)
	t.step("valid", r.valid, vars)
	t.step("state", r.state, vars)
	candidates, _ := t.step("list", r.list, vars).([]any)
	for _, it := range candidates[:min(len(candidates), tracedCandidates)] {
		t.candidate(r, vars.effect(types.DefaultTypeAdapter.NativeToValue(exactNumbers(it))))
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
	vars := k.variables(rec).withAnswer(&a)
	t.step("refused", k.refused, vars)
	t.step("committed", k.committed, vars)
	t.step("already", k.already, vars)
	t.step("receipt", k.receipt, vars)
	return t.steps
}
