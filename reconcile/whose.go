package reconcile

import (
	"context"
	"fmt"
	"slices"

	"indoubt/ledger"
	"indoubt/policy"
)

// whose tells why one effect that was found may be another operation's: the
// check does not know ours from that of a twin, and a twin wants the same. ""
// when it is ours.
func (e *Engine) whose(ctx context.Context, k *policy.Kind, rec ledger.Record, found policy.Effect) string {
	o := rec.Operation
	if k.Idempotent || k.Read.KnowsItsOwn() || o.StateAt(rec.Now) != ledger.Uncertain {
		return ""
	}
	for _, r := range rec.Related {
		twin, err := e.o.Store.Read(ctx, ledger.Locator{ID: r.ID, Skip: ledger.PartReads | ledger.PartRelated | ledger.PartHolds | ledger.PartLease | ledger.PartPricing})
		if err != nil {
			return "another operation may have made it, and the ledger did not tell: " + err.Error()
		}
		other := twin.Operation
		if other.Fingerprint != o.Fingerprint || other.Kind != o.Kind || neverActed(twin) {
			continue
		}
		if known := other.Receipts; other.State == ledger.Committed && len(known) > 0 && len(known) >= other.Effects &&
			found.Receipt != "" && !slices.Contains(known, found.Receipt) {
			continue
		}
		return fmt.Sprintf("%s wants the same and may have made it: this check does not look for the token", other.ID)
	}
	return ""
}

// neverActed tells whether every attempt is known to have had no effect.
func neverActed(rec ledger.Record) bool {
	return rec.Operation.State == ledger.Failed && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool {
		return a.Proof != ledger.ProvenAbsent && (a.Final() != ledger.OutcomeFailed || a.Proof == "")
	})
}
