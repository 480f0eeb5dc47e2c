package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
)

// sorting is how a list is read: the columns of its index, and the same of a
// row as a cursor.
type sorting struct {
	index  string // on the hot table, behind the class
	order  string
	after  string // condition on the row that comes after a cursor
	fields int    // of the cursor
}

var sortings = map[ledger.Order]sorting{
	ledger.OrderLoss: {"open_by_loss", "calm, loss_order, created_at, id",
		"(h.calm, h.loss_order, h.created_at, h.id) > (%s, %s, %s, %s)", 4},
	ledger.OrderNewest: {"open_by_change", "updated_at DESC, id DESC",
		"(h.updated_at, h.id) < (%s, %s)", 2},
	ledger.OrderOldest: {"open_by_age", "created_at, id",
		"(h.created_at, h.id) > (%s, %s)", 2},
}

// rowColumns are the columns of ledger.Row, from the hot table under the name h.
var rowColumns = []string{
	"id", "kind", "key", "token", "title", "target", "source", "source_run", "source_host", "source_pid",
	"state", "version", "error_class", "verdict", "conflict", "doubted", "hands_off", "receipt", "actor", "attempts",
	"created_at", "updated_at", "deadline_at", "doubted_at", "parked_until", "granted_at", "grant_until",
	"digest", "downstream", "priced_title", "priced_target", "duplicate_value", "duplicate_word", "duplicate_guess",
	"miss_value", "miss_word", "miss_guess", "odds", "rank", "decide_at", "read_at", "reads",
	"fingerprint", "calm", "loss_order",
}

// settledColumns are the columns of an operation that is not in the hot table
// under other names, or that it does not have.
var settledColumns = map[string]string{
	"attempts": "o.attempt_count", "calm": "1", "loss_order": "0.0", "granted_at": "0", "grant_until": "0",
	"digest": "''", "downstream": "''", "priced_title": "''", "priced_target": "''",
	"duplicate_value": "0.0", "duplicate_word": "''", "duplicate_guess": "0",
	"miss_value": "0.0", "miss_word": "''", "miss_guess": "0",
	"odds": "0.0", "rank": "0.0", "decide_at": "0", "read_at": "0", "reads": "0",
}

func hotSelect() string { return "h." + strings.Join(rowColumns, ", h.") + ", 1 AS listed" }

func settledSelect() string {
	cols := make([]string, len(rowColumns))
	for i, c := range rowColumns {
		if e := settledColumns[c]; e != "" {
			cols[i] = e + " AS " + c
		} else {
			cols[i] = "o." + c
		}
	}
	return strings.Join(cols, ", ") + ", 0 AS listed"
}

// binder numbers bound values; the first is now.
type binder struct{ args []any }

func (b *binder) bind(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("?%d", len(b.args))
}

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
	if err != nil || len(c) != sortings[q.Order].fields+1 || c[0] != string(q.Order) {
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

// fetch reads rows after the cursor, with the sort key of each.
func (s *Store) fetch(ctx context.Context, q ledger.Query, after cursor, limit int) ([]ledger.Row, []cursor, error) {
	b := &binder{args: []any{ms(q.Now)}}
	inner := pageSQL(b, q, after, limit)
	query := fmt.Sprintf(`
		SELECT %s,
		       (SELECT count(*) FROM (SELECT 1 FROM operations t WHERE %s AND NOT %s LIMIT %d)),
		       EXISTS (SELECT 1 FROM operations t WHERE %s AND t.id <> o.id)
		  FROM (%s) o ORDER BY %s LIMIT %s`,
		"o."+strings.Join(rowColumns, ", o.")+", o.listed", isTwin, overtakes, relations, overtakes,
		inner, sortings[q.Order].order, b.bind(limit))
	var rows *sql.Rows
	var err error
	if len(q.Filter.Terms) == 0 {
		rows, err = s.rows(ctx, query, b.args...)
	} else { // each filter is another text: not worth keeping prepared
		rows, err = s.read.QueryContext(ctx, query, b.args...)
	}
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var out []ledger.Row
	var keys []cursor
	for rows.Next() {
		r, key, err := scanRow(rows, q.Order)
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

// pageSQL selects a list's candidates, each part of it no further than needed.
func pageSQL(b *binder, q ledger.Query, after cursor, limit int) string {
	sort := sortings[q.Order]
	filter := filterSQL(b, q.Filter, q.Now)
	var more string
	if after != nil {
		marks := make([]any, len(after))
		for i, v := range after {
			marks[i] = b.bind(v)
		}
		more = " AND " + fmt.Sprintf(sort.after, marks...)
	}
	n := b.bind(limit)
	var selects []string
	for _, p := range parts(q.Tab) {
		index, where := sort.index, "h.class <> 'pending' AND h.class = '"+p.class+"'"
		if p.index != "" {
			index = p.index
		}
		if p.class == "pending" {
			where = "h.class = 'pending'"
		}
		if p.where != "" {
			where += " AND " + p.where
		}
		tab := fmt.Sprintf("%s = '%s'", tabSQL, q.Tab)
		if q.Tab == ledger.TabAll {
			tab = "1"
		}
		selects = append(selects, fmt.Sprintf("SELECT * FROM (SELECT %s FROM open_operations h INDEXED BY %s WHERE %s AND %s%s%s ORDER BY %s LIMIT %s)",
			hotSelect(), index, where, tab, filter.hot, more, prefixed(sort.order), n))
	}
	if q.Tab == ledger.TabSettled || q.Tab == ledger.TabAll {
		selects = append(selects, settledSQL(b, q, filter, after, n))
	}
	return strings.Join(selects, "\nUNION ALL\n")
}

// settledSQL walks the operations that nothing can move any more.
func settledSQL(b *binder, q ledger.Query, filter filterText, after cursor, n string) string {
	sort := sortings[q.Order]
	index := "operations_resolved"
	if sort.index == "open_by_age" {
		index = "operations_resolved_by_age"
	}
	where := "o.resolved = 1 AND NOT EXISTS (SELECT 1 FROM open_operations h WHERE h.id = o.id)" + filter.settled
	if after != nil {
		marks := make([]any, len(after))
		for i, v := range after {
			marks[i] = b.bind(v)
		}
		where += " AND " + strings.ReplaceAll(fmt.Sprintf(sort.after, marks...), "h.", "o.")
	}
	return fmt.Sprintf("SELECT * FROM (SELECT %s FROM operations o INDEXED BY %s WHERE %s ORDER BY %s LIMIT %s)",
		settledSelect(), index, where, strings.ReplaceAll(prefixed(sort.order), "h.", "o."), n)
}

func prefixed(order string) string {
	cols := strings.Split(order, ", ")
	for i := range cols {
		cols[i] = "h." + cols[i]
	}
	return strings.Join(cols, ", ")
}

func scanRow(rows *sql.Rows, order ledger.Order) (ledger.Row, cursor, error) {
	var r ledger.Row
	var p pricingScan
	var created, updated, deadline, doubted, parked, granted, until int64
	var fingerprint string
	var calm int64
	var loss float64
	var listed bool
	dest := []any{&r.ID, &r.Kind, &r.Key, &r.Token, &r.Title, &r.Target, &r.Source.Pipeline, &r.Source.Run, &r.Source.Host, &r.Source.PID,
		&r.State, &r.Version, &r.ErrorClass, &r.Verdict, &r.Conflict, &r.Doubted, &r.HandsOff, &r.Receipt, &r.Actor, &r.Attempts,
		&created, &updated, &deadline, &doubted, &parked, &granted, &until}
	dest = append(dest, p.dest()...)
	dest = append(dest, &fingerprint, &calm, &loss, &listed, &r.Twins, &r.Overtaken)
	if err := rows.Scan(dest...); err != nil {
		return r, nil, err
	}
	r.CreatedAt, r.UpdatedAt, r.DeadlineAt, r.DoubtedAt = at(created), at(updated), at(deadline), at(doubted)
	r.ParkedUntil, r.GrantedAt, r.GrantUntil = at(parked), at(granted), at(until)
	if listed {
		r.Pricing = p.pricing(r.ID)
	}
	switch order {
	case ledger.OrderLoss:
		return r, cursor{calm, loss, created, r.ID}, nil
	case ledger.OrderNewest:
		return r, cursor{updated, r.ID}, nil
	}
	return r, cursor{created, r.ID}, nil
}
