package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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

// Run records a decision run before its first change.
func (s *Store) Run(ctx context.Context, run ledger.DecisionRun) (recorded ledger.DecisionRun, known bool, err error) {
	if run.ID == "" {
		run.ID = ledger.NewID()
	}
	err = s.write(ctx, func(tx *tx) error {
		var err error
		recorded, err = tx.run(run)
		if err == nil {
			known = true
			if recorded.Verb != run.Verb || recorded.Digest != run.Digest {
				return ledger.ErrKeyReused
			}
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		recorded, known = run, false
		if recorded.CreatedAt.IsZero() {
			recorded.CreatedAt = s.now()
		}
		recorded.CreatedAt = at(ms(recorded.CreatedAt))
		return tx.exec(`
			INSERT INTO decisions (id, idempotency_key, digest, verb, actor, os_user, host, machine, terminal, operations, done, result, created_at, finished_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			run.ID, run.IdempotencyKey, run.Digest, run.Verb, named(run.Actor.Name), run.Actor.OSUser, run.Actor.Host, flag(run.Actor.Machine),
			flag(run.Actor.Terminal), list(run.Operations), run.Done, text(run.Result), ms(recorded.CreatedAt), ms(run.FinishedAt))
	})
	if err != nil && !errors.Is(err, ledger.ErrKeyReused) {
		return ledger.DecisionRun{}, false, err
	}
	return recorded, known, err
}

// run finds a run by its id or its idempotency key.
func (tx *tx) run(run ledger.DecisionRun) (ledger.DecisionRun, error) {
	var r ledger.DecisionRun
	var operations string
	var result sql.NullString
	var created, finished int64
	err := tx.scan(`
		SELECT id, idempotency_key, digest, verb, actor, os_user, host, machine, terminal, operations, done, result, created_at, finished_at
		  FROM decisions WHERE id = ?1 OR idempotency_key = ?2 AND idempotency_key <> '' LIMIT 1`, []any{run.ID, run.IdempotencyKey},
		&r.ID, &r.IdempotencyKey, &r.Digest, &r.Verb, &r.Actor.Name, &r.Actor.OSUser, &r.Actor.Host, &r.Actor.Machine, &r.Actor.Terminal,
		&operations, &r.Done, &result, &created, &finished)
	r.Operations, r.Result, r.CreatedAt, r.FinishedAt = unlist(operations), raw(result.String), at(created), at(finished)
	return r, err
}

// Progress stores how far a run has come; with a result it is finished.
func (s *Store) Progress(ctx context.Context, runID string, done int, result json.RawMessage) error {
	return s.write(ctx, func(tx *tx) error {
		var finished int64
		if len(result) > 0 {
			finished = ms(s.now())
		}
		n, err := tx.execN(`
			UPDATE decisions SET done = max(done, ?), result = coalesce(?, result), finished_at = max(finished_at, ?) WHERE id = ?`,
			done, text(result), finished, runID)
		if err == nil && n == 0 {
			err = ledger.ErrNotFound
		}
		return err
	})
}
