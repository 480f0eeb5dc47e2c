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
		last, err := policyInForce(tx.Tx, 0)
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

// Policy returns the policy that was put in force last.
func (s *Store) Policy(ctx context.Context, have int64) (p ledger.PolicyText, err error) {
	err = s.db.Brief(ctx, func(q Querier) (err error) {
		p, err = policyInForce(q, have)
		return err
	})
	return p, err
}

// policyInForce reads the policy in force, but not its files where the caller has them:
// they are the greatest part of what an event may hold.
func policyInForce(q Querier, have int64) (ledger.PolicyText, error) {
	last, err := firstRow(q, func(rows Rows) (ledger.Event, error) { return ScanEvent(rows) }, `
		SELECT `+EventColumns+` FROM events WHERE verb = '`+ledger.PolicyApplied+`' ORDER BY seq DESC LIMIT 1`)
	if err != nil || last == nil {
		return ledger.PolicyText{}, err
	}
	p, err := ledger.PolicyOf(*last)
	if p.Number == have {
		p.Files = nil
	}
	return p, err
}
