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

// rowColumns are what a row of a list is made of, from operations o and what the
// list has beside it, h.
var rowColumns = of("o.", shownColumns) + `, coalesce(h.granted_at, 0), coalesce(h.grant_until, 0), ` + pricingColumns + `, h.seq IS NOT NULL`

// notListed are what stands for a column of the list where an operation is in none.
var notListed = map[string]string{
	"granted_at": "0", "grant_until": "0", "calm": "1", "loss_order": "0.0", "downstream": "''", "priced_title": "''", "priced_target": "''",
	"duplicate_value": "0.0", "miss_value": "0.0", "rank": "0.0",
}

// Where a column is: in the list, or else in operations; in operations with what the
// list may have beside it; in operations that are in no list.
func hotColumn(c string) string {
	for _, k := range columns {
		if k.name == c && k.use&listed == 0 {
			return "o." + c
		}
	}
	return "h." + c
}

func flightColumn(c string) string {
	none := notListed[c]
	switch c {
	case "granted_at", "grant_until", "calm":
		return none
	}
	if none != "" {
		return "coalesce(h." + c + ", " + none + ")"
	}
	return "o." + c
}

func settledColumn(c string) string {
	if none := notListed[c]; none != "" {
		return none
	}
	return "o." + c
}

// openFrom is the list, with its operations where a condition asks for them.
func openFrom(condition string) string {
	if strings.Contains(condition, "o.") {
		return " CROSS JOIN operations o ON o.seq = h.seq"
	}
	return ""
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
	scan := newRowScan(len(sortings[q.Order].columns))
	for rows.Next() {
		r, err := scan.row(rows)
		if err != nil {
			return nil, nil, err
		}
		if !q.Now.Before(r.GrantUntil) { // expired, though that is not written down
			r.GrantedAt, r.GrantUntil = time.Time{}, time.Time{}
		}
		out, keys = append(out, r), append(keys, slices.Clone(scan.key))
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
				SELECT some.* FROM some CROSS JOIN open_operations h ON h.seq = some.%[4]s%[12]s WHERE some.listed = %[8]d%[5]s
				UNION ALL
				SELECT some.* FROM some CROSS JOIN operations o ON o.seq = some.%[4]s LEFT JOIN open_operations h ON h.seq = o.seq WHERE some.listed = %[9]d%[6]s
				UNION ALL
				SELECT some.* FROM some CROSS JOIN operations o ON o.seq = some.%[4]s WHERE some.listed = %[10]d%[7]s)
			ORDER BY %[2]s LIMIT %[11]s)`,
			keysSQL(b, q, after, b.limit(first), filterText{}), byKey, b.limit(first), last, filter.hot, filter.flight, filter.settled, inList, isFlying, isSettled, n, openFrom(filter.hot))
	} else {
		page = fmt.Sprintf(`page AS MATERIALIZED (SELECT * FROM (%s) ORDER BY %s LIMIT %s)`, keysSQL(b, q, after, n, filter), byKey, n)
	}
	return fmt.Sprintf(`
		WITH %s
		SELECT %s, %s, %s
		  FROM page CROSS JOIN operations o ON o.seq = page.%s LEFT JOIN open_operations h ON h.seq = o.seq
		 ORDER BY %s`, page, rowColumns, related, strings.Join(keys, ", "), last, byKey)
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
		from, where := "open_operations h NOT INDEXED"+openFrom(filter.hot), " WHERE 1"+filter.hot+" AND h.class <> 'pending'"
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

// rowScan takes the rows of a list one after the other: what each is made from, what
// is related to it, and its sort key.
type rowScan struct {
	op             operationScan
	pricing        pricingScan
	granted, until int64
	listed         bool
	sameInput      int
	overtaken      bool
	key            cursor
	dest           []any
}

// newRowScan makes one for rows with a sort key of so many columns.
func newRowScan(key int) *rowScan {
	s := &rowScan{op: operationScan{columns: shownColumns}, key: make(cursor, key)}
	s.dest = append(s.op.dest(nil), &s.granted, &s.until)
	s.dest = append(s.pricing.dest(s.dest), &s.listed, &s.sameInput, &s.overtaken)
	for i := range s.key {
		s.dest = append(s.dest, &s.key[i])
	}
	return s
}

func (s *rowScan) row(rows *sql.Rows) (ledger.Row, error) {
	if err := rows.Scan(s.dest...); err != nil {
		return ledger.Row{}, err
	}
	o := s.op.operation()
	r := o.Row()
	r.GrantedAt, r.GrantUntil, r.SameInput, r.Overtaken = at(s.granted), at(s.until), s.sameInput, s.overtaken
	if s.listed {
		r.Pricing = s.pricing.pricing(r.ID)
	}
	return r, nil
}
