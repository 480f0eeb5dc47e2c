package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

const (
	// maxOthers bounds how many other operations are compared with what was found.
	maxOthers = 500
	// markingTime bounds how long a check waits for the marks of operations that
	// were written without one.
	markingTime = 2 * time.Second
)

// shared says why what was found by a name may be another operation's effect:
// another one that may have acted has the same mark.
func (e *reader) shared(ctx context.Context, k *policy.Kind, rec ledger.Record, effects []policy.Effect) (ledger.Cause, string) {
	if k.Read.Identity() != policy.ByName {
		return "", ""
	}
	name, err := k.Read.Name(rec.Operation)
	if err != nil {
		return ledger.CauseUnchecked, err.Error()
	}
	if err := e.markAll(ctx); err != nil {
		return ledger.CauseUnchecked, "whether another operation has the same mark is not known: " + err.Error()
	}
	ids, err := e.o.Store.Marked(ctx, name, maxOthers)
	if err == nil && len(ids) == maxOthers {
		return ledger.CauseShared, fmt.Sprintf("%d operations or more have the mark %s, and one of them may have made it", maxOthers, name)
	}
	var others []ledger.Record
	if err == nil {
		others, err = e.o.Store.Records(ctx, ids)
	}
	if err != nil {
		return ledger.CauseUnchecked, "another operation may have made it, and the ledger did not tell: " + err.Error()
	}
	for _, other := range others {
		p := other.Operation
		if p.ID != rec.Operation.ID && k.SameSide(e.policy().Kind(p.Kind)) && !neverActed(other) && !accountedFor(other, effects) {
			return ledger.CauseShared, fmt.Sprintf("%s has the same mark, %s, and may have made it", p.ID, name)
		}
	}
	return "", ""
}

// markAll gives marks to every operation that was written without them, or under
// other rules.
func (e *reader) markAll(ctx context.Context) error {
	for began := time.Now(); ; {
		more, err := e.mark(ctx, batch)
		switch {
		case err != nil || !more:
			return err
		case time.Since(began) > markingTime:
			return fmt.Errorf("the ledger has many operations without a mark; they are being given one")
		}
	}
}

// mark gives marks to some of them.
func (e *reader) mark(ctx context.Context, many int) (more bool, err error) {
	pol := e.policy()
	return e.o.Store.Mark(ctx, func(kind string) string { return pol.Kind(kind).MarkRules() },
		func(o ledger.Operation) ledger.Marks { return pol.Kind(o.Kind).Marks(o) }, many)
}

// known reports whether every effect found is already recorded for the operation.
func known(o ledger.Operation, found []policy.Effect) bool {
	return !slices.ContainsFunc(found, func(f policy.Effect) bool { return f.Receipt == "" || !slices.Contains(o.Receipts, f.Receipt) })
}

// accountedFor reports whether every effect of an operation is known, by its own
// answer and never in doubt, and none of them is among those found.
func accountedFor(rec ledger.Record, found []policy.Effect) bool {
	o := rec.Operation
	return o.State == ledger.Committed && o.ByAnswer && !o.Doubted && len(o.Receipts) > 0 && len(o.Receipts) >= o.Effects &&
		!slices.ContainsFunc(found, func(f policy.Effect) bool { return f.Receipt == "" || slices.Contains(o.Receipts, f.Receipt) })
}

// neverActed reports whether every attempt is known to have had no effect.
func neverActed(rec ledger.Record) bool {
	return rec.Operation.State == ledger.Failed && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool {
		return a.Proof != ledger.ProofNotThere && (a.Final() != ledger.OutcomeFailed || a.Proof == "")
	})
}
