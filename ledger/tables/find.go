package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	// firstStep and lastStep are how many rows of a list are searched in one
	// statement, at the beginning and at most: few, because most filters let enough
	// of the first rows through; more later, for the statement's own cost.
	firstStep = 400
	lastStep  = 50_000
	// few is how many operations an index may name for it to be used.
	few = 2000
)

// finder makes one page.
type finder struct {
	s     *Store
	q     ledger.Query
	kinds []string // see kindsFor
	began time.Time
	page  ledger.Page
	named int    // an index names no more than so many that the filter can select; 0: none does
	in    bool   // it selects from outages
	after cursor // everything up to here is done
	size  int    // rows of the next step; 0: all that are left
}

// plan decides how the page is found.
func (f *finder) plan(ctx context.Context) error {
	if len(f.q.Filter.Terms) == 0 {
		return nil
	}
	var err error
	if f.kinds, err = kindsFor(ctx, f.s.db, f.q.Filter); err != nil {
		return err
	}
	if f.in = slices.ContainsFunc(f.q.Filter.Terms, selectsOutage); f.in {
		return nil
	}
	b := &binder{d: f.s.d, args: []any{Millis(f.q.Now)}}
	if named := namedSQL(b, f.q.Filter.Terms); named != "" {
		var n int
		if err := f.one(ctx, []any{&n}, fmt.Sprintf("SELECT count(*) FROM (SELECT * FROM (%s) AS named LIMIT %d) AS few", named, few+1), b.args...); err != nil {
			return err
		}
		if n <= few {
			f.named = roomFor(n)
		}
	}
	if f.named == 0 {
		f.size = f.s.FirstStep
		if !settles(f.q) { // one that leaves few out is answered at once
			f.size = max(f.size, 2*f.q.Limit)
		}
	}
	return nil
}

// roomFor is a bound well above n, one of three, so that statements are few. A planner
// that keeps no statistics of what is asked takes any number for a large one.
func roomFor(n int) int {
	room := 20
	for 2*n > room {
		room *= 20
	}
	return room
}

// selectsOutage reports whether a term lets only what is in an outage through: its
// members are found by it.
func selectsOutage(t ledger.Term) bool {
	return t.Field == "outage" && !t.Not && t.Value != ledger.AnyOutage
}

// step searches a part of the list; done, when the page is full or the list ends.
func (f *finder) step(ctx context.Context) (done bool, err error) {
	var until cursor
	if f.size > 0 {
		if until, err = f.bound(ctx); err != nil {
			return false, err
		}
	}
	last := f.after
	for {
		rows, keys, err := f.query(ctx, f.after, until)
		if err != nil {
			return false, err
		}
		for i, r := range rows {
			// The filter's SQL is an exact translation where it can be one; where
			// letters beyond ASCII are compared it lets more through.
			if !f.q.Filter.Match(r, f.q.Now) {
				continue
			}
			if len(f.page.Rows) == f.q.Limit {
				f.page.Next = last.text(f.q)
				return true, nil
			}
			if f.page.Rows == nil { // in place, because what is kept never overtakes what is read
				f.page.Rows = rows[:0]
			}
			f.page.Rows = append(f.page.Rows, r)
			last = keys[i]
		}
		if len(rows) <= f.q.Limit {
			break
		}
		f.after = keys[len(keys)-1]
	}
	if until == nil {
		return true, nil
	}
	f.after, f.page.Searched = until, f.page.Searched+f.size
	if f.size = min(10*f.size, lastStep); !settles(f.q) {
		f.size = 0 // the hot table is read as a whole in no time
	}
	if f.q.Within > 0 && time.Since(f.began) > f.q.Within {
		f.page.Next = until.text(f.q)
		return true, nil
	}
	return false, nil
}

// settles reports whether a query selects settled operations: there may be any number.
func settles(q ledger.Query) bool {
	return (q.Tab == ledger.TabSettled || q.Tab == ledger.TabAll) && q.Filter.Settles()
}

// bound is the key at which the next step ends; nil where the list ends before it.
func (f *finder) bound(ctx context.Context) (cursor, error) {
	sort := sortings[f.q.Order]
	b := &binder{d: f.s.d, args: []any{Millis(f.q.Now)}}
	var query string
	switch {
	case !settles(f.q):
		l := &listing{q: f.q, after: b.key(f.after), n: b.limit(f.size)}
		query = fmt.Sprintf("SELECT %s FROM (%s) AS list ORDER BY %s LIMIT 1 OFFSET %d", strings.Join(sort.keys(), ", "), l.keys(), sort.byKey(), f.size-1)
	case sort.settled == "":
		from := "0"
		if f.after != nil {
			from = b.bind(f.after[0])
		}
		query = fmt.Sprintf("SELECT k1 FROM (SELECT %s + %d AS k1, max(seq) AS newest FROM operations) AS step WHERE k1 < newest", from, f.size)
	default:
		query = fmt.Sprintf("SELECT %s FROM operations o INDEXED BY %s WHERE o.resolved = 1%s ORDER BY %s LIMIT 1 OFFSET %d",
			sort.key(settledColumn), sort.settled, sort.between(b.key(f.after), "", settledColumn), sort.order(settledColumn), f.size-1)
	}
	key := make(cursor, len(sort.columns))
	dest := make([]any, len(key))
	for i := range key {
		dest[i] = &key[i]
	}
	err := f.one(ctx, dest, query, b.args...)
	if errors.Is(err, errNone) {
		return nil, nil
	}
	return key, err
}

// one reads a single row.
func (f *finder) one(ctx context.Context, dest []any, query string, args ...any) error {
	return one(outside{ctx, f.s.db}, query, args, dest...)
}

func (f *finder) query(ctx context.Context, after, until cursor) ([]ledger.Row, []cursor, error) {
	b := &binder{d: f.s.d, args: []any{Millis(f.q.Now)}}
	text, err := inRuns(outside{ctx, f.s.db}, b, pageSQL(b, f.q, f.kinds, after, until, f.named))
	if err != nil {
		return nil, nil, err
	}
	rows, err := f.s.db.Query(ctx, text, b.args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	out, keys := make([]ledger.Row, 0, min(f.q.Limit, 100)+1), make([]cursor, 0, min(f.q.Limit, 100)+1)
	scan := newRowScan(len(sortings[f.q.Order].columns))
	for rows.Next() {
		r, err := scan.row(rows)
		if err != nil {
			return nil, nil, err
		}
		if !f.q.Now.Before(r.GrantUntil) { // expired, and not written down yet
			r.GrantedAt, r.GrantUntil = time.Time{}, time.Time{}
		}
		out, keys = append(out, r), append(keys, slices.Clone(scan.key))
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		return nil, nil, err
	}
	var in map[string][]string
	err = f.s.db.Brief(ctx, func(q Querier) (err error) {
		in, err = outagesOf(q, out)
		return err
	})
	for i := range out {
		out[i].Outages = in[out[i].ID]
	}
	return out, keys, err
}

// keys are the columns of a sort key, by the names they have in a page.
func (s sorting) keys() []string {
	out := make([]string, len(s.columns))
	for i := range out {
		out[i] = fmt.Sprintf("k%d", i+1)
	}
	return out
}

// byKey is the order of a page.
func (s sorting) byKey() string {
	return s.order(func(c string) string { return s.keys()[slices.Index(s.columns, c)] })
}

// pageSQL finds the rows of a page by their sort keys alone, each slice of the
// list no further than needed, and then reads those rows, each where it is.
func pageSQL(b *binder, q ledger.Query, kinds []string, after, until cursor, named int) string {
	l := &listing{q: q, filter: filterSQL(b, q.Filter, kinds, q.Now), n: b.limit(q.Limit + 1), after: b.key(after), until: b.key(until)}
	if len(q.Filter.Terms) > 0 {
		return l.page(b, named)
	}
	shape := pageShape{q.Tab, q.Order, after != nil, until != nil}
	text, known := pageTexts.Load(shape)
	if !known {
		text, _ = pageTexts.LoadOrStore(shape, l.page(b, 0))
	}
	return text.(string)
}

// pageShape is what the text of a page without a filter depends on. To put it together
// takes a tenth of the time of such a page.
type pageShape struct {
	tab          ledger.Tab
	order        ledger.Order
	after, until bool
}

var pageTexts sync.Map // string by pageShape

// page is the text of a page.
func (l *listing) page(b *binder, named int) string {
	sort, with, group := sortings[l.q.Order], "", "''"
	if l.q.Filter.Has(func(t ledger.Term) bool { return t.Field == "group" }) {
		group = groupAny
	}
	if i := slices.IndexFunc(l.q.Filter.Terms, selectsOutage); i >= 0 {
		l.named = true
		with = fmt.Sprintf("named AS MATERIALIZED (%s), ", membersOf(b, l.q.Filter.Terms[i].Value))
	} else if named > 0 {
		l.named = true
		with = fmt.Sprintf("named AS MATERIALIZED (%s LIMIT %d), ", namedSQL(b, l.q.Filter.Terms), named)
	}
	keys := sort.keys()
	return fmt.Sprintf(`
		WITH %spage AS MATERIALIZED (SELECT * FROM (%s) AS list ORDER BY %s LIMIT %s)
		SELECT %s, %s, %s, %s
		  FROM page CROSS JOIN operations o ON o.seq = page.%s LEFT JOIN open_operations h ON h.seq = o.seq
		 ORDER BY %s`, with, l.keys(), sort.byKey(), l.n, rowColumns, overtaken, group, strings.Join(keys, ", "), keys[len(keys)-1], sort.byKey())
}

// listing selects the sort keys of a list, of each of its slices n at most.
type listing struct {
	q            ledger.Query
	after, until string // bound
	filter       filterText
	named        bool // only of what an index names
	n            string
	selects      []string
}

func (l *listing) slice(name func(string) string, from, where string) {
	sort := sortings[l.q.Order]
	l.selects = append(l.selects, fmt.Sprintf("SELECT * FROM (SELECT %s FROM %s%s%s ORDER BY %s LIMIT %s) AS slice",
		sort.key(name), from, where, sort.between(l.after, l.until, name), sort.order(name), l.n))
}

func (l *listing) keys() string {
	sort := sortings[l.q.Order]
	l.open(sort)
	if f := flight(l.q.Tab); f != "" {
		l.slice(flightColumn, flightFrom, " AND "+f+l.filter.flight)
	}
	if settles(l.q) {
		from, where := "operations o NOT INDEXED", " WHERE o.resolved = 1"
		switch {
		case l.named:
			from, where = "named CROSS JOIN operations o ON o.seq = named.seq", " WHERE o.resolved + 0 = 1" // no index of all that is settled
		case sort.settled != "":
			from = "operations o INDEXED BY " + sort.settled
		}
		l.slice(settledColumn, from, where+" AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.seq = o.seq)"+l.filter.settled)
	}
	return strings.Join(l.selects, "\nUNION ALL\n")
}

// open are the slices of the hot table.
func (l *listing) open(sort sorting) {
	// What a filter lets through may be anywhere: to read from end to end is quicker
	// than to look every row up from an index, be it the table or all texts of a class.
	whole, index := l.filter.hot != "" && l.until == "", sort.index
	switch {
	case l.named, whole && !strings.Contains(l.filter.hot, "h.search"):
		from, where := "open_operations h NOT INDEXED", " WHERE h.class <> 'pending'"
		if l.named {
			from = "named CROSS JOIN open_operations h ON h.seq = named.seq"
		}
		if l.q.Tab != ledger.TabAll {
			where += " AND " + tabSQL + " = '" + string(l.q.Tab) + "'"
		}
		l.slice(hotColumn, from+openFrom(l.filter.hot), where+l.filter.hot)
		return
	case whole:
		index = "open_by_age"
	}
	for _, p := range parts(l.q.Tab) {
		from, where := "open_operations h INDEXED BY "+index, " WHERE h.class = '"+p.class+"'"
		if p.where != "" {
			where += " AND " + p.where
		}
		if p.clock { // the order keeps a planner that takes no hint to the clock: few pass
			from, where = "(SELECT h.* FROM open_operations h INDEXED BY open_by_clock"+where+" ORDER BY h.clock_at) AS h", " WHERE 1 = 1"
		}
		l.slice(hotColumn, from+openFrom(l.filter.hot), where+l.filter.hot)
	}
}

// names reports whether an index names what a term selects, or each of its alternatives.
func names(t ledger.Term) bool {
	return !t.Not && (len(t.Columns()) > 0 || len(t.Any) > 0 && !slices.ContainsFunc(t.Any, func(one []ledger.Term) bool { return !slices.ContainsFunc(one, names) }))
}

// namedSQL selects the operations that an index names for one of the terms; "" where none
// has one.
func namedSQL(b *binder, terms []ledger.Term) string {
	i := slices.IndexFunc(terms, names)
	if i < 0 {
		return ""
	}
	var found []string
	for _, column := range terms[i].Columns() {
		from, to := b.bind(terms[i].Value), b.bind(terms[i].Value+"\U0010FFFF")
		for _, index := range prefixIndexes[column] {
			found = append(found, fmt.Sprintf("SELECT seq FROM operations INDEXED BY %s WHERE %s AND %s >= %s AND %s < %s",
				index.name, index.where, column, from, column, to))
		}
	}
	for _, one := range terms[i].Any {
		found = append(found, namedSQL(b, one))
	}
	return strings.Join(found, " UNION ")
}

// prefixIndexes are the indexes that find an operation by the beginning of a column.
var prefixIndexes = map[string][]struct{ name, where string }{
	"id":       {{"sqlite_autoindex_operations_1", "id <> ''"}},
	"key":      {{"operations_by_key", "key_live = 1"}, {"operations_by_former_key", "key_live = 0"}},
	"sent_key": {{"operations_by_sent_key", "sent_key <> ''"}},
	"token":    {{"operations_by_token", "token <> ''"}},
	"receipt":  {{"operations_by_receipt", "receipt <> ''"}},
}
