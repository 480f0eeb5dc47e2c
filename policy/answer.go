package policy

import (
	"context"
	"fmt"

	"indoubt/ledger"
)

// JudgeAnswer says what the kind's own rules (`committed`, `refused`,
// `already`) make of an answer to a write. Decided is false when they say
// nothing, and the general rule of the outcome applies. A rule that errs
// decides for uncertain, and the error says why.
func (k *Kind) JudgeAnswer(ctx context.Context, rec ledger.Record, a ledger.Answer) (Ruling, error) {
	if !whole(a) {
		return Ruling{}, nil // there is nothing to rule on
	}
	vars := k.variables(rec).withAnswer(&a)
	doubt := func(err error) (Ruling, error) {
		return Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, err
	}
	var err error
	ask := func(name string, e *expression) (holds bool) {
		if e == nil || err != nil {
			return false
		}
		if holds, err = e.truth(ctx, vars); err != nil {
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
		out := Ruling{Decided: true, Outcome: ledger.OutcomeCommitted, Already: already}
		out.Receipt = k.answerReceipt(ctx, vars)
		return out, nil
	case refused:
		return Ruling{Decided: true, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}, nil
	case k.committed != nil && success(a):
		// The kind says exactly when it is committed, and this is not it.
		return doubt(nil)
	case k.receipt == nil && (k.Read == nil || k.Read.receipt == nil): // nothing is to be read in it, however long it is
	case success(a):
		return Ruling{Receipt: k.answerReceipt(ctx, vars)}, nil
	}
	return Ruling{}, nil
}

// whole tells whether a complete answer came.
func whole(a ledger.Answer) bool {
	switch {
	case a.Err != nil:
		return false
	case a.Via == "mcp":
		return a.RPC != nil
	case a.Via == "sql":
		return true
	}
	return a.Exited || a.Status != 0
}

func success(a ledger.Answer) bool {
	switch a.Via {
	case "mcp":
		failed, err := toolAnswer(&a, "isError")
		return err == nil && failed == false
	case "sql":
		return true
	}
	if a.Status != 0 {
		return a.Status >= 200 && a.Status < 300
	}
	return a.Exited && a.Exit == 0
}

// earlierDoubt tells whether an attempt before the newest may have landed.
func earlierDoubt(rec ledger.Record) bool {
	for i, a := range rec.Attempts {
		if i < len(rec.Attempts)-1 && a.Final() == ledger.OutcomeUncertain && a.Proof == "" {
			return true
		}
	}
	return false
}

// answerReceipt reads the receipt from an answer that committed: by
// `send.receipt`, else by the read's `receipt` with the answer as the effect.
// It is a convenience, so that an error means only that there is none.
func (k *Kind) answerReceipt(ctx context.Context, vars *variables) string {
	e, with := k.receipt, vars
	if e == nil && k.Read != nil && k.Read.receipt != nil {
		doc, err := vars.document()
		if _, object := doc.(map[string]any); err != nil || !object {
			return ""
		}
		e, with = k.Read.receipt, vars.effect(doc)
	}
	text, err := receiptOf(ctx, e, with)
	if err != nil {
		return ""
	}
	return text
}
