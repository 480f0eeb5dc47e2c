package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
)

// Expire writes down deadlines that have passed, earliest first. It also marks
// the rows whose time to ask a person has come, which keeps lists and counts
// from comparing their clocks.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	if err := s.writable(); err != nil {
		return 0, err
	}
	now := s.now()
	ids, err := collect(outside{ctx, s}, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) }, `
		SELECT id FROM operations INDEXED BY operations_pending
		 WHERE state = 'pending' AND deadline_at < ? ORDER BY deadline_at LIMIT ?`, ms(now), limit)
	if err != nil {
		return 0, translate(s.path, err)
	}
	applied := make([]ledger.Applied, len(ids))
	jobs := make([]func(*tx) error, len(ids))
	for i, id := range ids {
		jobs[i] = s.change(ledger.Locator{ID: id, Skip: ledger.AllParts}, ledger.NewID(), ledger.ExpireRule(), &applied[i])
	}
	n := 0
	errs := s.writer.doAll(ctx, jobs)
	for i, err := range errs {
		if err == nil && !applied[i].Noop {
			n++
		}
	}
	errs = append(errs, s.ripen(ctx, now, max(limit, 1)))
	return n, errors.Join(errs...)
}

func (s *Store) ripen(ctx context.Context, now time.Time, limit int) error {
	var some bool
	if err := s.one(ctx, `
		SELECT EXISTS (SELECT 1 FROM open_operations INDEXED BY open_by_clock
		                WHERE class = 'reading' AND clock_at <= ?)`, []any{ms(now)}, &some); err != nil || !some {
		return err
	}
	return s.writer.do(ctx, func(tx *tx) error {
		return tx.exec(`
			UPDATE open_operations SET ripe = 1
			 WHERE seq IN (SELECT seq FROM open_operations INDEXED BY open_by_clock
			                WHERE class = 'reading' AND clock_at <= ? LIMIT ?)`, ms(now), limit)
	})
}

var dueQuery = `
	SELECT ` + selected(hotColumn) + `, 1, 0, 0
	  FROM open_operations h INDEXED BY open_by_read
	  LEFT JOIN leases l ON l.operation_id = h.id
	 WHERE (h.state = 'uncertain' OR h.recheck_at <> 0) AND h.read_at <= ?1
	   AND (l.operation_id IS NULL OR l.holder = '' OR l.expires_at <= ?1)
	 ORDER BY h.read_at LIMIT ?2`

// Due returns operations whose next read is due and that nobody is reading.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]ledger.Row, error) {
	rows, err := collect(outside{ctx, s}, func(rows *sql.Rows) (ledger.Row, error) {
		return scanRow(rows, nil)
	}, dueQuery, ms(now), limit)
	return rows, translate(s.path, err)
}

// Lease takes or renews the right to reconcile an operation. A new holder gets a
// higher generation; one that has lost its lease finds that out by its own.
func (s *Store) Lease(ctx context.Context, operationID, holder, digest string, ttl time.Duration) (ledger.Lease, error) {
	var lease ledger.Lease
	if holder == "" {
		return lease, errors.New("a lease needs a holder")
	}
	err := s.write(ctx, func(tx *tx) (err error) {
		lease, err = tx.lease(operationID, holder, digest, ttl)
		return err
	})
	if err != nil {
		return ledger.Lease{}, err
	}
	return lease, nil
}

// Leases takes the leases that nobody else holds, in one transaction.
func (s *Store) Leases(ctx context.Context, operationIDs []string, holder, digest string, ttl time.Duration) ([]ledger.Lease, error) {
	if holder == "" {
		return nil, errors.New("a lease needs a holder")
	}
	if len(operationIDs) == 0 {
		return nil, s.writable()
	}
	var got []ledger.Lease
	err := s.write(ctx, func(tx *tx) error {
		got = got[:0]
		for _, id := range operationIDs {
			l, err := tx.lease(id, holder, digest, ttl)
			switch {
			case err == nil:
				got = append(got, l)
			case !errors.As(err, new(*ledger.LeasedError)):
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

func (tx *tx) lease(operationID, holder, digest string, ttl time.Duration) (ledger.Lease, error) {
	now := tx.w.store.now()
	lease := ledger.Lease{OperationID: operationID, Holder: holder, Digest: digest, ExpiresAt: at(ms(now.Add(ttl)))}
	var by string
	var until int64
	err := tx.scan(`SELECT holder, generation, expires_at FROM leases WHERE operation_id = ?`, []any{operationID}, &by, &lease.Generation, &until)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		var there bool
		if err := tx.scan(`SELECT EXISTS (SELECT 1 FROM operations WHERE id = ?)`, []any{operationID}, &there); err != nil {
			return lease, err
		}
		if !there {
			return lease, fmt.Errorf("%w: %s", ledger.ErrNotFound, operationID)
		}
		lease.Generation = 1
		_, err = tx.quietly(`INSERT INTO leases (operation_id, holder, generation, digest, expires_at) VALUES (?, ?, 1, ?, ?)`,
			operationID, holder, digest, ms(lease.ExpiresAt))
		return lease, err
	case err != nil:
		return lease, err
	case by != "" && by != holder && at(until).After(now):
		return lease, &ledger.LeasedError{Holder: by, Until: at(until)}
	case by != holder:
		lease.Generation++
	}
	_, err = tx.quietly(`UPDATE leases SET holder = ?, generation = ?, digest = ?, expires_at = ? WHERE operation_id = ?`,
		holder, lease.Generation, digest, ms(lease.ExpiresAt), operationID)
	return lease, err
}

// Release gives a lease back, if it is still held.
func (s *Store) Release(ctx context.Context, l ledger.Lease) error {
	return s.write(ctx, func(tx *tx) error { return tx.release(l) })
}

func (tx *tx) release(l ledger.Lease) error {
	_, err := tx.quietly(`UPDATE leases SET holder = '', expires_at = 0 WHERE operation_id = ? AND holder = ? AND generation = ?`,
		l.OperationID, l.Holder, l.Generation)
	return err
}

// Control returns when a positive control last held.
func (s *Store) Control(ctx context.Context, kind, digest string) (time.Time, error) {
	var held int64
	err := s.one(ctx, `SELECT coalesce((SELECT held_at FROM controls WHERE kind = ? AND digest = ?), 0)`, []any{kind, digest}, &held)
	return at(held), err
}

// ControlCandidate returns the newest operation that a control of its kind can
// look for.
func (s *Store) ControlCandidate(ctx context.Context, kind string, before time.Time) (ledger.Record, error) {
	var id string
	err := s.one(ctx, `
		SELECT id FROM operations INDEXED BY operations_by_answer
		 WHERE kind = ? AND state = 'committed' AND by_answer = 1 AND token_sent = 1 AND settled_at < ?
		 ORDER BY settled_at DESC LIMIT 1`, []any{kind, ms(before)}, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Record{}, fmt.Errorf("%w: none of kind %s is known to have landed by its own answer", ledger.ErrNotFound, kind)
	}
	if err != nil {
		return ledger.Record{}, err
	}
	return s.Read(ctx, ledger.Locator{ID: id})
}

// RecordControl stores a positive control's read, and when it held if it found
// what it looked for. The same read again changes nothing.
func (s *Store) RecordControl(ctx context.Context, r ledger.Read) error {
	r.Control = true
	return s.write(ctx, func(tx *tx) error {
		var kind string
		err := tx.scan(`SELECT kind FROM operations WHERE id = ?`, []any{r.OperationID}, &kind)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: %s", ledger.ErrNotFound, r.OperationID)
		}
		var known bool
		if err == nil {
			err = tx.scan(`SELECT EXISTS (SELECT 1 FROM reads WHERE id = ?)`, []any{r.ID}, &known)
		}
		if err != nil || known {
			return err
		}
		if err := tx.read(r); err != nil {
			return err
		}
		if r.Verdict != ledger.Landed && r.Verdict != ledger.Duplicated {
			return nil
		}
		return tx.exec(`
			INSERT INTO controls (kind, digest, held_at, read_id) VALUES (?, ?, ?, ?)
			ON CONFLICT (kind, digest) DO UPDATE SET held_at = max(held_at, excluded.held_at), read_id = excluded.read_id`,
			kind, r.Digest, ms(r.EndedAt), r.ID)
	})
}
