package sqlite

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

type pathURL struct{ path string }

func (p *pathURL) String() string { return (&url.URL{Path: p.path}).EscapedPath() }

func diff(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }

// texts are what a query gives in its last column.
func texts(t testing.TB, s *Store, query string, args ...any) (out []string) {
	t.Helper()
	need.OK(t, database{s.handle}.View(ctx, func(tx store.Tx) error {
		rows := need.Get(tx.Query(query, args...))(t)
		defer rows.Close()
		for rows.Next() {
			var text string
			need.OK(t, rows.Scan(&text))
			out = append(out, text)
		}
		return rows.Err()
	}))
	return out
}

// release lets begins go on that an adoption holds.
func release(t *testing.T, path string) {
	t.Helper()
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	res := need.Get(ledger.Begin(ctx, s, request()))(t)
	need.Must(t, res.Answer == ledger.AnswerHeld && strings.Contains(res.Why, "adopted"), "%+v", res)
	need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: ann, Reason: "looked"}))
}
