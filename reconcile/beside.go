package reconcile

import (
	"context"
	"fmt"
	"slices"

	"indoubt/ledger"
)

// moves reports whether an event may change what other operations are told of this one:
// that it is there, and whether it landed or may have.
func moves(ev ledger.Event) bool {
	return ev.OperationID != "" && (ev.From != ev.To || ev.Conflict != ledger.NoConflict)
}

// priceBeside prices anew what is in doubt beside operations that have moved. A check
// that is on its way writes the price it was begun with, so what is being checked is
// looked at again after it.
func (e *Engine) priceBeside(ctx context.Context, moved []string) error {
	if e.onlyReads(ctx) || !e.leads(ledger.LeadLedger) {
		return nil
	}
	ids, err := e.o.Store.Beside(ctx, moved)
	if err != nil {
		return fmt.Errorf("find what is beside: %w", err)
	}
	for _, id := range e.after.checked {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var checked []string
	err = e.reprice(ctx, ids, func(rec ledger.Record, p ledger.Pricing) bool {
		if e.downs.of(e.policy().Kind(rec.Operation.Kind)).checks(rec.Operation.ID) {
			checked = append(checked, rec.Operation.ID)
		}
		return !p.DecideAt.Equal(rec.Pricing.DecideAt)
	})
	if err == nil {
		e.after.checked = checked
	}
	return err
}
