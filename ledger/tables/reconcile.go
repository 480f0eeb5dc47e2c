package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
)

// Expire writes down deadlines that have passed, earliest first. It also marks
// the rows whose time to ask a person has come, which keeps lists and counts
// from comparing their clocks, and the incidents that are over.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	if err := s.db.Writable(); err != nil {
		return 0, err
	}
	m, err := s.db.Moment(ctx)
	if err != nil {
		return 0, err
	}
	now := m.Wall
	ids, err := Gather(ctx, s.db, word, `
		SELECT id FROM operations INDEXED BY operations_pending
		 WHERE state = 'pending' AND deadline_at < ? ORDER BY deadline_at LIMIT ?+0`, Millis(now), limit)
	if err != nil {
		return 0, err
	}
	applied := make([]ledger.Applied, len(ids))
	jobs := make([]func(Tx) error, len(ids))
	for i, id := range ids {
		jobs[i] = s.change(ledger.Locator{ID: id, Skip: ledger.AllParts}, ledger.NewID(), ledger.ExpireRule(), &applied[i], false)
	}
	n := 0
	errs := s.db.UpdateAll(ctx, jobs)
	for i, err := range errs {
		if err == nil && !applied[i].Noop {
			n++
		}
	}
	errs = append(errs, ripen(ctx, s, now, max(limit, 1)), ended(ctx, s, now))
	return n, errors.Join(errs...)
}

func ripen(ctx context.Context, s *Store, now time.Time, limit int) error {
	var some bool
	if err := s.one(ctx, `
		SELECT EXISTS (SELECT 1 FROM open_operations INDEXED BY open_by_clock
		                WHERE class = 'reading' AND clock_at <= ?)`, []any{Millis(now)}, &some); err != nil || !some {
		return err
	}
	return s.update(ctx, func(tx *tx) error {
		return tx.Later(`
			UPDATE open_operations SET ripe = 1
			 WHERE seq IN (SELECT seq FROM open_operations INDEXED BY open_by_clock
			                WHERE class = 'reading' AND clock_at <= ? LIMIT ?+0)`, Millis(now), limit)
	})
}

var dueQuery = `
	SELECT ` + rowColumns + `, 0, ''
	  FROM open_operations h INDEXED BY open_by_read CROSS JOIN operations o ON o.seq = h.seq
	  LEFT JOIN leases l ON l.operation_id = o.id
	 WHERE (h.state = 'uncertain' OR h.recheck_at <> 0) AND h.read_at <= ?1
	   AND (l.operation_id IS NULL OR l.holder = '' OR l.expires_at <= ?1)
	 ORDER BY h.read_at LIMIT ?2+0`

// Due returns operations whose next read is due and that have no lease.
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]ledger.Row, error) {
	return Gather(ctx, s.db, newRowScan(0).row, dueQuery, Millis(now), limit)
}

// Lease takes or renews the right to reconcile an operation. A new holder gets a
// higher generation; one that has lost its lease finds that out by its own.
func (s *Store) Lease(ctx context.Context, operationID, holder, digest string, ttl time.Duration) (ledger.Lease, error) {
	var leases []ledger.Lease
	err := s.update(ctx, func(tx *tx) (err error) {
		leases, err = tx.leases([]string{operationID}, holder, digest, ttl)
		return err
	})
	switch {
	case err != nil:
		return ledger.Lease{}, err
	case leases[0].Holder != holder:
		return ledger.Lease{}, &ledger.LeasedError{Holder: leases[0].Holder, Until: leases[0].ExpiresAt}
	}
	return leases[0], nil
}

// Leases takes the leases that no other holder has, in one transaction.
func (s *Store) Leases(ctx context.Context, operationIDs []string, holder, digest string, ttl time.Duration) ([]ledger.Record, error) {
	if len(operationIDs) == 0 {
		return nil, s.db.Writable()
	}
	var recs []Record
	err := s.update(ctx, func(tx *tx) error {
		leases, err := tx.leases(operationIDs, holder, digest, ttl)
		if err != nil {
			return err
		}
		var ids []string
		for _, l := range leases {
			if l.Holder == holder {
				ids = append(ids, l.OperationID)
			}
		}
		recs, err = loadAll(tx.Tx, tx.d, ids, 0, false)
		return err
	})
	return bare(recs), err
}

// leases takes leases, and gives all as they are then, of each operation once.
func (tx *tx) leases(operationIDs []string, holder, digest string, ttl time.Duration) ([]ledger.Lease, error) {
	if holder == "" {
		return nil, errors.New("a lease needs a holder")
	}
	if err := tx.lockAll(operationIDs); err != nil {
		return nil, err
	}
	ids, now := list(operationIDs), tx.now()
	until := tx.d.Time(now.Add(ttl))
	if err := tx.Quietly(`
		UPDATE leases SET generation = generation + CASE WHEN holder = ?2 THEN 0 ELSE 1 END, holder = ?2, digest = ?3, expires_at = ?4
		 WHERE operation_id IN (SELECT operation_id FROM leases
		                         WHERE operation_id IN (SELECT value FROM json_each(?1)) AND (holder IN ('', ?2) OR expires_at <= ?5))`,
		ids, holder, digest, until, Millis(now)); err != nil {
		return nil, err
	}
	if err := tx.Quietly(`
		INSERT INTO leases (operation_id, holder, generation, digest, expires_at)
		SELECT o.id, ?2, 1, ?3, ?4 FROM operations o WHERE o.id IN (SELECT value FROM json_each(?1)) AND NOT EXISTS (SELECT 1 FROM leases WHERE operation_id = o.id)
		    ON CONFLICT (operation_id) DO NOTHING`, ids, holder, digest, until); err != nil {
		return nil, err
	}
	got := make(map[string]ledger.Lease, len(operationIDs))
	if _, err := Collect(tx.Tx, func(rows Rows) (none struct{}, err error) {
		var l ledger.Lease
		var expires int64
		err = rows.Scan(&l.OperationID, &l.Holder, &l.Generation, &l.Digest, &expires)
		l.ExpiresAt = At(expires)
		got[l.OperationID] = l
		return none, err
	}, `SELECT operation_id, holder, generation, digest, expires_at FROM leases WHERE operation_id IN (SELECT value FROM json_each(?))`, ids); err != nil {
		return nil, err
	}
	var leases []ledger.Lease
	for _, id := range operationIDs {
		l, ok := got[id]
		switch {
		case !ok && !slices.ContainsFunc(leases, func(l ledger.Lease) bool { return l.OperationID == id }):
			return nil, fmt.Errorf("%w: %s", ledger.ErrNotFound, id)
		case ok:
			leases = append(leases, l)
			delete(got, id)
		}
	}
	return leases, nil
}

// Release gives a lease back, if it is still held.
func (s *Store) Release(ctx context.Context, l ledger.Lease) error {
	return s.update(ctx, func(tx *tx) error {
		return tx.release(l)
	})
}

func (tx *tx) release(l ledger.Lease) error {
	return tx.Quietly(`UPDATE leases SET holder = '', expires_at = ? WHERE operation_id = ? AND holder = ? AND generation = ?`,
		tx.d.Time(time.Time{}), l.OperationID, l.Holder, l.Generation)
}

// Control returns when a positive control last held.
func (s *Store) Control(ctx context.Context, kind, digest string) (time.Time, error) {
	var held int64
	err := s.one(ctx, `
		SELECT coalesce(max(ended_at), 0) FROM reads INDEXED BY reads_controls
		 WHERE kind = ? AND digest = ? AND control = 1 AND verdict IN ('landed', 'twice')`, []any{kind, digest}, &held)
	return At(held), err
}

// ControlCandidate returns the newest operation that a control of its kind can
// look for.
func (s *Store) ControlCandidate(ctx context.Context, kind string, before time.Time) (ledger.Record, error) {
	var id string
	err := s.one(ctx, `
		SELECT id FROM operations INDEXED BY operations_by_answer
		 WHERE kind = ? AND state = 'committed' AND by_answer = 1 AND token_sent = 1 AND settled_at < ? AND redacted_at = 0
		 ORDER BY settled_at DESC LIMIT 1`, []any{kind, Millis(before)}, &id)
	if errors.Is(err, errNone) {
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
	return s.update(ctx, func(tx *tx) error {
		if err := tx.lockAll([]string{r.OperationID}); err != nil {
			return err
		}
		var kind string
		err := one(tx.Tx, `SELECT kind FROM operations WHERE id = ?`, []any{r.OperationID}, &kind)
		if errors.Is(err, errNone) {
			return fmt.Errorf("%w: %s", ledger.ErrNotFound, r.OperationID)
		}
		var known bool
		if err == nil {
			err = one(tx.Tx, `SELECT EXISTS (SELECT 1 FROM reads WHERE id = ?)`, []any{r.ID}, &known)
		}
		if err != nil || known {
			return err
		}
		return tx.read(r, kind)
	})
}
