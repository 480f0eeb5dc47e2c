package tables

import (
	"context"

	"indoubt/ledger"
)

// ApplyPolicy puts a policy in force.
func (s *Store) ApplyPolicy(ctx context.Context, p ledger.PolicyText) error {
	return s.update(ctx, func(tx *tx) error {
		tx.Known(p.ChangeID)
		if err := tx.Lock("policy"); err != nil {
			return err
		}
		if known, err := tx.happened(p.ChangeID); known || err != nil {
			return err
		}
		last, err := policyInForce(tx.Tx, ledger.PolicyText{})
		if err == nil {
			err = p.Follows(last)
		}
		if err != nil {
			return err
		}
		e, err := p.Event()
		if err != nil {
			return err
		}
		e.At = tx.now()
		return tx.event(e)
	})
}

// Policy returns the policy in force.
func (s *Store) Policy(ctx context.Context, have ledger.PolicyText) (p ledger.PolicyText, err error) {
	err = s.db.Brief(ctx, func(q Querier) (err error) {
		p, err = policyInForce(q, have)
		return err
	})
	return p, err
}

// policyInForce reads the policy in force, but not its files where the caller has it: they
// are the greatest part of what an event may hold.
func policyInForce(q Querier, have ledger.PolicyText) (ledger.PolicyText, error) {
	newest := ` FROM events WHERE verb = '` + ledger.PolicyApplied + `' ORDER BY seq DESC LIMIT 1`
	id, err := firstRow(q, func(rows Rows) (id string, err error) { return id, rows.Scan(&id) }, `SELECT id`+newest)
	switch {
	case err != nil || id == nil:
		return ledger.PolicyText{}, err
	case *id == have.ChangeID:
		return have, nil
	}
	last, err := firstRow(q, func(rows Rows) (ledger.Event, error) { return ScanEvent(rows) }, `SELECT `+EventColumns+newest)
	if err != nil || last == nil {
		return ledger.PolicyText{}, err
	}
	return ledger.PolicyOf(*last)
}

// Tell writes the event of a notice.
func (s *Store) Tell(ctx context.Context, notice ledger.Event) (first bool, err error) {
	err = s.update(ctx, func(tx *tx) error {
		tx.Known(notice.ID)
		if err := tx.Lock("notices"); err != nil {
			return err
		}
		known, err := tx.happened(notice.ID)
		if first = !known; known || err != nil {
			return err
		}
		return tx.event(notice)
	})
	return first, err
}
