//go:build soak && unported

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

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
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
	tables.Database
	asks []tables.Ask
}

type askedOf struct {
	tables.Querier
	by *asked
}

func (a *asked) Query(ctx context.Context, query string, args ...any) (tables.Rows, error) {
	a.asks = append(a.asks, tables.Ask{Query: query, Args: args})
	return a.Database.Query(ctx, query, args...)
}

func (a *asked) View(ctx context.Context, read func(tables.Querier) error) error {
	return a.Database.View(ctx, func(q tables.Querier) error { return read(askedOf{q, a}) })
}

func (a *asked) Brief(ctx context.Context, read func(tables.Querier) error) error {
	return a.View(ctx, read)
}

func (h askedOf) Query(query string, args ...any) (tables.Rows, error) {
	h.by.asks = append(h.by.asks, tables.Ask{Query: query, Args: args})
	return h.Querier.Query(query, args...)
}

// explained is what a look takes on the server: how long, and how many pages of 8 KB.
type explained struct {
	ms    float64
	pages int
	scans []string // of whole tables that grow
}

var (
	wholeTable = regexp.MustCompile(`Gather|Seq Scan on (operations|attempts|events|reads|grants|marks|open_operations)\b`)
	pagesHit   = regexp.MustCompile(`Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?`)
	took       = regexp.MustCompile(`(?:Planning|Execution) Time: ([\d.]+) ms`)
)

// explain asks again what a look asks, and how the server answers it to one who has asked
// before: the statement is prepared.
func explain(t testing.TB, s *Store, look func(*tables.Store)) (e explained) {
	t.Helper()
	a := &asked{Database: s.handle}
	look(tables.New(a))
	need.OK(t, s.View(ctx, func(q tables.Querier) error {
		for _, ask := range a.asks {
			e.add(t, q.(*session), ask)
		}
		return nil
	}))
	return e
}

func (e *explained) add(t testing.TB, s *session, ask tables.Ask) {
	t.Helper()
	text := numbered(ask.Query)
	var values []string
	for _, v := range need.Get(text.bind(&parcel{}, ask.Args))(t) {
		values = append(values, strings.ReplaceAll(string(v), "'", "''"))
	}
	execute := "EXECUTE looked"
	if len(values) > 0 {
		execute += "('" + strings.Join(values, "', '") + "')"
	}
	// What keeps a large table from being read by several processes is not its size.
	s.plain(t, "SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0; SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0")
	s.plain(t, "PREPARE looked AS "+text.query)
	defer s.plain(t, "DEALLOCATE looked")
	for range 5 { // then the server may keep a plan
		s.plain(t, execute)
	}
	first := true
	for _, line := range s.plain(t, "EXPLAIN (ANALYZE, BUFFERS) "+execute) {
		if m := pagesHit.FindStringSubmatch(line); m != nil && first {
			hit, _ := strconv.Atoi(m[1])
			read, _ := strconv.Atoi(m[2])
			e.pages, first = e.pages+hit+read, false
		}
		if m := took.FindStringSubmatch(line); m != nil {
			e.ms += need.Get(strconv.ParseFloat(m[1], 64))(t)
		}
		if wholeTable.MatchString(line) {
			e.scans = append(e.scans, strings.TrimSpace(line)+" for "+strings.Join(strings.Fields(ask.Query), " "))
		}
	}
}

// plain asks in the simple way, and gives the first column.
func (s *session) plain(t testing.TB, query string) (lines []string) {
	t.Helper()
	need.OK(t, s.flush())
	for _, r := range need.Get(s.link.conn.Exec(ctx, query).ReadAll())(t) {
		for _, row := range r.Rows {
			lines = append(lines, string(row[0]))
		}
	}
	return lines
}

// looks are what a console shows of a ledger that was filled with so many operations.
func looks(t testing.TB, now ledger.Moment, operations int) map[string]func(*tables.Store) {
	looks := map[string]func(*tables.Store){
		"counts":  func(s *tables.Store) { need.Get(s.Counts(ctx, now.Wall))(t) },
		"outages": func(s *tables.Store) { need.Get(s.Outages(ctx, now.Wall, 50))(t) },
		"beside": func(s *tables.Store) {
			var ids []string
			for _, r := range need.Get(s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderNewest, Now: now.Wall, Limit: 50}))(t).Rows {
				ids = append(ids, r.ID)
			}
			need.Get(s.Beside(ctx, ids))(t)
		},
		"what is open": func(s *tables.Store) {
			_, err := s.Read(ctx, ledger.Locator{Key: "input-" + strings.Repeat("a", 32), Gate: fmt.Sprint("gate-", operations-1), Skip: ledger.AllParts})
			need.That(t, errors.Is(err, ledger.ErrNotFound), "%v", err)
		},
	}
	for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabSettled, ledger.TabAll} {
		for _, order := range []ledger.Order{ledger.OrderLoss, ledger.OrderNewest} {
			looks[string(tab)+" "+string(order)] = func(s *tables.Store) {
				need.Get(s.Page(ctx, ledger.Query{Tab: tab, Order: order, Now: now.Wall, Limit: 50}))(t)
			}
		}
	}
	for what, start := range map[string]string{"a key": "key:key-", "a token": "token:indoubt-", "a receipt": "receipt:ch_"} {
		text := fmt.Sprint(start, operations-1) // no other begins like it
		looks[what] = func(s *tables.Store) {
			need.Get(s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Filter: need.Get(ledger.ParseFilter(text))(t), Now: now.Wall, Limit: 50}))(t)
		}
	}
	return looks
}

// No look at a large ledger reads a whole table, or more of it than of a small one, also
// where the planner is free to.
func TestLooksReadNoWholeTable(t *testing.T) {
	few, many := 10_000, sized(t, 100_000)
	tens := max(1, int(math.Ceil(math.Log10(float64(many)/float64(few))))) // trees grow by a level now and then
	pages := map[string]int{}
	for _, operations := range []int{few, many} {
		url := with(fill(t, operations), "connect_timeout=20") // a large one has just been copied
		for _, mode := range modes {
			s := opened(t, with(url, mode), Options{ReadOnly: true})
			for what, look := range looks(t, need.Get(s.Moment(ctx))(t), operations) {
				e := explain(t, s, look)
				for _, scan := range e.scans {
					if mode == "" || operations > few { // else the planner may find that all of it is little
						t.Errorf("%s of %d operations: %s", what, operations, scan)
					}
				}
				t.Logf("%-20s of %8d operations: %5d pages, %6.2f ms %s", what, operations, e.pages, e.ms, mode)
				if before, ok := pages[what+mode]; ok && e.pages > before+tens*(before/5+100) {
					t.Errorf("%s of %d operations: %d pages, of %d: %d", what, operations, e.pages, few, before)
				}
				pages[what+mode] = e.pages
			}
		}
	}
}
