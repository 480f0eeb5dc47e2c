package tables

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	direction := ""
	if s.desc {
		direction = " DESC"
	}
	return strings.Join(ledger.Each(s.columns, name), direction+", ") + direction
}

// between is a condition on the rows behind one cursor, up to another, as they were
// bound; either may be "".
func (s sorting) between(after, until string, name func(column string) string) string {
	out := ""
	side := func(key, op string) {
		if key == "" {
			return
		}
		out += fmt.Sprintf(" AND (%s) %s (%s)", strings.Join(ledger.Each(s.columns, name), ", "), op, key)
	}
	if s.desc {
		side(after, "<")
		side(until, ">=")
	} else {
		side(after, ">")
		side(until, "<=")
	}
	return out
}

// rowColumns are what a row of a list is made of, from operations o and what the
// list has beside it, h.
var rowColumns = of("o.", shownColumns) + `, coalesce(h.granted_at, 0), coalesce(h.grant_until, 0), ` + of("h.", pricingColumns) + `, h.seq IS NOT NULL`

// notListed are what stands for a column of the list where an operation is in none.
var notListed = map[string]string{
	"granted_at": "0", "grant_until": "0", "calm": "1", "loss_order": "0.0", "downstream": "''", "priced_title": "''", "priced_target": "''",
	"duplicate_value": "0.0", "miss_value": "0.0", "rank": "0.0",
}

// Where a column is: in the list, or else in operations; in operations with what the
// list may have beside it; in operations that are in no list.
func hotColumn(c string) string {
	for _, k := range columns {
		if k.name == c && k.use&listed == 0 || c == "receipt" { // which is read from all of them
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
type binder struct {
	d    *Dialect
	args []any
}

func (b *binder) bind(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("?%d", len(b.args))
}

// key binds a cursor; "" for none.
func (b *binder) key(c cursor) string {
	return strings.Join(ledger.Each(c, b.bind), ", ")
}

// limit binds the n of a LIMIT. SQLite takes the value of a bare parameter into the
// plan, and prepares the statement anew whenever it is bound; it leaves ?+0 alone.
func (b *binder) limit(n int) string { return b.bind(n) + "+0" }

// Page returns one page of a list. A filter that no index helps with is tried on the
// list in steps, from its beginning.
func (s *Store) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	q, err := plain(ctx, s, q)
	if err != nil {
		return ledger.Page{}, err
	}
	start, err := parseCursor(q)
	if err != nil {
		return ledger.Page{}, err
	}
	f := &finder{s: s, q: q, after: start, began: time.Now()}
	if err := f.plan(ctx); err != nil {
		return ledger.Page{}, s.db.Translate(err)
	}
	for done := false; !done; {
		if done, err = f.step(ctx); err != nil {
			return ledger.Page{}, s.db.Translate(err)
		}
	}
	return f.page, nil
}

// plain fills in what a query leaves open.
func plain(ctx context.Context, s *Store, q ledger.Query) (ledger.Query, error) {
	if q.Tab == "" {
		q.Tab = ledger.TabAll
	}
	if q.Now.IsZero() {
		now, err := s.db.Moment(ctx)
		if err != nil {
			return q, err
		}
		q.Now = now.Wall
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
	return q, nil
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

// rowScan takes the rows of a list one after the other: what each is made from, what
// is related to it, and its sort key.
type rowScan struct {
	op             scan[ledger.Operation]
	pricing        scan[ledger.Pricing]
	granted, until int64
	listed         bool
	overtaken      bool
	group          ledger.Group
	key            cursor
	dest           []any
}

// newRowScan makes one for rows with a sort key of so many columns.
func newRowScan(key int) *rowScan {
	s := &rowScan{op: scan[ledger.Operation]{columns: shownColumns}, pricing: scan[ledger.Pricing]{columns: pricingColumns}, key: make(cursor, key)}
	s.dest = append(s.op.dest(nil), &s.granted, &s.until)
	s.dest = append(s.pricing.dest(s.dest), &s.listed, &s.overtaken, &s.group)
	for i := range s.key {
		s.dest = append(s.dest, &s.key[i])
	}
	return s
}

func (s *rowScan) row(rows Rows) (ledger.Row, error) {
	if err := rows.Scan(s.dest...); err != nil {
		return ledger.Row{}, err
	}
	o := s.op.row()
	r := o.Row()
	r.GrantedAt, r.GrantUntil, r.Overtaken = At(s.granted), At(s.until), s.overtaken
	r.Group = s.group
	if s.listed {
		r.Pricing = pricingOf(&s.pricing, r.ID)
	}
	return r, nil
}
