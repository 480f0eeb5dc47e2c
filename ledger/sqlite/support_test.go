package sqlite

import (
	"context"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

type pathURL struct{ path string }

func (p *pathURL) String() string { return (&url.URL{Path: p.path}).EscapedPath() }

func diff(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }

// texts are what a query gives in its last column.
func texts(t testing.TB, s *Store, query string, args ...any) (out []string) {
	t.Helper()
	rows := need.Get(s.rows(ctx, query, args...))(t)
	defer rows.Close()
	columns := need.Get(rows.Columns())(t)
	for rows.Next() {
		var text string
		dest := make([]any, len(columns))
		for i := range dest {
			dest[i] = new(any)
		}
		dest[len(dest)-1] = &text
		need.OK(t, rows.Scan(dest...))
		out = append(out, text)
	}
	need.OK(t, rows.Err())
	return out
}

// listener is a ledger's database that keeps what it is asked.
type listener struct {
	tables.Database
	asked []tables.Ask
}

type listened struct {
	tables.Querier
	by *listener
}

// queries are those that a store makes, outside of changes.
func queries(s *Store, do func(*tables.Store)) []tables.Ask {
	l := &listener{Database: database{s.handle}}
	do(tables.New(l))
	return l.asked
}

func (l *listener) Query(ctx context.Context, query string, args ...any) (tables.Rows, error) {
	l.asked = append(l.asked, tables.Ask{Query: query, Args: args})
	return l.Database.Query(ctx, query, args...)
}

func (l *listener) View(ctx context.Context, read func(tables.Querier) error) error {
	return l.Database.View(ctx, func(q tables.Querier) error { return read(listened{q, l}) })
}

func (l *listener) Brief(ctx context.Context, read func(tables.Querier) error) error {
	return l.View(ctx, read)
}

func (l listened) Query(query string, args ...any) (tables.Rows, error) {
	l.by.asked = append(l.by.asked, tables.Ask{Query: query, Args: args})
	return l.Querier.Query(query, args...)
}

// lastPage is the query of the last page that a store reads for q.
func lastPage(t testing.TB, s *Store, q ledger.Query) tables.Ask {
	t.Helper()
	all := queries(s, func(on *tables.Store) {
		need.Get(on.Page(ctx, q))(t)
	})
	return all[len(all)-1]
}
