//go:build soak

package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

func TestInfo(t *testing.T) {
	s := opened(t, made(t), Options{})
	need.OK(t, tell(s, "a"))
	i, err := s.Info(ctx)
	if err != nil || i.ID == "" || i.LastSeq == 0 || i.Schema != store.Schema || time.Since(i.LastWrite) > time.Minute || i.LastWrite.Before(i.CreatedAt) || !strings.HasPrefix(i.Path, "postgres://") {
		t.Fatalf("%+v, %v", i, err)
	}
	need.OK(t, tell(s, "b"))
	if events, _, err := s.Follow(ctx, i.Cursor, 9); err != nil || len(events) != 1 || events[0].ID != "b" {
		t.Fatalf("after the place of now come %v, %v", events, err)
	}
	if events, err := s.History(ctx, ledger.HistoryQuery{Until: i.Cursor, Limit: 9}); err != nil || len(events) != 1 || events[0].ID != "a" {
		t.Fatalf("at the place of now were seen %v, %v", events, err)
	}
}

// follower counts the events of a ledger.
type follower struct {
	seen  map[string]int
	store *Store
	at    ledger.Cursor
	limit int
}

func (f *follower) follow() (n int, err error) {
	events, at, err := f.store.Follow(ctx, f.at, f.limit)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		f.seen[e.ID]++
	}
	f.at = at
	return len(events), nil
}

// Every follower sees each event once, however long transactions stay open, and a
// transaction that never ends, here or in another database, delays no other.
func TestEveryEventOnce(t *testing.T) {
	url, other := made(t), pgtest.URL(t)
	s := opened(t, with(url, "pool_max_conns=20"), Options{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	// One transaction stays open in another database, one in this.
	open := map[string]*pgconn.PgConn{}
	for to, does := range map[string]string{other: "SELECT pg_current_xact_id()", url: "INSERT INTO indoubt.ev (id, verb, actor) VALUES ('long', 'test', 'pg')"} {
		conn, err := pgconn.Connect(ctx, to)
		need.OK(t, err)
		defer conn.Close(ctx)
		need.OK(t, conn.Exec(ctx, "BEGIN; "+does).Close())
		open[to] = conn
	}

	const each = 15
	var writers sync.WaitGroup
	var written atomic.Int64
	for w := range 16 {
		writers.Go(func() {
			for n := range each {
				err := database{s.handle}.Update(ctx, func(tx store.Tx) error {
					for part := range 1 + rand.N(3) {
						if _, err := tx.Exec(`INSERT INTO ev (id, verb, actor) VALUES (?, 'test', 'pg')`, fmt.Sprintf("%d-%d-%d", w, n, part)); err != nil {
							return err
						}
						if err := store.One(tx, []any{new(int64)}, `SELECT 1`); err != nil { // sends it
							return err
						}
						time.Sleep(rand.N(20 * time.Millisecond))
					}
					return nil
				})
				need.That(t, err == nil, "%v", err)
				written.Add(1)
			}
		})
	}
	var following sync.WaitGroup
	done := make(chan bool)
	followers := make([]*follower, 8)
	for i := range followers {
		f := &follower{seen: map[string]int{}, store: s, limit: []int{1, 2, 3, 7, 50, 500}[i%6]}
		followers[i] = f
		following.Go(func() {
			for over := false; ; time.Sleep(rand.N(5 * time.Millisecond)) {
				n, err := f.follow()
				if err != nil {
					t.Error(err)
					return
				}
				if n == 0 && over {
					return
				}
				select {
				case <-done:
					over = true
				default:
				}
			}
		})
	}
	writers.Wait()
	if n := scalar(t, s, `SELECT count(*) FROM ev`); n < 16*each {
		t.Fatalf("%d events", n)
	}
	all := told(t, s)
	// What is committed is seen while the others stay open.
	late := &follower{seen: map[string]int{}, store: s, limit: 500}
	for n := late.limit; n >= late.limit; {
		var err error
		n, err = late.follow()
		need.OK(t, err)
	}
	need.That(t, len(late.seen) == len(all), "%d events of %d are seen beside an open transaction", len(late.seen), len(all))
	need.OK(t, open[url].Exec(ctx, "COMMIT").Close())
	close(done)
	following.Wait()
	all = told(t, s)
	need.Must(t, strings.Count(strings.Join(all, " "), "long") == 1, "the long transaction has not ended")
	for i, f := range followers {
		need.That(t, len(f.seen) == len(all), "follower %d has seen %d events of %d", i, len(f.seen), len(all))
		for id, n := range f.seen {
			need.That(t, n == 1, "follower %d has seen %s %d times", i, id, n)
		}
	}
}
