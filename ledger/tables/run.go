package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
)

const runColumns = `
	SELECT id, idempotency_key, digest, verb, actor, os_user, host, machine, terminal, terms, size, canaries, pace,
	       state, why, tally, trouble, driver, holder, driven_until, created_at, changed_at, finished_at
	  FROM decisions `

func scanRun(rows Rows) (r ledger.DecisionRun, err error) {
	var terms, tally string
	var pace, until, created, changed, finished int64
	if err := rows.Scan(&r.ID, &r.IdempotencyKey, &r.Digest, &r.Verb, &r.Actor.Name, &r.Actor.OSUser, &r.Actor.Host, &r.Actor.Machine, &r.Actor.Terminal,
		&terms, &r.Size, &r.Canaries, &pace, &r.State, &r.Why, &tally, &r.Trouble, &r.Driver.Name, &r.Driver.Holder, &until, &created, &changed, &finished); err != nil {
		return r, err
	}
	r.Pace, r.Driver.Until = time.Duration(pace)*time.Millisecond, At(until)
	r.CreatedAt, r.ChangedAt, r.FinishedAt = At(created), At(changed), At(finished)
	return r, errors.Join(json.Unmarshal([]byte(terms), &r.Terms), json.Unmarshal([]byte(tally), &r.Tally))
}

const itemColumns = `
	SELECT n, operation_id, version, kind, title, basis, request, came, word, moved_by, came_at FROM decision_items WHERE run_id = ? `

func scanItem(rows Rows) (it ledger.RunItem, err error) {
	var when int64
	err = rows.Scan(&it.N, &it.OperationID, &it.Version, &it.Kind, &it.Title, &it.Basis, &it.Request, &it.Came, &it.Word, &it.By, &when)
	it.At = At(when)
	return it, err
}

// Run records a decision run with its items before its first change.
func (s *Store) Run(ctx context.Context, run ledger.DecisionRun, items []ledger.RunItem) (recorded ledger.DecisionRun, known bool, err error) {
	if run.ID == "" {
		run.ID = ledger.NewID()
	}
	err = s.update(ctx, func(tx *tx) error {
		names := []string{"run:" + run.ID}
		if run.IdempotencyKey != "" {
			names = append(names, "run by key:"+run.IdempotencyKey)
		}
		if err := tx.Lock(names...); err != nil {
			return err
		}
		before, err := firstRow(tx.Tx, scanRun, runColumns+`WHERE id = ?1 OR idempotency_key = ?2 AND idempotency_key <> '' LIMIT 1`, run.ID, run.IdempotencyKey)
		if err != nil {
			return err
		}
		if known = before != nil; known {
			if recorded = *before; recorded.Verb != run.Verb || recorded.Digest != run.Digest {
				return ledger.ErrKeyReused
			}
			return nil
		}
		r, event, err := run.Record(items, tx.now())
		if err != nil {
			return err
		}
		r.CreatedAt = At(Millis(r.CreatedAt))
		terms, err := json.Marshal(r.Terms)
		if err != nil {
			return err
		}
		if err := tx.Later(`
			INSERT INTO decisions (id, idempotency_key, digest, verb, actor, os_user, host, machine, terminal, terms, size, canaries, pace,
			                       state, driver, holder, driven_until, created_at, changed_at, finished_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			r.ID, r.IdempotencyKey, r.Digest, r.Verb, named(r.Actor.Name), r.Actor.OSUser, r.Actor.Host, tx.d.Flag(r.Actor.Machine), tx.d.Flag(r.Actor.Terminal),
			string(terms), r.Size, r.Canaries, r.Pace.Milliseconds(), r.State, r.Driver.Name, r.Driver.Holder, tx.d.Time(r.Driver.Until), tx.d.Time(r.CreatedAt), tx.d.Time(r.ChangedAt), tx.d.Time(r.FinishedAt)); err != nil {
			return err
		}
		for n, it := range items {
			if err := tx.Later(`
				INSERT INTO decision_items (run_id, n, operation_id, version, kind, title, basis, request) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
				r.ID, n, it.OperationID, it.Version, it.Kind, it.Title, it.Basis, it.Request); err != nil {
				return err
			}
		}
		recorded = r
		return tx.happens(event)
	})
	if err != nil && !errors.Is(err, ledger.ErrKeyReused) {
		return ledger.DecisionRun{}, false, err
	}
	return recorded, known, err
}

// happens leaves an event, if there is one.
func (tx *tx) happens(e *ledger.Event) error {
	if e == nil {
		return nil
	}
	return tx.event(*e)
}

// ChangeRun applies a rule to a run.
func (s *Store) ChangeRun(ctx context.Context, runID string, item int, changeID string, rule ledger.RunRule) (after ledger.DecisionRun, next *ledger.RunItem, err error) {
	err = s.update(ctx, func(tx *tx) error {
		if err := cmp.Or(tx.Lock("run:"+runID), tx.Share("holds")); err != nil {
			return err
		}
		rec, err := tx.runRecord(runID, item)
		if err != nil {
			return err
		}
		after, next = rec.Run, rec.Next
		if known, err := tx.happened(changeID); known || err != nil {
			return err
		}
		c, err := rule(rec)
		if err != nil || c.Run == nil {
			return err
		}
		after = *c.Run
		tally, err := json.Marshal(after.Tally)
		if err != nil {
			return err
		}
		if err := tx.Later(`
			UPDATE decisions SET state = ?, why = ?, tally = ?, trouble = ?, driver = ?, holder = ?, driven_until = ?, changed_at = ?, finished_at = ? WHERE id = ?`,
			after.State, after.Why, string(tally), after.Trouble, after.Driver.Name, after.Driver.Holder, tx.d.Time(after.Driver.Until), tx.d.Time(after.ChangedAt), tx.d.Time(after.FinishedAt), runID); err != nil {
			return err
		}
		if it := c.Item; it != nil {
			if err := tx.Later(`UPDATE decision_items SET came = ?, word = ?, moved_by = ?, came_at = ? WHERE run_id = ? AND n = ?`, it.Came, it.Word, it.By, tx.d.Time(it.At), runID, it.N); err != nil {
				return err
			}
		}
		if c.Again && rec.Held != nil {
			if err := tx.Later(`UPDATE decision_items SET came = '', word = '', moved_by = '', came_at = ? WHERE run_id = ? AND came = 'held'`, tx.d.Time(time.Time{}), runID); err != nil {
				return err
			}
			if next, err = firstRow(tx.Tx, scanItem, itemColumns+`AND came = '' ORDER BY n LIMIT 1`, runID); err != nil {
				return err
			}
		}
		return tx.happens(c.Event)
	})
	return after, next, err
}

// runRecord is what a rule about a run looks at.
func (tx *tx) runRecord(runID string, item int) (*ledger.RunRecord, error) {
	run, err := firstRow(tx.Tx, scanRun, runColumns+`WHERE id = ?`, runID)
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, fmt.Errorf("run %s: %w", runID, ledger.ErrNotFound)
	}
	rec := &ledger.RunRecord{Run: *run, Now: tx.now()}
	if rec.Item, err = firstRow(tx.Tx, scanItem, itemColumns+`AND n = ?`, runID, item); err != nil {
		return nil, err
	}
	if rec.Next, err = firstRow(tx.Tx, scanItem, itemColumns+`AND came = '' AND n <> ? ORDER BY n LIMIT 1`, runID, item); err != nil {
		return nil, err
	}
	if rec.Held, err = firstRow(tx.Tx, scanItem, itemColumns+`AND came = 'held' ORDER BY n LIMIT 1`, runID); err != nil {
		return nil, err
	}
	rec.Holds, err = loadHolds(tx.Tx, rec.Now)
	return rec, err
}

// Runs lists decision runs, newest first.
func (s *Store) Runs(ctx context.Context, q ledger.RunQuery) ([]ledger.DecisionRun, error) {
	where, args := `WHERE size > 1`, []any{}
	switch {
	case q.ID != "":
		where, args = `WHERE id >= ? AND id < ?`, []any{q.ID, q.ID + "\U0010FFFF"}
	case q.Open:
		where = `WHERE finished_at = 0 AND size > 1`
	}
	return Gather(ctx, s.db, scanRun, runColumns+where+` ORDER BY created_at DESC, id DESC LIMIT ?+0`, append(args, max(q.Limit, 1))...)
}

// RunItems are the items of a run in their order.
func (s *Store) RunItems(ctx context.Context, runID string) ([]ledger.RunItem, error) {
	return Gather(ctx, s.db, scanItem, itemColumns+`ORDER BY n`, runID)
}
