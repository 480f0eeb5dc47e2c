package sqlite

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"indoubt/ledger"
)

// baseTab is the list a class stands in when no clock has moved since it was
// written. Rows of the class moving are looked at one by one.
var baseTab = map[string]ledger.Tab{
	"conflict": ledger.TabNeedsYou, "decide": ledger.TabNeedsYou, "ripe": ledger.TabNeedsYou, "not_landed": ledger.TabNeedsYou,
	"reading": ledger.TabChecking, "pending": ledger.TabInFlight, "resolved": ledger.TabSettled,
}

// countsQuery gives the kept counts and, as rows of their own, what clocks have
// moved since: from the list of their class to the list where they stand now.
var countsQuery = fmt.Sprintf(`
	SELECT what AS class, '' AS tab, 0 AS parked, n, pending, loss, words, twice, 0 AS conflicts FROM counts
	UNION ALL SELECT 'state.pending',   '', 0, coalesce(sum(pending), 0),   0, 0.0, 0, 0, 0 FROM census
	UNION ALL SELECT 'state.committed', '', 0, coalesce(sum(committed), 0), 0, 0.0, 0, 0, 0 FROM census
	UNION ALL SELECT 'state.failed',    '', 0, coalesce(sum(failed), 0),    0, 0.0, 0, 0, 0 FROM census
	UNION ALL SELECT 'state.uncertain', '', 0, coalesce(sum(uncertain), 0), 0, 0.0, 0, 0, 0 FROM census
	UNION ALL SELECT 'state.abandoned', '', 0, coalesce(sum(abandoned), 0), 0, 0.0, 0, 0, 0 FROM census
	UNION ALL
	SELECT h.class, %s AS tab, %s AS parked, count(*), sum(h.state = 'pending'), sum(CASE h.miss_word WHEN '' THEN h.rank ELSE 0 END),
	       sum(h.miss_word <> ''), sum(h.conflict = 'duplicate'), sum(h.conflict <> '')
	  FROM (%s) h
	 GROUP BY 1, 2, 3
	UNION ALL
	SELECT 'pending', CASE %s WHEN 'decide' THEN 'needs_you' ELSE 'checking' END AS tab, 0, count(*), count(*),
	       sum(CASE coalesce(h.miss_word, '') WHEN '' THEN coalesce(h.rank, 0.0) ELSE 0 END), sum(coalesce(h.miss_word, '') <> ''), 0, 0
	  FROM %s AND o.deadline_at < ?1
	 GROUP BY 2`,
	tabSQL, parkedSQL, strings.Join([]string{
		moved("open_by_loss", "class = 'moving'"),
		moved("open_by_clock", "class = 'ripe' AND clock_at > ?1"),
		moved("open_by_clock", "class = 'reading' AND clock_at <= ?1"),
	}, " UNION ALL "), flightLane, flightFrom)

func moved(index, where string) string {
	return `SELECT class, state, conflict, deadline_at, granted_at, grant_until, hands_off, decide_at, doubted, parked_until, miss_word, rank
	          FROM open_operations INDEXED BY ` + index + ` WHERE ` + where
}

type counted struct {
	class, tab               string
	parked                   bool
	n, pending, words, twice int
	loss                     float64
	conflicts                int
}

// Counts returns how many operations stand where at now.
func (s *Store) Counts(ctx context.Context, now time.Time) (ledger.Counts, error) {
	c := ledger.Counts{ByState: map[ledger.State]int{}}
	rows, err := s.rows(ctx, countsQuery, ms(now))
	if err != nil {
		return c, err
	}
	defer rows.Close()
	plainPending := 0
	for rows.Next() {
		var t counted
		if err := rows.Scan(&t.class, &t.tab, &t.parked, &t.n, &t.pending, &t.loss, &t.words, &t.twice, &t.conflicts); err != nil {
			return c, translate(s.path, err)
		}
		if state, ok := strings.CutPrefix(t.class, "state."); ok {
			c.ByState[ledger.State(state)] = t.n
			c.All += t.n
			if state == string(ledger.Pending) {
				plainPending += t.n
			}
			continue
		}
		if class, ok := strings.CutPrefix(t.class, "class."); ok {
			plainPending -= t.pending
			if class == "conflict" {
				t.conflicts = t.n
			}
			add(&c, baseTab[class], t, 1)
			continue
		}
		add(&c, baseTab[t.class], t, -1)
		add(&c, ledger.Tab(t.tab), t, 1)
		if t.parked {
			c.Parked += t.n
		}
	}
	add(&c, ledger.TabInFlight, counted{n: plainPending}, 1)
	c.Settled = c.All - c.NeedsYou - c.Checking - c.InFlight - c.Parked
	c.Loss = math.Round(c.Loss*1e6) / 1e6
	return c, translate(s.path, rows.Err())
}

func add(c *ledger.Counts, tab ledger.Tab, t counted, sign int) {
	switch tab {
	case ledger.TabNeedsYou:
		c.NeedsYou += sign * t.n
		c.Conflicts += sign * t.conflicts
		c.Twice += sign * t.twice
		c.Loss += float64(sign) * t.loss
		c.ByWord += sign * t.words
	case ledger.TabChecking:
		c.Checking += sign * t.n
	case ledger.TabInFlight:
		c.InFlight += sign * t.n
	}
}
