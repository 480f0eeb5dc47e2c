package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
)

// Trial is what one read shows: a verdict and its reason. `not_there` assumes that the check finds other operations on each
// side of this one; what is found assumes that the negative control holds and that no
// other operation has the same name. Only the engine checks those.
type Trial struct {
	verdict.Judgement
	Found verdict.Found
	Pages []TrialPage

	word string // of testWants
}

// TrialPage is one request of a trial, its answer, and what every expression made of it.
type TrialPage struct {
	Request transport.Request
	Answer  ledger.Answer
	Steps   []Step
}

// Asking gives the answer to a request of a trial, which may not be made for the reason
// that bad gives. An error ends the trial.
type Asking func(page int, request transport.Request, bad error) (ledger.Answer, error)

// Try judges the answers to a read, of so many pages at most, as the engine does when it
// begins to read at now. Nothing is recorded.
func (k *Kind) Try(ctx context.Context, rec ledger.Record, now time.Time, most int, ask Asking) (t Trial) {
	if k.Read == nil {
		no := verdict.Judgement{Verdict: ledger.CannotTell, Cause: ledger.CauseNotAsked, Reason: "the kind has no read"}
		return Trial{Judgement: no, word: "cannot_tell"}
	}
	f := verdict.Findings{Began: now, Ended: now}
	t.pages(ctx, k, rec, most, ask, &f)
	t.Judgement = verdict.Judge(k.Read.Identity(), f, k.Proof(rec))
	switch t.word = string(t.Verdict); {
	case t.Verdict != ledger.CannotTell:
	case t.Cause == ledger.CauseNone || t.Cause == ledger.CauseGone:
		t.word = "none"
	default:
		t.word = "cannot_tell"
	}
	return t
}

// pages asks for one page after the other and judges them.
func (t *Trial) pages(ctx context.Context, k *Kind, rec ledger.Record, most int, ask Asking, f *verdict.Findings) {
	var cursor any
	for page := 1; ; page++ {
		request, err := k.Read.Request(rec, cursor)
		a, err := ask(page, request, err)
		if err != nil {
			f.Trouble = fmt.Sprintf("page %d: %v", page, err)
			return
		}
		t.Pages = append(t.Pages, TrialPage{request, a, k.Read.trace(ctx, rec, a)})
		// What an old answer shows was there; what it does not show may be there now.
		f.Stale = cmp.Or(f.Stale, transport.Stale(a))
		found, err := k.Read.JudgePage(ctx, rec, cursor, transport.WithoutAge(a))
		if err != nil {
			f.Trouble, t.Found.Valid, t.Found.Complete = err.Error(), false, false
			return
		}
		cursor = f.Add(found, most)
		found.Effects, found.Valid = f.Effects, true
		if t.Found = found; cursor == nil {
			return
		}
	}
}

// Step is one expression of a read and what it gave.
type Step struct {
	Name       string          `json:"name"`
	Expression string          `json:"expression"`
	Value      json.RawMessage `json:"value"` // nil when it erred
	Error      string          `json:"error,omitempty"`
}

func (s *Step) fail(err error) {
	if err != nil {
		s.Error = err.Error()
	}
}

type tracer struct {
	ctx   context.Context
	steps []Step
}

func (t *tracer) step(name string, e *expr.Expression, vars *variables) any {
	if e == nil {
		return nil
	}
	s := Step{Name: name, Expression: e.Text}
	v, err := e.Eval(t.ctx, vars.Names)
	var data any
	if err == nil {
		data, err = v.Data()
	}
	if err == nil {
		s.Value = ledger.EncodeJSON(data)
	}
	s.fail(err)
	t.steps = append(t.steps, s)
	return data
}

// tracedCandidates are how many of the candidates are looked at one by one.
const tracedCandidates = 20

// candidate evaluates the expressions on one candidate: first its mark and whether it
// is the operation's, then the rest, on the operation's own only.
func (t *tracer) candidate(r *Read, one *variables) {
	if r.mark != nil {
		t.step("mark", r.mark, one)
		expected, err := r.expected(*one.rec)
		marks, unmarked := r.marks(t.ctx, one)
		own := err == nil && unmarked == nil && slices.ContainsFunc(marks, func(m string) bool { return r.owns(m, expected) })
		s := Step{Name: "own", Expression: "the mark is " + expected, Value: ledger.EncodeJSON(own)}
		s.fail(errors.Join(err, unmarked))
		t.steps = append(t.steps, s)
		if !own {
			return
		}
	}
	t.step("created", r.created, one)
	t.step("final", r.final, one)
	t.step("same", r.same, one)
	t.step("receipt", r.receipt, one)
	t.step("reply", r.reply, one)
}

// trace evaluates every expression of the read on the answer to one page, in the
// order in which they are asked.
func (r *Read) trace(ctx context.Context, rec ledger.Record, a ledger.Answer) []Step {
	t := &tracer{ctx: ctx}
	vars := r.kind.variables(rec).withAnswer(&a)
	t.step("valid", r.valid, vars)
	t.step("state", r.state, vars)
	candidates, _ := t.step("list", r.list, vars).([]any)
	for _, it := range candidates[:min(len(candidates), tracedCandidates)] {
		t.candidate(r, vars.effect(expr.NewValue(it)))
	}
	t.step("complete", r.complete, vars)
	if r.next != nil {
		t.step("next", r.next, vars)
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
