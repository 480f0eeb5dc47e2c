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

// sorting is the order of a list: where its rows come from, its columns, the last of which tells
// all rows apart, and the index that has what is open in it.
type sorting struct {
	from    string
	columns []string
	desc    bool
	open    string
}

// sortings are the orders of lists, nearly all of which an index has. Operations have numbers in the
// order of their beginning. byHistory is for what may be settled: the newest change is found from the
// end of the history, or from few operations.
var (
	sortings = map[ledger.Order]sorting{
		ledger.OrderLoss:   {"op o", []string{"CASE o.conflict WHEN '' THEN 1 ELSE 0 END", "-o.rank", "o.seq"}, false, "op_open"},
		ledger.OrderNewest: {"op o", []string{"o.changed_at", "o.seq"}, true, "op_changed"},
		ledger.OrderOldest: {"op o", []string{"o.seq"}, false, "op_open"},
	}
	byHistory = sorting{"ev e CROSS JOIN op o ON o.seq = e.op AND " + isNewest, []string{"e.seq"}, true, ""}
)

const fromFew = "op o CROSS JOIN ev e ON e.op = o.seq AND " + isNewest

// isNewest is the condition that event e is the newest change of operation o; of what was moved, the newest event.
const isNewest = `({likely o.change_id = e.id} OR o.moved <> 0 AND o.change_id = ''
	AND e.seq = (SELECT max(m.seq) FROM ev m WHERE m.op = o.seq))`

// from reads columns of operations o with their prices p.
func from(rows string, columns []string, where string) string {
	return `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + rows + ` LEFT JOIN price p ON p.op = o.seq WHERE ` + where
}

// hasNow holds. It has ?1 in a statement, and a table: PostgreSQL joins in vain what a condition without one may ask.
const hasNow = "o.seq <> -?1"

// unsettled reads what is in flight or open, the latter by an index, and only the first ones of both.
func unsettled(index string, columns []string, where, first string) string {
	return "{arm " + first + "; " + from("op o {by "+index+"}", columns, isOpen+" AND "+where) + `} UNION ALL {arm ` + first + "; " +
		from("op o {by op_pending}", columns, inFlight+" AND "+where) + "}"
}

// whole reports whether a list has what is settled, too.
func whole(q ledger.Query) bool { return q.Tab == ledger.TabAll || q.Tab == ledger.TabSettled }

func sortingOf(q ledger.Query) sorting {
	if q.Order == ledger.OrderNewest && whole(q) {
		return byHistory
	}
	return sortings[q.Order]
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
	if err != nil || len(c) != len(sortingOf(q).columns)+1 || c[0] != string(q.Order) {
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
		few, err := namedIn(q.Filter.Terms).few(tx)
		if err != nil {
			return err
		}
		var waits map[string]string
		Ahead(tx, EventsQuery(openRuns))
		steps := len(q.Filter.Terms) > 0 && q.Filter.Settles() && whole(q) && few == nil
		for step := firstStep; err == nil; step = min(10*step, mostSteps) {
			var until cursor
			if steps {
				if until, err = sortingOf(q).bound(tx, after, step); err != nil {
					return err
				}
			}
			for many := q.Limit + 1; ; many = min(max(10*many, q.Limit+1), mostTried) {
				found, keys, err := listed(tx, q, kinds, few, after, until, many)
				if err == nil && waits == nil {
					waits, err = toCome(tx)
				}
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
	if whole(q) && q.Order == ledger.OrderLoss {
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

// keys are the columns of the order as a statement selects them.
func (s sorting) keys() []string {
	out := []string{"o.seq"}
	for i, column := range s.columns {
		out = append(out, fmt.Sprint(column, " AS k", i))
	}
	return out
}

// order is that of a statement, without the first columns, which are the same in all rows.
func (s sorting) order(same int) (out string) {
	for i := same; i < len(s.columns); i++ {
		if out += fmt.Sprint(", k", i); s.desc {
			out += " DESC"
		}
	}
	return " ORDER BY " + out[2:]
}

// bound is the key at which the next step of a search ends; nil where the list ends before it.
func (s sorting) bound(tx Tx, after cursor, step int) (cursor, error) {
	b := &binder{}
	_, keys, err := s.read(tx, from(s.from, s.keys(), "1 = 1"+s.between(b, after, nil))+s.order(0)+
		` LIMIT 1 OFFSET `+b.bind(step-1), b)
	return append(keys, nil)[0], err
}

// read gives the numbers of operations, and their sort keys.
func (s sorting) read(tx Tx, query string, b *binder) (ops []int64, keys []cursor, err error) {
	keys, err = Collect(tx, func(rows Rows) (cursor, error) {
		key := make(cursor, len(s.columns))
		var op int64
		dest := []any{&op}
		for i := range key {
			dest = append(dest, &key[i])
		}
		err := rows.Scan(dest...)
		ops = append(ops, op)
		return key, err
	}, query, b.args...)
	return ops, keys, err
}

// listed are the records of a list behind a cursor and up to another one, and their sort keys. few, where
// it is not nil, is the condition of the few that it may have.
func listed(tx Tx, q ledger.Query, kinds []string, few func(*binder) string, after, until cursor, limit int) ([]*loaded, []cursor, error) {
	sort, b, where, same := sortingOf(q), &binder{[]any{millis(q.Now)}}, hasNow, 0
	if q.Tab != ledger.TabAll {
		where += " AND {likely " + tabSQL + " = " + b.bind(string(q.Tab)) + "}"
	}
	where += filterSQL(b, q.Filter, kinds, q.Now) + sort.between(b, after, until)
	if q.Order == ledger.OrderLoss && after != nil && fmt.Sprint(after[0]) == "1" { // no index is entered by several expressions
		where += " AND " + sort.columns[0] + " = 1 AND -o.rank >= " + b.bind(after[1])
		same = 1
	}
	query := ""
	switch {
	case few != nil && sort.from == byHistory.from:
		query = from(fromFew, sort.keys(), few(b)+" AND "+where)
	case few != nil:
		query = from(sort.from, sort.keys(), few(b)+" AND "+where)
	case whole(q):
		query = from(sort.from, sort.keys(), where)
	default:
		query = unsettled(sort.open, sort.keys(), where, sort.order(same)+" LIMIT "+decimal(limit))
	}
	ops, keys, err := sort.read(tx, query+sort.order(same)+` LIMIT `+b.bind(limit), b)
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
		c, err := unsettledCounts(tx, hasNow+filterSQL(b, f, kinds, now), b.args)
		n = c.Needing
		return err
	})
	return n, err
}

// unsettledCounts counts what is not settled and lets itself be selected so, a tab each. It is read once: what a
// compound gives is not worked out anew for each of the sums.
func unsettledCounts(tx Tx, where string, args []any) (c ledger.Counts, err error) {
	sums := ""
	for _, of := range []string{"1 = 1", "conflict <> ''", "conflict = 'twice'", "by_word = 1"} {
		sums += " count(*) FILTER (WHERE tab = 'needs_you' AND " + of + "),"
	}
	for _, of := range []string{"by_word = 0", "by_word = 0 AND lane = 'not_landed'"} {
		sums += " coalesce(sum(rank) FILTER (WHERE tab = 'needs_you' AND " + of + "), 0.0),"
	}
	err = One(tx, []any{&c.NeedsYou, &c.Conflicts, &c.Twice, &c.ByWord, &c.Loss, &c.Unsent, &c.Checking, &c.InFlight, &c.Parked},
		`SELECT`+sums+` count(*) FILTER (WHERE tab = 'checking'), count(*) FILTER (WHERE tab = 'in_flight'),
			count(*) FILTER (WHERE tab = 'parked') FROM (`+unsettled("op_open", []string{tabSQL + " AS tab", "o.conflict", "o.rank",
			"CASE o.state WHEN 'failed' THEN " + laneSQL + " ELSE '' END AS lane", "o.by_word"}, where, "")+`) AS few`,
		args...)
	c.Loss, c.Unsent = rounded(c.Loss), rounded(c.Unsent)
	return c, err
}

// Counts returns how many operations stand where at now.
func (s *Store) Counts(ctx context.Context, now time.Time) (c ledger.Counts, err error) {
	err = s.db.View(ctx, func(tx Tx) (err error) {
		Ahead(tx, totalQuery)
		Ahead(tx, flyingQuery, millis(now))
		Ahead(tx, newerQuery, placeName, int64(math.MaxInt64))
		if c, err = unsettledCounts(tx, hasNow, []any{millis(now)}); err != nil {
			return err
		}
		sums, err := sumsOf(tx, math.MaxInt64)
		if err != nil {
			return err
		}
		states, err := sums.states(tx, now, false)
		c.ByState = map[ledger.State]int{}
		for _, of := range states {
			c.All, c.ByState[of.State] = c.All+of.Count, c.ByState[of.State]+of.Count
		}
		c.Settled = c.All - c.NeedsYou - c.Checking - c.InFlight - c.Parked
		return err
	})
	return c, err
}
