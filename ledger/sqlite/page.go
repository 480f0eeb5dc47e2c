package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// sorting is how a list is read: the index on the hot table that gives a class in
// this order, and the sort key. Rows that are equal in it go by their arrival.
type sorting struct {
	index   string
	settled string // the index on operations; "" for the order they are kept in
	columns []string
	desc    bool
}

var sortings = map[ledger.Order]sorting{
	ledger.OrderLoss:   {"open_by_loss", "operations_resolved", []string{"calm", "loss_order", "created_at", "seq"}, false},
	ledger.OrderNewest: {"open_by_change", "operations_resolved", []string{"updated_at", "seq"}, true},
	ledger.OrderOldest: {"open_by_age", "", []string{"seq"}, false},
}

// key is the sort key as columns named k1, k2, …
func (s sorting) key(name func(column string) string) string {
	cols := make([]string, len(s.columns))
	for i, c := range s.columns {
		cols[i] = fmt.Sprintf("%s AS k%d", name(c), i+1)
	}
	return strings.Join(cols, ", ")
}

// order is the key in its direction.
func (s sorting) order(name func(column string) string) string {
	cols := make([]string, len(s.columns))
	for i, c := range s.columns {
		if cols[i] = name(c); s.desc {
			cols[i] += " DESC"
		}
	}
	return strings.Join(cols, ", ")
}

// after is a condition on the rows behind a cursor.
func (s sorting) after(b *binder, c cursor, name func(column string) string) string {
	if c == nil {
		return ""
	}
	cols, marks := make([]string, len(c)), make([]string, len(c))
	for i, v := range c {
		cols[i], marks[i] = name(s.columns[i]), b.bind(v)
	}
	op := ">"
	if s.desc {
		op = "<"
	}
	return fmt.Sprintf(" AND (%s) %s (%s)", strings.Join(cols, ", "), op, strings.Join(marks, ", "))
}

// rowColumns are the columns of ledger.Row as the hot table has them.
var rowColumns = []string{
	"id", "kind", "key", "token", "title", "target", "source", "source_run", "source_host", "source_pid",
	"state", "version", "error_class", "verdict", "conflict", "doubted", "hands_off", "receipt", "actor", "attempts",
	"created_at", "updated_at", "deadline_at", "doubted_at", "parked_until", "granted_at", "grant_until",
	"digest", "downstream", "priced_title", "priced_target", "duplicate_value", "duplicate_word", "duplicate_guess",
	"miss_value", "miss_word", "miss_guess", "odds", "rank", "decide_at", "read_at", "reads",
}

// unlisted are the columns that an operation beside the list has under another
// name or not at all.
var unlisted = map[string]string{
	"attempts": "o.attempt_count", "granted_at": "0", "grant_until": "0", "calm": "1",
	"loss_order": "coalesce(h.loss_order, 0.0)",
	"digest":     "coalesce(h.digest, '')", "downstream": "coalesce(h.downstream, '')",
	"priced_title": "coalesce(h.priced_title, '')", "priced_target": "coalesce(h.priced_target, '')",
	"duplicate_value": "coalesce(h.duplicate_value, 0.0)", "duplicate_word": "coalesce(h.duplicate_word, '')", "duplicate_guess": "coalesce(h.duplicate_guess, 0)",
	"miss_value": "coalesce(h.miss_value, 0.0)", "miss_word": "coalesce(h.miss_word, '')", "miss_guess": "coalesce(h.miss_guess, 0)",
	"odds": "coalesce(h.odds, 0.0)", "rank": "coalesce(h.rank, 0.0)",
	"decide_at": "coalesce(h.decide_at, 0)", "read_at": "coalesce(h.read_at, 0)", "reads": "coalesce(h.reads, 0)",
}

// Where a column is: in the hot table, in operations with what a policy said of
// them beside it, and in operations that are in no list.
func hotColumn(c string) string { return "h." + c }

func flightColumn(c string) string {
	if e := unlisted[c]; e != "" {
		return e
	}
	return "o." + c
}

func settledColumn(c string) string {
	if c == "loss_order" {
		return "0.0"
	}
	return flightColumn(c)
}

func selected(name func(string) string) string {
	cols := make([]string, len(rowColumns))
	for i, c := range rowColumns {
		cols[i] = name(c)
	}
	return strings.Join(cols, ", ")
}

// binder numbers bound values; the first is now.
type binder struct{ args []any }

func (b *binder) bind(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("?%d", len(b.args))
}

// limit binds the n of a LIMIT. SQLite takes the value of a bare parameter into the
// plan, and prepares the statement anew whenever it is bound; it leaves ?+0 alone.
func (b *binder) limit(n int) string { return b.bind(n) + "+0" }

// Page returns one page of a list.
func (s *Store) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	q = s.plain(q)
	cursor, err := parseCursor(q)
	if err != nil {
		return ledger.Page{}, err
	}
	var page ledger.Page
	last := cursor
	for {
		rows, keys, err := s.fetch(ctx, q, cursor, q.Limit+1)
		if err != nil {
			return ledger.Page{}, translate(s.path, err)
		}
		for i, r := range rows {
			// The filter's SQL is an exact translation where it can be one; where
			// letters beyond ASCII are compared it lets more through.
			if !q.Filter.Match(r, q.Now) {
				continue
			}
			if len(page.Rows) == q.Limit {
				page.Next = last.text(q)
				return page, nil
			}
			page.Rows = append(page.Rows, r)
			last = keys[i]
		}
		if len(rows) <= q.Limit {
			return page, nil
		}
		cursor = keys[len(keys)-1]
	}
}

// plain fills in what a query leaves open.
func (s *Store) plain(q ledger.Query) ledger.Query {
	if q.Tab == "" {
		q.Tab = ledger.TabAll
	}
	if q.Now.IsZero() {
		q.Now = s.now()
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

// probe is how many rows of a list are tried before all of it is searched.
const probe = 400

// fetch reads rows after the cursor, with the sort key of each. Most filters let
// enough of the first rows through; one that does not has everything searched.
func (s *Store) fetch(ctx context.Context, q ledger.Query, after cursor, limit int) ([]ledger.Row, []cursor, error) {
	if len(q.Filter.Terms) > 0 && limit < probe {
		rows, keys, err := s.query(ctx, q, after, limit, probe)
		if err != nil || len(rows) == limit {
			return rows, keys, err
		}
	}
	return s.query(ctx, q, after, limit, 0)
}

func (s *Store) query(ctx context.Context, q ledger.Query, after cursor, limit, first int) ([]ledger.Row, []cursor, error) {
	b := &binder{args: []any{ms(q.Now)}}
	query := pageSQL(b, q, after, limit, first)
	rows, err := s.rows(ctx, query, b.args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var out []ledger.Row
	var keys []cursor
	for rows.Next() {
		key := make(cursor, len(sortings[q.Order].columns))
		r, err := scanRow(rows, key)
		if err != nil {
			return nil, nil, err
		}
		if !q.Now.Before(r.GrantUntil) { // expired, though nobody wrote it down
			r.GrantedAt, r.GrantUntil = time.Time{}, time.Time{}
		}
		out, keys = append(out, r), append(keys, key)
	}
	return out, keys, rows.Err()
}

// Where the rows of a list are read.
const (
	inList    = 1 // open_operations
	isFlying  = 0 // operations, with what a policy said of them beside it
	isSettled = 2 // operations that are in no list
)

// pageSQL finds the rows of a page by their sort keys alone, each slice of the
// list no further than needed, and then reads those rows, each where it is. With
// first, a filter is tried on so many rows of the list only.
func pageSQL(b *binder, q ledger.Query, after cursor, limit, first int) string {
	sort := sortings[q.Order]
	filter := filterSQL(b, q.Filter, q.Now)
	n := b.limit(limit)
	keys := make([]string, len(sort.columns))
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i+1)
	}
	last := keys[len(keys)-1] // the operation's number
	byKey := sort.order(func(c string) string { return keys[slices.Index(sort.columns, c)] })
	var page string
	if first > 0 {
		page = fmt.Sprintf(`some AS MATERIALIZED (SELECT * FROM (%[1]s) ORDER BY %[2]s LIMIT %[3]s), page AS MATERIALIZED (
			SELECT * FROM (
				SELECT some.* FROM some CROSS JOIN open_operations h ON h.seq = some.%[4]s WHERE some.listed = %[8]d%[5]s
				UNION ALL
				SELECT some.* FROM some CROSS JOIN operations o ON o.seq = some.%[4]s LEFT JOIN open_operations h ON h.seq = o.seq WHERE some.listed = %[9]d%[6]s
				UNION ALL
				SELECT some.* FROM some CROSS JOIN operations o ON o.seq = some.%[4]s WHERE some.listed = %[10]d%[7]s)
			ORDER BY %[2]s LIMIT %[11]s)`,
			keysSQL(b, q, after, b.limit(first), filterText{}), byKey, b.limit(first), last, filter.hot, filter.flight, filter.settled, inList, isFlying, isSettled, n)
	} else {
		page = fmt.Sprintf(`page AS MATERIALIZED (SELECT * FROM (%s) ORDER BY %s LIMIT %s)`, keysSQL(b, q, after, n, filter), byKey, n)
	}
	return fmt.Sprintf(`
		WITH %[1]s
		SELECT * FROM (
			SELECT %[2]s, 1 AS listed, %[3]s, %[4]s FROM page CROSS JOIN open_operations h ON h.seq = page.%[5]s CROSS JOIN operations o ON o.seq = h.seq WHERE page.listed = %[9]d
			UNION ALL
			SELECT %[6]s, h.seq IS NOT NULL AS listed, %[7]s, %[4]s FROM page CROSS JOIN operations o ON o.seq = page.%[5]s
			  LEFT JOIN open_operations h ON h.seq = o.seq WHERE page.listed <> %[9]d)
		ORDER BY %[8]s`,
		page, selected(hotColumn), related("h"), strings.Join(keys, ", "), last, selected(flightColumn), related("o"), byKey, inList)
}

// keysSQL selects the sort keys of a list, of each of its slices n at most.
func keysSQL(b *binder, q ledger.Query, after cursor, n string, filter filterText) string {
	sort := sortings[q.Order]
	var selects []string
	slice := func(listed int, name func(string) string, from, where string) {
		selects = append(selects, fmt.Sprintf("SELECT * FROM (SELECT %d AS listed, %s FROM %s%s%s ORDER BY %s LIMIT %s)",
			listed, sort.key(name), from, where, sort.after(b, after, name), sort.order(name), n))
	}
	if filter.hot == "" {
		for _, p := range parts(q.Tab) {
			index, where := sort.index, " WHERE h.class = '"+p.class+"'"
			if p.clock {
				index = "open_by_clock"
			}
			if p.where != "" {
				where += " AND " + p.where
			}
			slice(inList, hotColumn, "open_operations h INDEXED BY "+index, where)
		}
	} else {
		// What a filter lets through may be anywhere: reading the narrow table from
		// end to end is quicker than to look every row up from an index.
		from, where := "open_operations h NOT INDEXED", " WHERE 1"+filter.hot+" AND h.class <> 'pending'"
		if q.Tab != ledger.TabAll {
			where += " AND " + tabSQL + " = '" + string(q.Tab) + "'"
		}
		slice(inList, hotColumn, from, where)
	}
	if f := flight(q.Tab); f != "" {
		slice(isFlying, flightColumn, flightFrom, " AND "+f+filter.flight)
	}
	if q.Tab == ledger.TabSettled || q.Tab == ledger.TabAll {
		index := "NOT INDEXED"
		if sort.settled != "" {
			index = "INDEXED BY " + sort.settled
		}
		slice(isSettled, settledColumn, "operations o "+index,
			" WHERE o.resolved = 1 AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = o.seq)"+filter.settled)
	}
	return strings.Join(selects, "\nUNION ALL\n")
}

// scanRow takes the columns of a row, whether it is in the list, what is related
// to it, and its sort key.
func scanRow(rows *sql.Rows, key cursor) (ledger.Row, error) {
	var r ledger.Row
	var p pricingScan
	var created, updated, deadline, doubted, parked, granted, until int64
	var listed bool
	dest := []any{&r.ID, &r.Kind, &r.Key, &r.Token, &r.Title, &r.Target, &r.Source.Pipeline, &r.Source.Run, &r.Source.Host, &r.Source.PID,
		&r.State, &r.Version, &r.ErrorClass, &r.Verdict, &r.Conflict, &r.Doubted, &r.HandsOff, &r.Receipt, &r.Actor, &r.Attempts,
		&created, &updated, &deadline, &doubted, &parked, &granted, &until}
	dest = p.dest(dest)
	dest = append(dest, &listed, &r.SameInput, &r.Overtaken)
	for i := range key {
		dest = append(dest, &key[i])
	}
	if err := rows.Scan(dest...); err != nil {
		return r, err
	}
	r.CreatedAt, r.UpdatedAt, r.DeadlineAt, r.DoubtedAt = at(created), at(updated), at(deadline), at(doubted)
	r.ParkedUntil, r.GrantedAt, r.GrantUntil = at(parked), at(granted), at(until)
	if listed {
		r.Pricing = p.pricing(r.ID)
	}
	return r, nil
}
