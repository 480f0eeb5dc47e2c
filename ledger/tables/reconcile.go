package tables

import (
	"context"
	"errors"
	"strings"
	"time"

	"indoubt/ledger"
)

// Expire writes down deadlines that have passed, earliest first. It also marks
// the rows whose time to ask a person has come, which keeps lists and counts
// from comparing their clocks.
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
	errs = append(errs, ripen(ctx, s, now, max(limit, 1)))
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
	 WHERE h.downstream = ?1 AND (h.state = 'uncertain' OR h.recheck_at <> 0) AND h.read_at <= ?2
	 ORDER BY h.read_at LIMIT ?3+0`

// Due returns operations of a downstream whose next read is due.
func (s *Store) Due(ctx context.Context, downstream string, now time.Time, limit int) ([]ledger.Row, error) {
	return Gather(ctx, s.db, newRowScan(0).row, dueQuery, downstream, Millis(now), limit)
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
