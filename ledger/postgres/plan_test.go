//go:build soak

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// sized is how many operations a filled ledger has: INDOUBT_OPERATIONS, or so many.
func sized(t testing.TB, otherwise int) int {
	t.Helper()
	if n := os.Getenv("INDOUBT_OPERATIONS"); n != "" {
		return need.Get(strconv.Atoi(n))(t)
	}
	return otherwise
}

// asked notes what a store asks.
type asked struct {
	database
	queries []string
	args    [][]any
}

type askedTx struct {
	store.Tx
	by *asked
}

func (a *asked) View(ctx context.Context, read func(store.Tx) error) error {
	return a.database.View(ctx, func(tx store.Tx) error { return read(askedTx{tx, a}) })
}

func (t askedTx) Query(query string, args ...any) (store.Rows, error) {
	t.by.queries, t.by.args = append(t.by.queries, query), append(t.by.args, args)
	return t.Tx.Query(query, args...)
}

// explained is what a look takes on the server: how long, and how many pages of 8 KB.
type explained struct {
	ms    float64
	pages int
	scans []string // of whole tables that grow
}

var (
	wholeTable = regexp.MustCompile(`Gather|Seq Scan on (op|ev|price)\b`)
	pagesHit   = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)
	took       = regexp.MustCompile(`(?:Planning|Execution) Time: ([\d.]+) ms`)
)

// explain asks again what a look asks, and how the server answers it to one who has asked
// before: the statement is prepared.
func explain(t testing.TB, s *Store, look func(*store.Store)) (e explained) {
	t.Helper()
	a := &asked{database: database{s.handle}}
	look(store.New(a, digestkey.Named(""), ""))
	need.OK(t, a.database.View(ctx, func(to store.Tx) error {
		for i, query := range a.queries {
			text, bound := said(query, a.args[i])
			e.add(t, to.(*tx), text, bound)
		}
		return nil
	}))
	return e
}

func (e *explained) add(t testing.TB, to *tx, query string, values []any) {
	t.Helper()
	execute := "EXECUTE looked"
	for i, v := range values {
		execute += map[bool]string{true: "(", false: ", "}[i == 0] + "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
	}
	if len(values) > 0 {
		execute += ")"
	}
	to.plainly(t, "PREPARE looked AS "+query)
	defer to.plainly(t, "DEALLOCATE looked")
	first := true
	for _, line := range to.plainly(t, "EXPLAIN (ANALYZE, BUFFERS) "+execute) {
		if m := pagesHit.FindStringSubmatch(line); m != nil && first {
			hit, _ := strconv.Atoi(m[1])
			read, _ := strconv.Atoi(m[2])
			e.pages, first = e.pages+hit+read, false
		}
		if m := took.FindStringSubmatch(line); m != nil {
			e.ms += need.Get(strconv.ParseFloat(m[1], 64))(t)
		}
		if wholeTable.MatchString(line) {
			e.scans = append(e.scans, strings.TrimSpace(line)+" for "+strings.Join(strings.Fields(query), " "))
		}
	}
}

// plainly asks in the simple way, and gives the first column.
func (t *tx) plainly(tb testing.TB, query string) (lines []string) {
	tb.Helper()
	t.Moment() // it has begun
	for _, r := range need.Get(t.pooled.Conn().PgConn().Exec(ctx, query).ReadAll())(tb) {
		for _, row := range r.Rows {
			lines = append(lines, string(row[0]))
		}
	}
	return lines
}

// looks are what a console shows of a ledger that was filled with so many operations.
func looks(t testing.TB, now time.Time, operations int) map[string]func(*store.Store) {
	looks := map[string]func(*store.Store){
		"counts":  func(s *store.Store) { need.Get(s.Counts(ctx, now))(t) },
		"outages": func(s *store.Store) { need.Get(s.Outages(ctx, now, 50))(t) },
		"due":     func(s *store.Store) { need.Get(s.Due(ctx, "stripe", now, 50))(t) },
		"history": func(s *store.Store) { need.Get(s.History(ctx, ledger.HistoryQuery{Newest: true, Limit: 50}))(t) },
		"beside": func(s *store.Store) {
			var ids []string
			for _, r := range need.Get(s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderNewest, Now: now, Limit: 50}))(t).Rows {
				ids = append(ids, r.ID)
			}
			need.Get(s.Beside(ctx, ids))(t)
		},
		"what is open": func(s *store.Store) {
			_, err := s.Read(ctx, ledger.Locator{Key: "input-" + strings.Repeat("a", 32), Gate: fmt.Sprint("gate-", operations-1), Skip: ledger.AllParts})
			need.That(t, errors.Is(err, ledger.ErrNotFound), "%v", err)
		},
	}
	page := func(name string, q ledger.Query) {
		q.Now, q.Limit = now, 50
		looks[name] = func(s *store.Store) { need.Get(s.Page(ctx, q))(t) }
	}
	for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabSettled, ledger.TabAll} {
		for _, order := range []ledger.Order{ledger.OrderLoss, ledger.OrderNewest} {
			page(string(tab)+" "+string(order), ledger.Query{Tab: tab, Order: order})
		}
	}
	for what, start := range map[string]string{"a key": "key:key-", "a token": "token:indoubt-", "a receipt": "receipt:ch_"} {
		page(what, ledger.Query{Tab: ledger.TabAll, Filter: need.Get(ledger.ParseFilter(fmt.Sprint(start, operations-1)))(t)}) // no other begins like it
	}
	return looks
}

// No look at a large ledger reads a whole table, or more of it than of a small one.
func TestLooksReadNoWholeTable(t *testing.T) {
	few, many := 10_000, sized(t, 100_000)
	tens := max(1, int(math.Ceil(math.Log10(float64(many)/float64(few))))) // trees grow by a level now and then
	pages := map[string]int{}
	for _, operations := range []int{few, many} {
		url := with(fill(t, operations), "connect_timeout=20") // a large one has just been copied
		for _, mode := range modes {
			s := opened(t, with(url, mode), Options{ReadOnly: true})
			for what, look := range looks(t, time.Now(), operations) {
				e := explain(t, s, look)
				for _, scan := range e.scans {
					t.Errorf("%s of %d operations: %s", what, operations, scan)
				}
				t.Logf("%-20s of %8d operations: %5d pages, %6.2f ms %s", what, operations, e.pages, e.ms, mode)
				before, ok := pages[what+mode]
				most := before + tens*(before*3/5+100) // a tree of two levels has three then
				if what == "counts" {
					most += (operations - few) / 10 / 30 // it goes through the index of what is open
				}
				if ok && e.pages > most {
					t.Errorf("%s of %d operations: %d pages, of %d: %d", what, operations, e.pages, few, before)
				}
				pages[what+mode] = e.pages
			}
		}
	}
}
