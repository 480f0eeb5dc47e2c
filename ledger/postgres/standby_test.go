//go:build soak

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

// A standby does not say which transactions of its primary run. Its followers see each
// event once all the same, and it can only be looked at.
func TestAStandbyIsFollowed(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	primary, err := Create(ctx, with(c.URL("ledger"), "pool_max_conns=20"), Options{})
	need.OK(t, err)
	defer primary.Close()
	second := pgtest.Start(t, pgtest.Options{From: c})
	standby := second.URL("ledger")
	if _, err := Open(ctx, standby, Options{}); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("a standby is opened for writing: %v", err)
	}
	s := opened(t, standby, Options{ReadOnly: true})
	if err := tell(s, "no"); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("a standby was written to: %T %v", err, err)
	}
	for _, f := range s.Examine(ctx) {
		need.That(t, f.Check != "commits", "of commits, that a standby makes none of, it says: %s", f.Found)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news := s.Watch(ctx)

	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for n := range 10 {
				err := database{primary.handle}.Update(ctx, func(tx store.Tx) error {
					for part := range 2 {
						if _, err := tx.Exec(`INSERT INTO ev (id, verb, actor) VALUES (?, 'test', 'pg')`, fmt.Sprintf("%d-%d-%d", w, n, part)); err != nil {
							return err
						}
						if err := store.One(tx, []any{new(int64)}, `SELECT 1`); err != nil { // sends it
							return err
						}
						time.Sleep(rand.N(30 * time.Millisecond))
					}
					return nil
				})
				need.That(t, err == nil, "%v", err)
			}
		})
	}
	done := make(chan bool)
	go func() { writers.Wait(); close(done) }()
	followers := []*follower{{seen: map[string]int{}, store: s, limit: 3}, {seen: map[string]int{}, store: s, limit: 500}}
	for end := time.Now().Add(amply); len(followers[0].seen) < 160 || len(followers[1].seen) < 160; time.Sleep(3 * time.Millisecond) {
		for _, f := range followers {
			if _, err := f.follow(); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d and %d events of 160 are seen", len(followers[0].seen), len(followers[1].seen))
		}
	}
	<-done
	for _, f := range followers {
		if n, err := f.follow(); n != 0 || err != nil {
			t.Errorf("%d events come after all, %v", n, err)
		}
		for id, n := range f.seen {
			need.That(t, n == 1, "%s is seen %d times", id, n)
		}
	}
	heard(t, news, "what a standby follows")
	i, err := s.Info(ctx)
	need.OK(t, err)
	if events, err := s.History(ctx, ledger.HistoryQuery{Until: i.Cursor, Limit: 999}); err != nil || len(events) != 160 {
		t.Errorf("%d events are behind the place of now, %v", len(events), err)
	}
	if c.Kill(); i.Promoted || second.Promote() != nil {
		t.Fatal("it is promoted before it was, or cannot be")
	}
	if i, err = s.Info(ctx); err != nil || !i.Promoted {
		t.Errorf("who only looked is not told of the promotion: %v", err)
	}
	writer := opened(t, standby, Options{})
	if i, err = writer.Info(ctx); err != nil || i.Promoted || i.ReadOnly {
		t.Errorf("opened anew: %+v %v", i, err)
	}
}
