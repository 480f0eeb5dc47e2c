//go:build soak

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

func TestAnswersComeInTheirTypes(t *testing.T) {
	for _, mode := range modes {
		s := opened(t, with(made(t), mode), Options{})
		for range 3 { // parsed, and prepared
			var state, text string
			var big, three, one int64
			var half float64
			var yes bool
			var anys [3]any
			need.OK(t, database{s.handle}.View(ctx, func(tx store.Tx) error {
				return store.One(tx, []any{&state, &big, &yes, &three, &half, &one, &text, &anys[0], &anys[1], &anys[2]},
					`SELECT ?1, ?2, ?3 = 1, ?4, ?5, true, ?6, 'x', 7, ?6`, ledger.Pending, int64(-1)<<62, 1, 3, 1.5, store.JSON(`{"a": "\u0000"}`))
			}))
			need.That(t, state == "pending" && big == int64(-1)<<62 && yes && three == 3 && half == 1.5 && one == 1 &&
				text == `{"a": "\u0000"}` && anys == [3]any{"x", int64(7), text}, "%v", []any{state, big, yes, three, half, one, text, anys})
		}
	}
}

// What each transaction needs is set in it, whatever the session was used for before.
func TestSettings(t *testing.T) {
	for _, mode := range modes {
		s := opened(t, with(made(t), mode), Options{})
		var got string
		need.OK(t, database{s.handle}.View(ctx, func(tx store.Tx) error {
			return store.One(tx, []any{&got}, `SELECT concat_ws('|', current_setting('search_path'), current_setting('statement_timeout'), current_setting('lock_timeout'),
				current_setting('idle_in_transaction_session_timeout'), current_setting('application_name'))`)
		}))
		need.Equal(t, got, path+"|30s|5s|10s|indoubt", mode)
		prepared := scalar(t, s, `SELECT count(*) FROM pg_prepared_statements`)
		need.That(t, (prepared == 0) == (mode != ""), "%q: %d statements are prepared", mode, prepared)
	}
}

func TestATransactionIsWholeOrNothing(t *testing.T) {
	s := opened(t, made(t), Options{})
	no := errors.New("no")
	const tells, nothing = `INSERT INTO ev (id, verb, actor) VALUES (?, 'test', 'pg')`, `INSERT INTO ev (id, verb, actor) VALUES ('', '', '')`
	change := func(writes ...string) func(store.Tx) error {
		return func(tx store.Tx) error {
			for i, query := range writes {
				args := []any{fmt.Sprint(query, i)}
				if query != tells {
					args = nil
				}
				if _, err := tx.Exec(query, args...); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for what, c := range map[string]struct {
		change func(store.Tx) error
		is     error
	}{
		"a rule refuses":                        {func(tx store.Tx) error { return errors.Join(change(tells)(tx), no) }, no},
		"the database refuses, with COMMIT":     {change(tells, nothing), ledger.ErrGuard},
		"the database refuses, and it goes on":  {change(tells, nothing, tells), ledger.ErrGuard},
		"the database refuses, and it is asked": {change(tells, nothing, `DELETE FROM lead`, tells), ledger.ErrGuard},
		"a value that cannot be bound":          {func(tx store.Tx) error { _, err := tx.Exec(tells, struct{}{}); return err }, nil},
		"no such table":                         {change(tells, `UPDATE nothing SET a = 1`), nil},
	} {
		err := database{s.handle}.Update(ctx, c.change)
		need.That(t, err != nil && (c.is == nil || errors.Is(err, c.is)), "%s: %v", what, err)
	}
	need.That(t, len(told(t, s)) == 0, "left behind: %q", told(t, s))
}

// Two that lock each other's names are both done, and a lock that is held for longer than a
// transaction waits for it is waited for again.
func TestLocksAreWaitedFor(t *testing.T) {
	s := opened(t, made(t), Options{})
	lock := func(tx store.Tx, id int64) error {
		_, err := tx.Query(`SELECT pg_advisory_xact_lock(?)`, id)
		return err
	}
	tells := func(tx store.Tx, id string) error {
		_, err := tx.Exec(`INSERT INTO ev (id, verb, actor) VALUES (?, 'test', 'pg')`, id)
		return err
	}
	var both sync.WaitGroup
	var met atomic.Int32
	for i, ids := range [][]int64{{2, 3}, {3, 2}} {
		both.Go(func() {
			err := database{s.handle}.Update(ctx, func(tx store.Tx) error {
				for n, id := range ids {
					if err := lock(tx, id); err != nil {
						return err
					}
					if n == 0 {
						met.Add(1)
						for end := time.Now().Add(2 * time.Second); met.Load() < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
						}
					}
				}
				return tells(tx, fmt.Sprint(i))
			})
			need.That(t, err == nil, "%v", err)
		})
	}
	both.Wait()
	holder := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer holder.Release()
	need.Get(holder.Exec(ctx, `SELECT pg_advisory_lock(1)`))(t)
	tries := 0
	need.OK(t, database{s.handle}.Update(ctx, func(tx store.Tx) error {
		if tries++; tries == 2 {
			need.Get(holder.Exec(ctx, `SELECT pg_advisory_unlock(1)`))(t)
		}
		if err := lock(tx, 1); err != nil {
			return err
		}
		return tells(tx, "waited")
	}))
	ids := told(t, s)
	slices.Sort(ids)
	need.That(t, tries == 2 && slices.Equal(ids, []string{"0", "1", "waited"}), "%d tries, %v", tries, ids)
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
