package tables

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// baseTab is the list a class stands in when no clock has moved since it was
// written. Rows of the class moving are looked at one by one.
var baseTab = map[string]ledger.Tab{
	"conflict": ledger.TabNeedsYou, "decide": ledger.TabNeedsYou, "ripe": ledger.TabNeedsYou, "not_landed": ledger.TabNeedsYou,
	"reading": ledger.TabChecking, "pending": ledger.TabInFlight, "resolved": ledger.TabSettled,
}

// countsQuery gives how many are in each class and, as rows of their own, what clocks have
// moved since: from the list of their class to the list where they stand now.
var countsQuery = sync.OnceValue(func() string {
	return fmt.Sprintf(`
	SELECT 'class.' || class AS class, '' AS tab, count(*) AS n, count(*) FILTER (WHERE state = 'pending') AS pending,
	       sum(CASE miss_word WHEN '' THEN rank ELSE 0.0 END) AS loss, count(*) FILTER (WHERE miss_word <> '') AS words,
	       count(*) FILTER (WHERE conflict = 'duplicate') AS twice, 0 AS conflicts, 0.0 AS unsent
	  FROM open_operations INDEXED BY open_by_class WHERE class <> 'pending' GROUP BY class
	UNION ALL SELECT 'state.' || what, '', CAST(sum(n) AS bigint), 0, 0.0, 0, 0, 0, 0.0
	  FROM totals WHERE what NOT IN ('landed', 'missed') GROUP BY what
	UNION ALL
	SELECT h.class, %s AS tab, count(*), count(*) FILTER (WHERE h.state = 'pending'), sum(CASE h.miss_word WHEN '' THEN h.rank ELSE 0.0 END),
	       count(*) FILTER (WHERE h.miss_word <> ''), count(*) FILTER (WHERE h.conflict = 'duplicate'), count(*) FILTER (WHERE h.conflict <> ''), `+unsentSQL+`
	  FROM (%s) AS h
	 GROUP BY 1, 2
	UNION ALL
	SELECT 'pending', CASE %s WHEN 'decide' THEN 'needs_you' ELSE 'checking' END AS tab, count(*), count(*),
	       sum(CASE coalesce(h.miss_word, '') WHEN '' THEN coalesce(h.rank, 0.0) ELSE 0.0 END), count(*) FILTER (WHERE h.miss_word <> ''), 0, 0, 0.0
	  FROM %s AND o.deadline_at < ?1
	 GROUP BY 2`,
		tabSQL, strings.Join([]string{
			moved("open_by_loss", "class = 'moving'"),
			moved("open_by_clock", "class = 'ripe' AND clock_at > ?1"),
			moved("open_by_clock", "class = 'reading' AND clock_at <= ?1"),
		}, " UNION ALL "), flightLane, flightFrom)
})

// unsentSQL sums the amounts of what did not land and was not sent again.
var unsentSQL = "sum(CASE WHEN h.miss_word = '' AND " + laneSQL + " = 'not_landed' THEN h.rank ELSE 0.0 END)"

func moved(index, where string) string {
	return `SELECT class, state, conflict, deadline_at, granted_at, grant_until, hands_off, decide_at, doubted, parked_until, miss_word, rank
	          FROM open_operations INDEXED BY ` + index + ` WHERE ` + where
}

type counted struct {
	class, tab               string
	n, pending, words, twice int
	loss, unsent             float64
	conflicts                int
}

// Counts returns how many operations stand where at now.
func (s *Store) Counts(ctx context.Context, now time.Time) (ledger.Counts, error) {
	c := ledger.Counts{ByState: map[ledger.State]int{}}
	all, err := Gather(ctx, s.db, func(rows Rows) (t counted, err error) {
		return t, rows.Scan(&t.class, &t.tab, &t.n, &t.pending, &t.loss, &t.words, &t.twice, &t.conflicts, &t.unsent)
	}, countsQuery(), Millis(now))
	plainPending := 0
	for _, t := range all {
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
			switch class {
			case "conflict":
				t.conflicts = t.n
			case "not_landed":
				t.unsent = t.loss
			}
			add(&c, baseTab[class], t, 1)
			continue
		}
		add(&c, baseTab[t.class], t, -1)
		add(&c, ledger.Tab(t.tab), t, 1)
	}
	add(&c, ledger.TabInFlight, counted{n: plainPending}, 1)
	c.Settled = c.All - c.NeedsYou - c.Checking - c.InFlight - c.Parked
	c.Loss, c.Unsent = rounded(c.Loss), rounded(c.Unsent)
	return c, err
}

func add(c *ledger.Counts, tab ledger.Tab, t counted, sign int) {
	switch tab {
	case ledger.TabNeedsYou:
		c.NeedsYou += sign * t.n
		c.Conflicts += sign * t.conflicts
		c.Twice += sign * t.twice
		c.Loss += float64(sign) * t.loss
		c.Unsent += float64(sign) * t.unsent
		c.ByWord += sign * t.words
	case ledger.TabChecking:
		c.Checking += sign * t.n
	case ledger.TabInFlight:
		c.InFlight += sign * t.n
	case ledger.TabParked:
		c.Parked += sign * t.n
	}
}

// rounded takes off what adding and taking away again leaves.
func rounded(sum float64) float64 { return math.Round(sum*1e6) / 1e6 }

// Needing counts what needs a person, of what a filter lets through.
func (s *Store) Needing(ctx context.Context, f ledger.Filter, now time.Time) (n ledger.Needing, err error) {
	if !inSQL(f) {
		return s.needingOneByOne(ctx, f, now)
	}
	kinds, err := kindsFor(ctx, s.db, f)
	if err != nil {
		return n, err
	}
	b := &binder{d: s.d, args: []any{Millis(now)}}
	filter := filterSQL(b, f, kinds, now)
	text, err := inRuns(outside{ctx, s.db}, b, `
		SELECT count(*), count(*) FILTER (WHERE h.conflict <> ''), count(*) FILTER (WHERE h.conflict = 'duplicate'), sum(CASE h.miss_word WHEN '' THEN h.rank ELSE 0.0 END), `+unsentSQL+`,
		       count(*) FILTER (WHERE h.miss_word <> '')
		  FROM open_operations h`+openFrom(filter.hot)+`
		 WHERE h.class NOT IN ('pending', 'resolved')`+filter.hot+` AND `+tabSQL+` = 'needs_you' HAVING count(*) > 0
		UNION ALL
		SELECT count(*), 0, 0, sum(CASE coalesce(h.miss_word, '') WHEN '' THEN coalesce(h.rank, 0.0) ELSE 0.0 END), 0.0, count(*) FILTER (WHERE h.miss_word <> '')
		  FROM `+flightFrom+` AND `+flight(ledger.TabNeedsYou)+filter.flight+` HAVING count(*) > 0`)
	if err != nil {
		return n, err
	}
	parts, err := Gather(ctx, s.db, func(rows Rows) (p ledger.Needing, err error) {
		return p, rows.Scan(&p.NeedsYou, &p.Conflicts, &p.Twice, &p.Loss, &p.Unsent, &p.ByWord)
	}, text, b.args...)
	for _, p := range parts {
		n = ledger.Needing{NeedsYou: n.NeedsYou + p.NeedsYou, Conflicts: n.Conflicts + p.Conflicts, Twice: n.Twice + p.Twice,
			Loss: rounded(n.Loss + p.Loss), Unsent: rounded(n.Unsent + p.Unsent), ByWord: n.ByWord + p.ByWord}
	}
	return n, err
}

// inSQL reports whether the filter's SQL selects no more than the filter does.
func inSQL(f ledger.Filter) bool {
	return !f.Has(func(t ledger.Term) bool { return !ascii(t.Value) })
}

// needingOneByOne is Needing by the rows themselves.
func (s *Store) needingOneByOne(ctx context.Context, f ledger.Filter, now time.Time) (n ledger.Needing, err error) {
	for q := (ledger.Query{Tab: ledger.TabNeedsYou, Filter: f, Now: now, Limit: 1000}); ; {
		page, err := s.Page(ctx, q)
		if err != nil {
			return n, err
		}
		for _, r := range page.Rows {
			n.Count(r, now)
		}
		if q.After = page.Next; q.After == "" {
			return n, nil
		}
	}
}
