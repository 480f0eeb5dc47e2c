package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// sorting is the order of a list: where its rows come from, and its columns, the last of which tells
// all rows apart.
type sorting struct {
	from    string
	columns []string
	desc    bool
}

// The newest change comes first: the history is read from its end, and nothing is sorted.
var sortings = map[ledger.Order]sorting{
	ledger.OrderLoss: {"op o", []string{"CASE o.conflict WHEN '' THEN 1 ELSE 0 END", "-coalesce(p.rank, 0)", "o.created_at", "o.seq"},
		false},
	ledger.OrderNewest: {"ev e JOIN op o ON o.seq = e.op AND o.change_id = e.id", []string{"e.seq"}, true},
	ledger.OrderOldest: {"op o", []string{"o.created_at", "o.seq"}, false},
}

// cursor is the sort key of the last row of a page; nil before the first.
type cursor []any

func (c cursor) text(q ledger.Query) string {
	b, _ := json.Marshal(append(cursor{string(q.Order)}, c...)) // numbers and strings always marshal
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(q ledger.Query) (cursor, error) {
	if q.After == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.After)
	var c cursor
	if err == nil {
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.UseNumber()
		err = d.Decode(&c)
	}
	if err != nil || len(c) != len(sortings[q.Order].columns)+1 || c[0] != string(q.Order) {
		return nil, fmt.Errorf("the cursor %q is not of this list; start again at its first page", q.After)
	}
	for i, v := range c {
		if n, ok := v.(json.Number); ok {
			if whole, err := n.Int64(); err == nil {
				c[i] = whole
			} else if f, err := n.Float64(); err == nil {
				c[i] = f
			}
		}
	}
	return c[1:], nil
}

const (
	// firstStep and mostSteps are how many operations a filter is tried on in one statement: few at
	// first, because most filters let enough of the first ones through.
	firstStep, mostSteps = 400, 10_000
	// mostTried is how many rows are read at once for a filter that SQL cannot say whole.
	mostTried = 2000
)

// Page returns one page of a list. What is open is few; a filter that may select what is settled is
// tried on the list in steps.
func (s *Store) Page(ctx context.Context, q ledger.Query) (page ledger.Page, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		q, began := plain(tx, q), time.Now()
		after, err := parseCursor(q)
		if err != nil {
			return err
		}
		kinds, err := kindsFor(tx, q.Filter)
		if err != nil {
			return err
		}
		waits, err := toCome(tx)
		steps := len(q.Filter.Terms) > 0 && q.Filter.Settles() && (q.Tab == ledger.TabAll || q.Tab == ledger.TabSettled)
		for step := firstStep; err == nil; step = min(10*step, mostSteps) {
			var until cursor
			if steps {
				if until, err = bound(tx, q.Order, after, step); err != nil {
					return err
				}
			}
			for many := q.Limit + 1; ; many = min(max(10*many, q.Limit+1), mostTried) {
				found, keys, err := listed(tx, q, kinds, after, until, many)
				if err != nil {
					return err
				}
				for i, l := range found {
					if row := l.listing(waits, q.Now); q.Filter.Match(row, q.Now) {
						if len(page.Rows) == q.Limit {
							page.Next = after.text(q)
							return nil
						}
						page.Rows = append(page.Rows, row)
					}
					after = keys[i]
				}
				if len(found) < many {
					break
				}
			}
			if until == nil {
				return nil
			}
			after, page.Searched = until, page.Searched+step
			if len(page.Rows) == q.Limit || q.Within > 0 && time.Since(began) > q.Within {
				page.Next = after.text(q)
				return nil
			}
		}
		return err
	})
	return page, err
}

// plain fills in what a query leaves open.
func plain(tx Tx, q ledger.Query) ledger.Query {
	if q.Tab == "" {
		q.Tab = ledger.TabAll
	}
	if q.Now.IsZero() {
		q.Now = tx.Moment().Wall
	}
	if q.Limit <= 0 {
		q.Limit = 50
	}
	if _, ok := sortings[q.Order]; !ok {
		q.Order = ledger.OrderLoss
	}
	if (q.Tab == ledger.TabAll || q.Tab == ledger.TabSettled) && q.Order == ledger.OrderLoss {
		q.Order = ledger.OrderNewest // what is settled has nothing to lose
	}
	return q
}

// between is the condition that a row comes after one key in the order of a list, and not after
// another one; nil is no bound.
func (s sorting) between(b *binder, after, until cursor) (where string) {
	behind, upTo := " > (", " <= ("
	if s.desc {
		behind, upTo = " < (", " >= ("
	}
	for _, bound := range []struct {
		than string
		key  cursor
	}{{behind, after}, {upTo, until}} {
		if bound.key != nil {
			where += " AND (" + strings.Join(s.columns, ", ") + ")" + bound.than + strings.Join(ledger.Each(bound.key, b.bind), ", ") + ")"
		}
	}
	return where
}

func (s sorting) order() string {
	direction := ""
	if s.desc {
		direction = " DESC"
	}
	return strings.Join(s.columns, direction+", ") + direction
}

// bound is the key at which the next step of a search ends; nil where the list ends before it.
func bound(tx Tx, order ledger.Order, after cursor, step int) (cursor, error) {
	sort, b := sortings[order], &binder{}
	_, keys, err := keysOf(tx, sort, fmt.Sprintf("FROM %s WHERE 1 = 1%s ORDER BY %s LIMIT 1 OFFSET %s", sort.from,
		sort.between(b, after, nil), sort.order(), b.bind(step-1)), b)
	return append(keys, nil)[0], err
}

// keysOf are the numbers of operations, and their sort keys.
func keysOf(tx Tx, sort sorting, from string, b *binder) (ops []int64, keys []cursor, err error) {
	keys, err = collect(tx, func(rows Rows) (cursor, error) {
		key := make(cursor, len(sort.columns))
		var op int64
		dest := []any{&op}
		for i := range key {
			dest = append(dest, &key[i])
		}
		err := rows.Scan(dest...)
		ops = append(ops, op)
		return key, err
	}, `SELECT o.seq, `+strings.Join(sort.columns, ", ")+` `+from, b.args...)
	return ops, keys, err
}

// listed are the records of a list behind a cursor and up to another one, and their sort keys.
func listed(tx Tx, q ledger.Query, kinds []string, after, until cursor, limit int) ([]*loaded, []cursor, error) {
	sort, b, where := sortings[q.Order], &binder{[]any{millis(q.Now)}}, "?1 = ?1"
	switch q.Tab {
	case ledger.TabAll:
	case ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight:
		where += " AND " + inOpen
		fallthrough
	default:
		where += " AND " + tabSQL + " = " + b.bind(string(q.Tab))
	}
	where += filterSQL(b, q.Filter, kinds, q.Now) + sort.between(b, after, until)
	ops, keys, err := keysOf(tx, sort, fmt.Sprintf("FROM %s LEFT JOIN price p ON p.op = o.seq WHERE %s ORDER BY %s LIMIT %s",
		sort.from, where, sort.order(), b.bind(limit)), b)
	if err != nil || len(keys) == 0 {
		return nil, nil, err
	}
	marks, seqs := among(ops)
	all, err := loadAll(tx, 0, `o.seq IN (`+marks+`)`, seqs...)
	if err == nil {
		err = inOutages(tx, all)
	}
	slices.SortFunc(all, func(a, b *loaded) int { return slices.Index(ops, a.seq) - slices.Index(ops, b.seq) })
	return all, keys, err
}

// listing is the record as a list shows it at now.
func (l *loaded) listing(waits map[string]string, now time.Time) ledger.Row {
	l.rec.Now = now
	row := l.rec.Row()
	row.Group = l.rec.Group(waits[l.turn()] != "")
	return row
}

// rounded takes off what adding leaves.
func rounded(sum float64) float64 { return math.Round(sum*1e6) / 1e6 }

// Needing counts what needs a person, of what a filter lets through.
func (s *Store) Needing(ctx context.Context, f ledger.Filter, now time.Time) (n ledger.Needing, err error) {
	if !exact(f.Terms) {
		for q := (ledger.Query{Tab: ledger.TabNeedsYou, Filter: f, Now: now, Limit: 1000}); ; {
			page, err := s.Page(ctx, q)
			for _, r := range page.Rows {
				n.Count(r, now)
			}
			if q.After = page.Next; q.After == "" || err != nil {
				return n, err
			}
		}
	}
	err = s.db.View(ctx, func(tx Tx) error {
		kinds, err := kindsFor(tx, f)
		if err != nil {
			return err
		}
		b := &binder{[]any{millis(now)}}
		n, err = needing(tx, openOnly+filterSQL(b, f, kinds, now), b.args)
		return err
	})
	return n, err
}

// needing sums up what needs a person.
func needing(tx Tx, where string, args []any) (n ledger.Needing, err error) {
	err = one(tx, []any{&n.NeedsYou, &n.Conflicts, &n.Twice, &n.Loss, &n.Unsent, &n.ByWord}, fmt.Sprintf(`
		SELECT count(*), count(*) FILTER (WHERE conflict <> ''), count(*) FILTER (WHERE conflict = 'duplicate'),
			coalesce(sum(rank) FILTER (WHERE word = ''), 0.0),
		       coalesce(sum(rank) FILTER (WHERE word = '' AND lane = 'not_landed'), 0.0), count(*) FILTER (WHERE word <> '')
		  FROM (SELECT o.conflict, %s AS lane, coalesce(p.rank, 0) AS rank, coalesce(p.miss_word, '') AS word
		          FROM op o LEFT JOIN price p ON p.op = o.seq WHERE %s AND %s = 'needs_you') AS needs`, laneSQL, where, tabSQL), args...)
	n.Loss, n.Unsent = rounded(n.Loss), rounded(n.Unsent)
	return n, err
}

// Counts returns how many operations stand where at now.
func (s *Store) Counts(ctx context.Context, now time.Time) (c ledger.Counts, err error) {
	c.ByState = map[ledger.State]int{}
	err = s.db.View(ctx, func(tx Tx) error {
		needs, err := needing(tx, openOnly, []any{millis(now)})
		if err != nil {
			return err
		}
		c.Needing = needs
		_, err = collect(tx, func(rows Rows) (none struct{}, err error) {
			var tab ledger.Tab
			var state ledger.State
			var n int
			err = rows.Scan(&tab, &state, &n)
			c.All, c.ByState[state] = c.All+n, c.ByState[state]+n
			switch tab {
			case ledger.TabChecking:
				c.Checking += n
			case ledger.TabInFlight:
				c.InFlight += n
			case ledger.TabSettled:
				c.Settled += n
			case ledger.TabParked:
				c.Parked += n
			}
			return none, err
		}, `SELECT `+tabSQL+` AS tab, `+stateSQL+` AS state, count(*) FROM op o LEFT JOIN price p ON p.op = o.seq GROUP BY 1, 2`,
			millis(now))
		return err
	})
	return c, err
}

// StateCounts counts operations by kind and state at now.
func (s *Store) StateCounts(ctx context.Context, now time.Time) ([]ledger.StateCount, error) {
	return gather(ctx, s, func(rows Rows) (c ledger.StateCount, err error) {
		var oldest int64
		err = rows.Scan(&c.Kind, &c.State, &c.Count, &oldest)
		c.Oldest = at(oldest)
		return c, err
	}, `SELECT kind, state, count(*), coalesce(min(nullif(since, 0)), 0) FROM (SELECT o.kind, `+stateSQL+` AS state,
			CASE WHEN `+overdue+` THEN o.deadline_at WHEN o.state = 'pending' THEN o.begun_at WHEN o.state = 'uncertain'
				AND o.abandoned = 0 THEN o.doubted_at ELSE 0 END AS since
		  FROM op o) AS counted GROUP BY 1, 2
		 ORDER BY 1, CASE state WHEN 'pending' THEN 1 WHEN 'uncertain' THEN 2 WHEN 'committed' THEN 3 WHEN 'failed' THEN 4 ELSE 5 END`,
		millis(now))
}

// DoubtCounts counts how doubts ended, where evidence ended them.
func (s *Store) DoubtCounts(ctx context.Context) ([]ledger.DoubtCount, error) {
	return gather(ctx, s, func(rows Rows) (c ledger.DoubtCount, err error) {
		return c, rows.Scan(&c.Kind, &c.Class, &c.Landed, &c.Missed)
	}, `SELECT o.kind, e.facts ->> 'doubt', count(*) FILTER (WHERE e.state = 'committed'), count(*) FILTER (WHERE e.state = 'failed')
		  FROM ev e JOIN op o ON o.seq = e.op WHERE e.facts ->> 'doubt' IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2`)
}

// Accuracy reads the decisions since then from the history, and the flags that were raised after
// them and before they were undone.
func (s *Store) Accuracy(ctx context.Context, since time.Time) ([]ledger.Accuracy, error) {
	return gather(ctx, s, func(rows Rows) (a ledger.Accuracy, err error) {
		return a, rows.Scan(&a.Actor, &a.Machine, &a.Verb, &a.Decided, &a.Wrong)
	}, `SELECT CASE WHEN substr(e.actor, 1, 7) = 'checks,' THEN 'checks' ELSE e.actor END, e.machine = 1, e.verb, count(*),
		       count(*) FILTER (WHERE EXISTS (SELECT 1 FROM ev x WHERE x.op = e.op AND x.seq > e.seq AND x.conflict IN ('contradiction',
			'duplicate')
		           AND NOT EXISTS (SELECT 1 FROM ev u WHERE u.op = e.op AND u.seq > e.seq AND u.seq < x.seq AND u.verb = 'undo')))
		  FROM ev e WHERE e.at >= ? AND (e.machine = 0 AND e.verb IN ('confirm', 'deny', 'abandon') OR e.machine = 1 AND e.verb = 'read'
			AND e.before <> e.state)
		 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`, millis(since))
}
