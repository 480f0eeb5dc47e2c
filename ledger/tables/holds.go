package tables

import (
	"context"
	"encoding/json"
	"time"

	"indoubt/ledger"
)

// Hold stops a scope. The database leaves the event.
func (s *Store) Hold(ctx context.Context, h ledger.Hold) error {
	if h.ChangeID == "" {
		h.ChangeID = ledger.NewID()
	}
	return s.update(ctx, func(tx *tx) error {
		known, err := tx.holding(h.ChangeID)
		if known || err != nil {
			return err
		}
		now := tx.now() // and not the clock of who holds: a run that goes on is stopped by what came since
		if err := tx.Later(liftHold, tx.d.Time(now), h.Scope); err != nil {
			return err
		}
		return tx.Later(`
			INSERT INTO holds (scope, kinds, actor, os_user, host, machine, terminal, reason, created_at, until, change_id)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			h.Scope, list(h.Kinds), named(h.Actor.Name), h.Actor.OSUser, h.Actor.Host, tx.d.Flag(h.Actor.Machine), tx.d.Flag(h.Actor.Terminal),
			h.Reason, tx.d.Time(now), tx.d.Time(h.Until), h.ChangeID)
	})
}

// LiftHold releases a scope. One that is not held is no error and no event.
func (s *Store) LiftHold(ctx context.Context, scope ledger.HoldScope, actor ledger.Actor, reason, changeID string) error {
	if changeID == "" {
		changeID = ledger.NewID()
	}
	return s.update(ctx, func(tx *tx) error {
		known, err := tx.holding(changeID)
		if known || err != nil {
			return err
		}
		now := tx.now()
		n, err := tx.Exec(liftHold, tx.d.Time(now), scope)
		if err != nil || n == 0 {
			return err
		}
		detail, err := json.Marshal(map[string]string{"scope": string(scope)})
		if err != nil {
			return err
		}
		return tx.event(ledger.Event{ID: changeID, At: now, Verb: "release", Actor: actor, Reason: reason, Detail: detail})
	})
}

const liftHold = `UPDATE holds SET released_at = ? WHERE id IN (SELECT id FROM holds WHERE scope = ? AND released_at = 0)`

// holding keeps others from what a hold changes, and reports whether a change is in the
// history.
func (tx *tx) holding(changeID string) (known bool, err error) {
	tx.Known(changeID)
	if err := tx.Lock("holds"); err != nil {
		return false, err
	}
	return tx.happened(changeID)
}

// happened reports whether a change id is in the history.
func (tx *tx) happened(changeID string) (known bool, err error) {
	err = one(tx.Tx, `SELECT EXISTS (SELECT 1 FROM events WHERE id = ?)`, []any{changeID}, &known)
	return known, err
}

// Holds returns the holds in force at now.
func (s *Store) Holds(ctx context.Context, now time.Time) ([]ledger.Hold, error) {
	var holds []ledger.Hold
	err := s.db.Brief(ctx, func(q Querier) (err error) {
		holds, err = loadHolds(q, now)
		return err
	})
	return holds, err
}
