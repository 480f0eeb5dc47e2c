package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// Expire writes down deadlines that have passed, earliest first. It also marks
// the rows whose time to ask a person has come, which keeps lists and counts
// from comparing their clocks, and the outages that are over.
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

// Siblings asks the index of tokens, or that of what landed by its own answer. Unlike a
// person's word and a check's, what was tried is an event of its attempts.
func (s *Store) Siblings(ctx context.Context, q ledger.SiblingQuery) ([]ledger.Sibling, error) {
	from, args := `operations o
		 WHERE o.token IN (SELECT value FROM json_each(?)) AND o.token <> '' AND o.kind = ?
		 ORDER BY o.seq DESC LIMIT ?+0`, []any{list(q.Tokens), q.Kind, q.Limit}
	if q.Tokens == nil {
		from, args = `operations o INDEXED BY operations_by_answer
		 WHERE o.kind = ? AND o.state = 'committed' AND o.by_answer = 1
		   AND o.token_sent = 1 AND o.settled_at < ? AND o.redacted_at = 0
		 ORDER BY o.settled_at DESC LIMIT ?+0`, []any{q.Kind, Millis(q.Before), q.Limit}
	}
	return Gather(ctx, s.db, func(rows Rows) (b ledger.Sibling, err error) {
		return b, rows.Scan(&b.ID, &b.Token, &b.Failed, &b.Began, &b.Ended)
	}, `SELECT o.id, o.token, o.state = 'failed' OR o.fact = 'failed',
		       coalesce((SELECT min(e.seq) FROM events e WHERE e.operation_id = o.id AND e.operation_id <> ''), 0),
		       coalesce((SELECT max(e.seq) FROM events e WHERE e.operation_id = o.id AND e.operation_id <> ''
		                    AND e.verb NOT IN (`+besideAttempts+`)), 0)
		  FROM `+from, args...)
}

// besideAttempts are the verbs of events that are no attempt's.
var besideAttempts = "'" + strings.Join(ledger.BesideAttempts, "', '") + "'"
