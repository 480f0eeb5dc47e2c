package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

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

// settledColumns maps them to an operation that need not be in the hot table.
var settledColumns = map[string]string{
	"attempts": "o.attempt_count", "calm": "o.conflict = ''", "loss_order": "coalesce(h.loss_order, 0.0)",
	"granted_at": "coalesce(h.granted_at, 0)", "grant_until": "coalesce(h.grant_until, 0)",
	"digest": "coalesce(h.digest, '')", "downstream": "coalesce(h.downstream, '')",
	"priced_title": "coalesce(h.priced_title, '')", "priced_target": "coalesce(h.priced_target, '')",
	"duplicate_value": "coalesce(h.duplicate_value, 0.0)", "duplicate_word": "coalesce(h.duplicate_word, '')",
	"duplicate_guess": "coalesce(h.duplicate_guess, 0)", "miss_value": "coalesce(h.miss_value, 0.0)",
	"miss_word": "coalesce(h.miss_word, '')", "miss_guess": "coalesce(h.miss_guess, 0)", "odds": "coalesce(h.odds, 0.0)",
	"rank": "coalesce(h.rank, 0.0)", "decide_at": "coalesce(h.decide_at, 0)", "read_at": "coalesce(h.read_at, 0)", "reads": "coalesce(h.reads, 0)",
}

func hotSelect() string { return "h." + strings.Join(rowColumns, ", h.") }

func settledSelect() string {
	cols := make([]string, len(rowColumns))
	for i, c := range rowColumns {
		if e := settledColumns[c]; e != "" {
			cols[i] = e + " AS " + c
		} else {
			cols[i] = "o." + c
		}
	}
	return strings.Join(cols, ", ")
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
		strings.ReplaceAll(hotSelect(), "h.", "o."), isTwin, overtakes, relations, overtakes,
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
		if q.Tab == ledger.TabAll { // what is resolved comes from operations
			tab = "NOT (h.conflict = '' AND (h.state IN ('committed', 'abandoned') OR h.state = 'failed' AND h.doubted = 0))"
		}
		selects = append(selects, fmt.Sprintf("SELECT * FROM (SELECT %s FROM open_operations h INDEXED BY %s WHERE %s AND %s%s%s ORDER BY %s LIMIT %s)",
			hotSelect(), index, where, tab, filter.hot, more, prefixed(sort.order), n))
	}
	if q.Tab == ledger.TabSettled || q.Tab == ledger.TabAll {
		selects = append(selects, settledSQL(q, filter, strings.ReplaceAll(more, "h.", "o."), n))
	}
	return strings.Join(selects, "\nUNION ALL\n")
}

// settledSQL walks the operations that nothing can move any more; a few of them
// are in the hot table still, parked or waiting for one more read.
func settledSQL(q ledger.Query, filter filterText, more, n string) string {
	index, order := "operations_resolved", strings.ReplaceAll(prefixed(sortings[q.Order].order), "h.", "o.")
	if q.Order == ledger.OrderOldest {
		index = "operations_resolved_by_age"
	}
	where := "o.resolved = 1" + filter.settled + more
	if q.Tab == ledger.TabSettled {
		where += fmt.Sprintf(" AND (h.id IS NULL OR %s = 'settled')", tabSQL)
	}
	return fmt.Sprintf("SELECT * FROM (SELECT %s FROM operations o INDEXED BY %s LEFT JOIN open_operations h ON h.id = o.id WHERE %s ORDER BY %s LIMIT %s)",
		settledSelect(), index, where, order, n)
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
	dest := []any{&r.ID, &r.Kind, &r.Key, &r.Token, &r.Title, &r.Target, &r.Source.Pipeline, &r.Source.Run, &r.Source.Host, &r.Source.PID,
		&r.State, &r.Version, &r.ErrorClass, &r.Verdict, &r.Conflict, &r.Doubted, &r.HandsOff, &r.Receipt, &r.Actor, &r.Attempts,
		&created, &updated, &deadline, &doubted, &parked, &granted, &until}
	dest = append(dest, p.dest()...)
	dest = append(dest, &fingerprint, &calm, &loss, &r.Twins, &r.Overtaken)
	if err := rows.Scan(dest...); err != nil {
		return r, nil, err
	}
	r.CreatedAt, r.UpdatedAt, r.DeadlineAt, r.DoubtedAt = at(created), at(updated), at(deadline), at(doubted)
	r.ParkedUntil, r.GrantedAt, r.GrantUntil = at(parked), at(granted), at(until)
	r.Pricing = p.pricing(r.ID)
	switch order {
	case ledger.OrderLoss:
		return r, cursor{calm, loss, created, r.ID}, nil
	case ledger.OrderNewest:
		return r, cursor{updated, r.ID}, nil
	}
	return r, cursor{created, r.ID}, nil
}
