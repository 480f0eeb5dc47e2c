package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
)

// Expire writes down deadlines that have passed, earliest first. It also marks
// the rows whose time to ask a person has come, which keeps lists and counts
// from comparing their clocks, and the incidents that are over.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	if err := cmp.Or(s.writable(), s.anchored()); err != nil {
		return 0, err
	}
	now := s.now()
	ids, err := collect(outside{ctx, s.handle}, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) }, `
		SELECT id FROM operations INDEXED BY operations_pending
		 WHERE state = 'pending' AND deadline_at < ? ORDER BY deadline_at LIMIT ?+0`, ms(now), limit)
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
	errs = append(errs, s.ripen(ctx, now, max(limit, 1)), s.ended(ctx, now))
	return n, errors.Join(errs...)
}

func (s *handle) ripen(ctx context.Context, now time.Time, limit int) error {
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
			                WHERE class = 'reading' AND clock_at <= ? LIMIT ?+0)`, ms(now), limit)
	})
}

var dueQuery = `
	SELECT ` + rowColumns + `, 0, 0, ''
	  FROM open_operations h INDEXED BY open_by_read CROSS JOIN operations o ON o.seq = h.seq
	  LEFT JOIN leases l ON l.operation_id = o.id
	 WHERE (h.state = 'uncertain' OR h.recheck_at <> 0) AND h.read_at <= ?1
	   AND (l.operation_id IS NULL OR l.holder = '' OR l.expires_at <= ?1)
	 ORDER BY h.read_at LIMIT ?2+0`

// Due returns operations whose next read is due and that have no lease.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]ledger.Row, error) {
	rows, err := collect(outside{ctx, s.handle}, newRowScan(0).row, dueQuery, ms(now), limit)
	return rows, translate(s.path, err)
}

// Lease takes or renews the right to reconcile an operation. A new holder gets a
// higher generation; one that has lost its lease finds that out by its own.
func (s *Store) Lease(ctx context.Context, operationID, holder, digest string, ttl time.Duration) (ledger.Lease, error) {
	var by ledger.LeasedError
	var lease ledger.Lease
	err := s.leases(ctx, []string{operationID}, holder, digest, ttl, func(tx *tx, got []ledger.Lease) error {
		if len(got) > 0 {
			lease = got[0]
			return nil
		}
		lease = ledger.Lease{} // it may have been taken in a transaction that was begun again
		var until int64
		err := tx.scan(`SELECT holder, expires_at FROM leases WHERE operation_id = ?`, []any{operationID}, &by.Holder, &until)
		by.Until = at(until)
		return err
	})
	switch {
	case err != nil:
		return ledger.Lease{}, err
	case lease.Holder == "":
		return ledger.Lease{}, &by
	}
	return lease, nil
}

// Leases takes the leases that no other holder has, in one transaction.
func (s *Store) Leases(ctx context.Context, operationIDs []string, holder, digest string, ttl time.Duration) ([]ledger.Record, error) {
	if len(operationIDs) == 0 {
		return nil, s.writable()
	}
	var recs []record
	err := s.leases(ctx, operationIDs, holder, digest, ttl, func(tx *tx, got []ledger.Lease) (err error) {
		ids := make([]string, len(got))
		for i, l := range got {
			ids[i] = l.OperationID
		}
		recs, err = loadAll(tx, ids, s.moment())
		for _, rec := range recs {
			if rec, ok := leased(rec); ok {
				tx.began = append(tx.began, rec)
			}
		}
		return err
	})
	return bare(recs), err
}

// leases takes leases, all with three statements, and gives those it got to then.
func (s *handle) leases(ctx context.Context, operationIDs []string, holder, digest string, ttl time.Duration, then func(*tx, []ledger.Lease) error) error {
	if holder == "" {
		return errors.New("a lease needs a holder")
	}
	ids := list(operationIDs)
	return s.write(ctx, func(tx *tx) error {
		now := s.now()
		until := at(ms(now.Add(ttl)))
		var missing string
		err := tx.scan(`SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM operations WHERE id = value) LIMIT 1`, []any{ids}, &missing)
		if err == nil {
			return fmt.Errorf("%w: %s", ledger.ErrNotFound, missing)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		tx.touched, tx.change = true, true
		generations := map[string]int64{}
		for _, query := range []string{`
			UPDATE leases SET generation = generation + (holder <> ?2), holder = ?2, digest = ?3, expires_at = ?4
			 WHERE operation_id IN (SELECT value FROM json_each(?1)) AND (holder IN ('', ?2) OR expires_at <= ?5)
			RETURNING operation_id, generation`, `
			INSERT INTO leases (operation_id, holder, generation, digest, expires_at)
			SELECT DISTINCT value, ?2, 1, ?3, ?4 FROM json_each(?1) WHERE ?5 = ?5 AND NOT EXISTS (SELECT 1 FROM leases WHERE operation_id = value)
			RETURNING operation_id, generation`} {
			rows, err := tx.rows(query, ids, holder, digest, ms(until), ms(now))
			if err != nil {
				return err
			}
			var id string
			var generation int64
			for rows.Next() && err == nil {
				err = rows.Scan(&id, &generation)
				generations[id] = generation
			}
			if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
				return err
			}
		}
		var got []ledger.Lease
		for _, id := range operationIDs {
			if g, ok := generations[id]; ok {
				tx.w.begun.take(id)
				got = append(got, ledger.Lease{OperationID: id, Holder: holder, Generation: g, Digest: digest, ExpiresAt: until})
				delete(generations, id)
			}
		}
		return then(tx, got)
	})
}

// Release gives a lease back, if it is still held.
func (s *Store) Release(ctx context.Context, l ledger.Lease) error {
	return s.write(ctx, func(tx *tx) error {
		tx.change = true
		return tx.release(l)
	})
}

func (tx *tx) release(l ledger.Lease) error {
	tx.w.begun.take(l.OperationID)
	_, err := tx.quietly(`UPDATE leases SET holder = '', expires_at = 0 WHERE operation_id = ? AND holder = ? AND generation = ?`,
		l.OperationID, l.Holder, l.Generation)
	return err
}

// Control returns when a positive control last held.
func (s *Store) Control(ctx context.Context, kind, digest string) (time.Time, error) {
	var held int64
	err := s.one(ctx, `
		SELECT coalesce(max(ended_at), 0) FROM reads INDEXED BY reads_controls
		 WHERE kind = ? AND digest = ? AND control = 1 AND verdict IN ('landed', 'duplicated')`, []any{kind, digest}, &held)
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
		return tx.read(r, kind)
	})
}
