//go:build soak && unported

package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
)

// tell adds an event, as the smallest change there is.
func tell(id string) func(tables.Tx) error {
	return func(tx tables.Tx) error {
		tx.(*session).Known(id)
		return tx.Later(tellSQL, id, "for "+id)
	}
}

const tellSQL = `INSERT INTO events (id, verb, actor, reason) VALUES (?, 'test', 'pg', ?)`

// quietly adds an event that no one is told of: telling takes a round trip beside.
func quietly(tx tables.Tx) error { return tx.Quietly(tellSQL, ledger.NewID(), "") }

// told are the ids of the events, in their order.
func told(t testing.TB, s *Store) (ids []string) {
	t.Helper()
	events, err := s.History(ctx, ledger.HistoryQuery{Limit: 100_000})
	need.OK(t, err)
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// modes are the ways to send statements: prepared, and as a pooler needs them.
var modes = []string{"", "default_query_exec_mode=exec"}

func with(url, parameter string) string {
	switch {
	case parameter == "":
		return url
	case strings.Contains(url, "?"):
		return url + "&" + parameter
	}
	return url + "?" + parameter
}

func TestAnswersComeInTheirTypes(t *testing.T) {
	for _, mode := range modes {
		s := opened(t, with(made(t), mode), Options{})
		for range 3 { // parsed, and prepared
			rows, err := s.Query(ctx, `SELECT CAST(? AS text), CAST(? AS bigint), CAST(? AS boolean), CAST(? AS int), CAST(? AS text), CAST(? AS bigint), 1.5, 'x', 7, NULL, true, CAST(? AS json)`,
				ledger.Pending, int64(-1)<<62, true, 1, nil, 3, []byte(`{"a": "\u0000"}`))
			need.OK(t, err)
			var state ledger.State
			var big int64
			var yes, one bool
			var none sql.NullString
			var three int
			var half float64
			var anys [4]any
			var json []byte
			need.Must(t, rows.Next(), "no row")
			if err := rows.Scan(&state, &big, &yes, &one, &none, &three, &half, &anys[0], &anys[1], &anys[2], &anys[3], &json); err != nil {
				t.Fatal(err)
			}
			if state != ledger.Pending || big != int64(-1)<<62 || !yes || !one || none.Valid || three != 3 || half != 1.5 ||
				anys != [4]any{"x", int64(7), nil, int64(1)} || string(json) != `{"a": "\u0000"}` {
				t.Fatal(state, big, yes, one, none, three, half, anys, string(json))
			}
			need.Must(t, !rows.Next(), "two rows")
		}
	}
}

// What each transaction needs is set in it, whatever the session was used for before.
func TestSettings(t *testing.T) {
	for _, mode := range modes {
		s := opened(t, with(made(t), mode), Options{})
		rows, err := s.Query(ctx, `SELECT current_setting('search_path') || '|' || current_setting('statement_timeout') || '|' || current_setting('lock_timeout')
			|| '|' || current_setting('idle_in_transaction_session_timeout') || '|' || current_setting('application_name')`)
		need.OK(t, err)
		var got string
		rows.Next()
		if err := rows.Scan(&got); err != nil || got != path+"|30s|5s|10s|indoubt" {
			t.Fatalf("%q: %s, %v", mode, got, err)
		}
		if prepared := scalar(t, s, `SELECT count(*) FROM pg_prepared_statements`); (prepared == 0) != (mode != "") {
			t.Fatalf("%q: %d statements are prepared", mode, prepared)
		}
	}
}

func scalar(t testing.TB, s *Store, query string, args ...any) (n int64) {
	t.Helper()
	rows, err := s.Query(ctx, query, args...)
	if err == nil {
		rows.Next()
		err = rows.Scan(&n)
	}
	need.OK(t, err)
	return n
}

// Statements travel together; only an answer is waited for.
func TestRoundTrips(t *testing.T) {
	for _, mode := range modes {
		r, url := pgtest.Through(t, made(t))
		s := opened(t, with(url, mode), Options{})
		count := tables.Ask{Query: `SELECT count(*) FROM events WHERE id <> ?`, Args: []any{"x"}}
		name := tables.Ask{Query: `SELECT value FROM meta WHERE name = ?`, Args: []any{"id"}}
		var n int64
		for _, c := range []struct {
			what string
			want int
			call func() error
		}{
			{"a query", 1, func() error { _, err := s.Query(ctx, count.Query, count.Args...); return err }},
			{"two queries named ahead", 1, func() error {
				return s.View(ctx, func(q tables.Querier) error {
					q.Ahead(count, name)
					rows, err := q.Query(count.Query, count.Args...)
					if err != nil {
						return err
					}
					rows.Next()
					if err := rows.Scan(&n); err != nil {
						return err
					}
					rows, err = q.Query(name.Query, name.Args...)
					if err == nil && (!rows.Next() || q.Moment().Wall.IsZero()) {
						return errors.New("no ledger has this id")
					}
					return err
				})
			}},
			{"two queries", 2, func() error {
				return s.View(ctx, func(q tables.Querier) error {
					_, err := q.Query(count.Query, count.Args...)
					if err == nil {
						_, err = q.Query(name.Query, name.Args...)
					}
					return err
				})
			}},
			{"writes that are not waited for", 1, func() error {
				return s.Update(ctx, func(tx tables.Tx) error {
					return errors.Join(tx.Lock("b", "a"), tx.Share("holds"), quietly(tx), quietly(tx))
				})
			}},
			{"two queries, and writes", 3, func() error {
				return s.Update(ctx, func(tx tables.Tx) error {
					tx.Lock("b", "a")
					_, err := tx.Query(count.Query, count.Args...)
					_, err2 := tx.Query(count.Query, count.Args...)
					return errors.Join(err, err2, quietly(tx), quietly(tx))
				})
			}},
		} {
			for range 2 { // the first time, and prepared
				time.Sleep(4 * linger) // the last look is over
				s.background.all.Wait()
				var err error
				got := r.Trips(func() { err = c.call() })
				need.That(t, err == nil && got == c.want,
					"%q: %s: %d round trips, want %d, %v", mode, c.what, got, c.want, err)
			}
		}
	}
}

// A recorder asks on while its store is closed: what it does then is refused or done, and
// close does not wait for it.
func TestAStoreIsClosedWhileItIsAsked(t *testing.T) {
	url := made(t)
	for range 5 {
		s := need.Get(Open(ctx, url, Options{}))(t)
		asked := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for n, err := 0, error(nil); err == nil; n++ {
					if n == 20 {
						asked <- struct{}{}
					}
					_, err = s.Counts(ctx, time.Now())
					err = errors.Join(err, tell(s, ledger.NewID()))
				}
			})
		}
		for range 4 {
			<-asked
		}
		need.OK(t, s.Close())
		all.Wait()
	}
}

func TestATransactionIsWholeOrNothing(t *testing.T) {
	s := opened(t, made(t), Options{})
	no := errors.New("no")
	for what, c := range map[string]struct {
		change func(tables.Tx) error
		want   func(error) bool
	}{
		"a rule refuses": {func(tx tables.Tx) error { tell("a")(tx); return no }, func(err error) bool { return errors.Is(err, no) }},
		"the database refuses, with COMMIT": {func(tx tables.Tx) error {
			return errors.Join(tell("b")(tx), tx.Later(`INSERT INTO events (id, verb, actor) VALUES ('c', '', '')`))
		}, func(err error) bool { return errors.Is(err, ledger.ErrGuard) }},
		"the database refuses, and the change goes on": {func(tx tables.Tx) error {
			tell("d")(tx)
			tx.Exec(`INSERT INTO events (id, verb, actor) VALUES ('e', '', '')`)
			return tell("f")(tx)
		}, func(err error) bool { return errors.Is(err, ledger.ErrGuard) }},
		"a value that cannot be bound": {func(tx tables.Tx) error { return errors.Join(tell("g")(tx), tx.Later(`SELECT ?`, struct{}{})) },
			func(err error) bool { return err != nil }},
		"no such table": {func(tx tables.Tx) error { return errors.Join(tell("h")(tx), tx.Later(`UPDATE nothing SET a = 1`)) },
			func(err error) bool { return err != nil }},
	} {
		if err := s.Update(ctx, c.change); !c.want(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if ids := told(t, s); len(ids) > 0 {
		t.Fatalf("left behind: %v", ids)
	}
	// A change that finds another version is made again, and nothing of it stays.
	tries := 0
	err := s.Update(ctx, func(tx tables.Tx) error {
		tries++
		id := fmt.Sprintf("try-%d", tries)
		return errors.Join(tell(id)(tx), tx.Must(`UPDATE meta SET value = value WHERE name = 'id' AND 1 / CASE length(name) WHEN ? THEN 1 ELSE 0 END = 1`, tries-1))
	})
	if ids := told(t, s); err != nil || !slices.Equal(ids, []string{"try-3"}) {
		t.Fatalf("%v, %v", ids, err)
	}
}

// What was asked before a write is not the answer to what is asked after it.
func TestAWriteOutdatesWhatWasAsked(t *testing.T) {
	s := opened(t, made(t), Options{})
	count := tables.Ask{Query: `SELECT count(*) FROM events`}
	for _, write := range []func(tables.Tx, string, ...any) error{
		tables.Tx.Later, tables.Tx.Quietly, tables.Tx.Must,
		func(tx tables.Tx, query string, args ...any) error { _, err := tx.Exec(query, args...); return err },
	} {
		before := scalar(t, s, count.Query)
		err := s.Update(ctx, func(tx tables.Tx) error {
			tx.Ahead(count)
			tx.Moment() // sends it
			if err := write(tx, tellSQL, ledger.NewID(), ""); err != nil {
				return err
			}
			rows, err := tx.Query(count.Query)
			if err != nil {
				return err
			}
			var n int64
			rows.Next()
			if err := rows.Scan(&n); err != nil || n != before+1 {
				t.Errorf("%d events, want %d, %v", n, before+1, err)
			}
			return nil
		})
		need.OK(t, err)
	}
}

// Two that lock each other's names are both done.
func TestADeadlockIsRetried(t *testing.T) {
	s := opened(t, made(t), Options{})
	var both sync.WaitGroup
	var met atomic.Int32
	for i, names := range [][]string{{"a", "b"}, {"b", "a"}} {
		both.Go(func() {
			err := s.Update(ctx, func(tx tables.Tx) error {
				for n, name := range names {
					if _, err := tx.Query(`SELECT pg_advisory_xact_lock(hashtextextended(?, 0))`, name); err != nil {
						return err
					}
					if n == 0 {
						met.Add(1)
						for end := time.Now().Add(2 * time.Second); met.Load() < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
						}
					}
				}
				return tell(fmt.Sprint(i))(tx)
			})
			need.That(t, err == nil, "%v", err)
		})
	}
	both.Wait()
	if ids := told(t, s); len(ids) != 2 {
		t.Fatalf("%v", ids)
	}
}

// A lock that is held for longer than a transaction waits for it is waited for again.
func TestALockIsWaitedForAgain(t *testing.T) {
	s := opened(t, made(t), Options{})
	holder := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer holder.Release()
	need.Get(holder.Exec(ctx, `SELECT pg_advisory_lock(1)`))(t)
	tries := 0
	need.OK(t, s.Update(ctx, func(tx tables.Tx) error {
		if tries++; tries == 2 {
			need.Get(holder.Exec(ctx, `SELECT pg_advisory_unlock(1)`))(t)
		}
		if _, err := tx.Query(`SELECT pg_advisory_xact_lock(1)`); err != nil {
			return err
		}
		return tell("waited")(tx)
	}))
	if ids := told(t, s); tries != 2 || len(ids) != 1 {
		t.Fatalf("%d tries, %v", tries, ids)
	}
}
