package sqlite

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
	return s.write(ctx, func(tx *tx) error {
		if known, err := tx.happened(h.ChangeID); known || err != nil {
			return err
		}
		now := s.now()
		if h.CreatedAt.IsZero() {
			h.CreatedAt = now
		}
		if err := tx.exec(`UPDATE holds SET released_at = ? WHERE scope = ? AND released_at = 0`, ms(now), h.Scope); err != nil {
			return err
		}
		return tx.exec(`
			INSERT INTO holds (scope, kinds, actor, os_user, host, machine, terminal, reason, created_at, until, change_id)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			h.Scope, list(h.Kinds), named(h.Actor.Name), h.Actor.OSUser, h.Actor.Host, flag(h.Actor.Machine), flag(h.Actor.Terminal),
			h.Reason, ms(h.CreatedAt), ms(h.Until), h.ChangeID)
	})
}

// LiftHold releases a scope. One that is not held is no error and no event.
func (s *Store) LiftHold(ctx context.Context, scope ledger.HoldScope, actor ledger.Actor, reason, changeID string) error {
	if changeID == "" {
		changeID = ledger.NewID()
	}
	return s.write(ctx, func(tx *tx) error {
		if known, err := tx.happened(changeID); known || err != nil {
			return err
		}
		now := s.now()
		n, err := tx.execN(`UPDATE holds SET released_at = ? WHERE scope = ? AND released_at = 0`, ms(now), scope)
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

// happened reports whether a change id is in the history.
func (tx *tx) happened(changeID string) (known bool, err error) {
	err = tx.scan(`SELECT EXISTS (SELECT 1 FROM events WHERE id = ?)`, []any{changeID}, &known)
	return known, err
}

// Holds returns the holds in force at now.
func (s *Store) Holds(ctx context.Context, now time.Time) ([]ledger.Hold, error) {
	holds, err := loadHolds(outside{ctx, s.handle}, now)
	return holds, translate(s.path, err)
}
