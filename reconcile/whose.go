package reconcile

import (
	"context"
	"fmt"
	"slices"

	"indoubt/ledger"
	"indoubt/policy"
)

// namedTwins is how many relations of one sort a record names; with as many, there
// may be more.
const namedTwins = 20

// whose tells why what was found may be another operation's: the check does not
// know ours from that of a twin, and a twin wants the same. "" when it is ours.
func (e *Engine) whose(ctx context.Context, k *policy.Kind, rec ledger.Record, found []policy.Effect) string {
	o := rec.Operation
	if k.Idempotent || k.Read.KnowsItsOwn() || len(found) == 1 && o.StateAt(rec.Now) != ledger.Uncertain {
		return ""
	}
	if o.Fingerprint == "" {
		return "it was recorded without a fingerprint of its input, so others that want the same are not known: this check does not look for the token"
	}
	// Whoever made what the answer shows was in the ledger before it came, though
	// not always before it was asked for.
	now, err := e.o.Store.Read(ctx, ledger.Locator{ID: o.ID})
	if err != nil {
		return "another operation may have made it, and the ledger did not tell: " + err.Error()
	}
	overtook := 0
	for _, r := range now.Related {
		if r.Overtook {
			overtook++
		}
		twin, err := e.o.Store.Read(ctx, ledger.Locator{ID: r.ID, Skip: ledger.PartReads | ledger.PartRelated | ledger.PartHolds | ledger.PartLease | ledger.PartPricing})
		if err != nil {
			return "another operation may have made it, and the ledger did not tell: " + err.Error()
		}
		other := twin.Operation
		if other.Fingerprint != o.Fingerprint || other.Kind != o.Kind || neverActed(twin) || elsewhere(other, found) {
			continue
		}
		return fmt.Sprintf("%s wants the same and may have made it: this check does not look for the token", other.ID)
	}
	if max(overtook, len(now.Related)-overtook) >= namedTwins {
		return "so many others want the same that one of them may have made it: this check does not look for the token"
	}
	return ""
}

// elsewhere tells whether all that an operation did is known, and none of it is
// what was found.
func elsewhere(o ledger.Operation, found []policy.Effect) bool {
	if o.State != ledger.Committed || len(o.Receipts) == 0 || len(o.Receipts) < o.Effects {
		return false
	}
	return !slices.ContainsFunc(found, func(f policy.Effect) bool { return f.Receipt == "" || slices.Contains(o.Receipts, f.Receipt) })
}

// neverActed tells whether every attempt is known to have had no effect.
func neverActed(rec ledger.Record) bool {
	return rec.Operation.State == ledger.Failed && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool {
		return a.Proof != ledger.ProvenAbsent && (a.Final() != ledger.OutcomeFailed || a.Proof == "")
	})
}
