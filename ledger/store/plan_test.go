package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// asking is a database that keeps what it was asked.
type asking struct {
	*memory
	said map[string][]any
}

type askingTx struct {
	Tx
	of *asking
}

func (a *asking) View(ctx context.Context, read func(Tx) error) error {
	return a.memory.View(ctx, func(tx Tx) error { return read(askingTx{tx, a}) })
}

func (t askingTx) Query(query string, args ...any) (Rows, error) {
	t.of.said[query] = args
	return t.Tx.Query(query, args...)
}

// What was changed last is listed first, and nothing is sorted for it: the history is read from its
// end until the page is full.
func TestTheNewestAreReadFromTheEndOfTheHistory(t *testing.T) {
	t.Parallel()
	db := &asking{need.Get(InMemory(nil, nil))(t).(*memory), map[string][]any{}}
	s, ctx := New(db, nil), context.Background()
	for i := range 20 {
		id := fmt.Sprint("o-", i)
		need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: "c-" + id, OperationID: id, AttemptID: "a-" + id, Kind: "k", Key: id,
			Token: id, Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true}}))(t)
	}
	for _, filter := range []string{"", "kind:k", "age>1h", "lane:in_flight"} {
		for _, tab := range []ledger.Tab{ledger.TabAll, ledger.TabSettled} {
			q := ledger.Query{Tab: tab, Order: ledger.OrderNewest, Filter: need.Get(ledger.ParseFilter(filter))(t), Limit: 7}
			for range 3 {
				q.After = need.Get(s.Page(ctx, q))(t).Next
			}
		}
	}
	pages := 0
	for query, args := range db.said {
		if !strings.HasPrefix(query, "SELECT o.seq, e.seq FROM ev e") {
			continue
		}
		pages++
		need.OK(t, db.View(ctx, func(tx Tx) error {
			plan, err := collect(tx, func(rows Rows) (line string, err error) {
				var id, parent, unused int64
				return line, rows.Scan(&id, &parent, &unused, &line)
			}, "EXPLAIN QUERY PLAN "+query, args...)
			text := strings.Join(plan, "\n")
			need.That(t, !strings.Contains(text, "ORDER BY"), "it sorts:\n%s\n%s", query, text)
			return err
		}))
	}
	need.That(t, pages >= 8, "%d statements for pages", pages)
}
