package tables

import (
	"context"
	"errors"
	"slices"
	"time"

	"indoubt/ledger"
)

// DoubtCounts returns how doubts ended.
func (s *Store) DoubtCounts(ctx context.Context) (out []ledger.DoubtCount, err error) {
	err = s.db.Brief(ctx, func(q Querier) (err error) {
		out, err = Collect(q, func(rows Rows) (t ledger.DoubtCount, err error) {
			return t, rows.Scan(&t.Kind, &t.Class, &t.Landed, &t.Missed)
		}, `SELECT kind, class, `+summedOf("landed")+`, `+summedOf("missed")+`
			FROM totals WHERE what IN ('landed', 'missed') GROUP BY kind, class ORDER BY kind, class`)
		return err
	})
	return out, err
}

// summedOf is one of totals, of each group.
func summedOf(what string) string {
	return `CAST(coalesce(sum(n) FILTER (WHERE what = '` + what + `'), 0) AS bigint)`
}

// stateCountsQuery gives the sums with the oldest doubt of each kind, and
// beside them what of the pending is in doubt by its deadline. What is in flight
// is few, and its index has all that is asked of it but for second attempts.
var stateCountsQuery = `
	SELECT c.kind, coalesce(p.n, 0), c.committed, c.failed, c.uncertain, c.abandoned,
	       coalesce((SELECT min(h.doubted_at) FROM open_operations h INDEXED BY open_by_doubt
	                  WHERE h.state = 'uncertain' AND h.kind = c.kind AND h.doubted_at > 0), 0),
	       coalesce(p.overdue, 0), coalesce(p.deadline, 0), coalesce(p.began, 0)
	  FROM (SELECT kind, ` + summedOf("committed") + ` AS committed, ` + summedOf("failed") + ` AS failed,
	               ` + summedOf("uncertain") + ` AS uncertain, ` + summedOf("abandoned") + ` AS abandoned FROM totals GROUP BY kind) c LEFT JOIN (
	       SELECT kind, count(*) AS n, count(*) FILTER (WHERE deadline_at < ?1) AS overdue, min(CASE WHEN deadline_at < ?1 THEN deadline_at END) AS deadline,
	              min(CASE WHEN deadline_at < ?1 THEN NULL WHEN attempt_count < 2 THEN started_at
	                       ELSE (SELECT a.started_at FROM attempts a WHERE a.operation_id = o.id AND a.n = o.attempt_count) END) AS began
	         FROM operations o INDEXED BY operations_pending WHERE state = 'pending' GROUP BY kind) p ON p.kind = c.kind
	 ORDER BY c.kind`

// StateCounts counts operations by kind and state at now.
func (s *Store) StateCounts(ctx context.Context, now time.Time) ([]ledger.StateCount, error) {
	kinds, err := Gather(ctx, s.db, func(rows Rows) (counts []ledger.StateCount, err error) {
		var kind string
		var pending, committed, failed, uncertain, abandoned, overdue int
		var doubted, deadline, began int64
		err = rows.Scan(&kind, &pending, &committed, &failed, &uncertain, &abandoned, &doubted, &overdue, &deadline, &began)
		if overdue > 0 && (doubted == 0 || deadline < doubted) {
			doubted = deadline
		}
		return []ledger.StateCount{
			{Kind: kind, State: ledger.Pending, Count: pending - overdue, Oldest: At(began)},
			{Kind: kind, State: ledger.Uncertain, Count: uncertain + overdue, Oldest: At(doubted)},
			{Kind: kind, State: ledger.Committed, Count: committed},
			{Kind: kind, State: ledger.Failed, Count: failed},
			{Kind: kind, State: ledger.Abandoned, Count: abandoned},
		}, err
	}, stateCountsQuery, Millis(now))
	return slices.DeleteFunc(slices.Concat(kinds...), func(c ledger.StateCount) bool { return c.Count <= 0 }), err
}

// Accuracy reads the decisions since then from the history, and the flags that
// were raised after them and before they were undone.
func (s *Store) Accuracy(ctx context.Context, since time.Time) ([]ledger.Accuracy, error) {
	from, err := seqAt(ctx, s, since)
	if err != nil {
		return nil, err
	}
	return Gather(ctx, s.db, func(rows Rows) (a ledger.Accuracy, err error) {
		return a, rows.Scan(&a.Actor, &a.Machine, &a.Verb, &a.Decided, &a.Wrong)
	}, `
		WITH raised AS MATERIALIZED (SELECT seq, operation_id FROM events WHERE seq >= ?1 AND conflict IN ('contradiction', 'duplicate') AND operation_id <> ''),
		     undone AS MATERIALIZED (SELECT seq, operation_id FROM events WHERE seq >= ?1 AND verb = 'undo' AND operation_id <> '')
		SELECT CASE WHEN substr(e.actor, 1, 7) = 'checks,' THEN 'checks' ELSE e.actor END, e.machine, e.verb, count(*),
		       count(*) FILTER (WHERE EXISTS (SELECT 1 FROM raised x WHERE x.operation_id = e.operation_id AND x.seq > e.seq
		                      AND NOT EXISTS (SELECT 1 FROM undone u WHERE u.operation_id = e.operation_id AND u.seq > e.seq AND u.seq < x.seq)))
		  FROM events e
		 WHERE e.seq >= ?1 AND e.at >= ?2
		   AND (e.machine = 0 AND e.verb IN ('confirm', 'deny', 'abandon')
		     OR e.machine = 1 AND e.verb = 'read' AND e.from_state <> e.to_state)
		 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, from, Millis(since))
}

// seqAt is an event from which on everything since a time is to be found. The
// history is in the order of time but for clocks that were set back, which an
// hour allows for.
func seqAt(ctx context.Context, s *Store, since time.Time) (int64, error) {
	if since.IsZero() {
		return 0, nil
	}
	early := Millis(since.Add(-time.Hour))
	var low, high int64 // every event before low is too early, none from high on
	if err := s.one(ctx, `SELECT coalesce(max(seq), 0) + 1 FROM events`, nil, &high); err != nil {
		return 0, err
	}
	for low < high {
		middle := low + (high-low)/2
		var seq, when int64
		err := s.one(ctx, `SELECT seq, at FROM events WHERE seq >= ? ORDER BY seq LIMIT 1`, []any{middle}, &seq, &when)
		switch {
		case errors.Is(err, errNone):
			high = middle
		case err != nil:
			return 0, err
		case when < early:
			low = seq + 1
		default:
			high = middle
		}
	}
	return low, nil
}
