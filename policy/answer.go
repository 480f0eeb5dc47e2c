package policy

import (
	"context"
	"fmt"
	"slices"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/transport"
)

// JudgeAnswer applies the kind's own rules (`committed`, `refused`, `already`) to an
// answer to a write. Decided is false when none applies: the general rule of the
// outcome decides then. A rule that fails decides for uncertain, and the error says
// why.
func (k *Kind) JudgeAnswer(ctx context.Context, rec ledger.Record, a ledger.Answer) (ledger.Ruling, error) {
	if !transport.Whole(&a) {
		return ledger.Ruling{}, nil // there is nothing to rule on
	}
	vars := k.variables(rec).withAnswer(&a)
	doubt := func(err error) (ledger.Ruling, error) {
		return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, err
	}
	var err error
	ask := func(name string, e *expr.Expression) (holds bool) {
		if e == nil || err != nil {
			return false
		}
		if holds, err = e.Truth(ctx, vars.Names); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return holds
	}
	refused, committed := ask("refused", k.refused), ask("committed", k.committed)
	already := earlierDoubt(rec) && ask("already", k.already)
	if err != nil {
		return doubt(err)
	}
	switch {
	case refused && (committed || already):
		return doubt(fmt.Errorf("the rules say that it was refused and that it is there"))
	case committed || already:
		out := ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted, Already: already}
		out.Receipt = k.answerReceipt(ctx, vars)
		return out, nil
	case refused:
		return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}, nil
	case k.committed != nil && success(a):
		// The kind says exactly when it is committed, and this is not it.
		return doubt(nil)
	case k.receipt == nil && (k.Read == nil || k.Read.receipt == nil): // nothing is to be read in it, however long it is
	case success(a):
		return ledger.Ruling{Receipt: k.answerReceipt(ctx, vars)}, nil
	}
	return ledger.Ruling{}, nil
}

// success reports whether an answer says, by the rules of its transport, that a write
// was done.
func success(a ledger.Answer) bool {
	done, err := transport.Succeeded(&a, a.Status >= 200 && a.Status < 300)
	return done && err == nil
}

// earlierDoubt reports whether an attempt before the newest is in doubt.
func earlierDoubt(rec ledger.Record) bool {
	earlier := rec.Attempts[:max(0, len(rec.Attempts)-1)]
	return slices.ContainsFunc(earlier, func(a ledger.Attempt) bool { return a.Final() == ledger.OutcomeUncertain && a.Proof == "" })
}

// answerReceipt reads the receipt from an answer that committed: by
// `answer.receipt`, else by the read's `receipt` with the answer as the effect.
// A receipt is a convenience, so an error means only that there is none.
func (k *Kind) answerReceipt(ctx context.Context, vars *variables) string {
	e, with := k.receipt, vars
	if e == nil && k.Read != nil && k.Read.receipt != nil {
		doc, err := transport.Document(vars.answer)
		if _, object := doc.(map[string]any); err != nil || !object {
			return ""
		}
		e, with = k.Read.receipt, vars.effect(expr.NewValue(doc))
	}
	text, err := receiptOf(ctx, e, with)
	if err != nil {
		return ""
	}
	return text
}

// isValid evaluates `valid`. Where that does not look at the status, exit code or
// isError itself, the answer must also be a success. The error says why it is not.
func (r *Read) isValid(ctx context.Context, vars *variables) error {
	if !r.valid.Uses("status", "exit", "isError") {
		fine, err := transport.Succeeded(vars.answer, vars.answer.Status == 200)
		if err != nil {
			return err
		}
		if !fine {
			return transport.Refusal(vars.answer, false)
		}
	}
	if r.valid == nil {
		return nil
	}
	holds, err := r.valid.Truth(ctx, vars.Names)
	if err == nil && !holds {
		err = transport.Refusal(vars.answer, true)
	}
	return err
}
