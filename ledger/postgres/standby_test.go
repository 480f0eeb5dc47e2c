//go:build soak

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
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

// A standby that no commit waits for keeps a ledger from being made and from being adopted, until a person says why it
// does no harm. That lasts until the next adoption.
func TestI13_AStandbyThatForgets(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{Durable: true})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	second := pgtest.Start(t, pgtest.Options{From: c, Settings: map[string]string{"cluster_name": "second"}})
	url, vera := c.URL("ledger"), ledger.Actor{Name: "vera", Terminal: true}
	waits := func(name string) {
		t.Helper()
		want := map[string]string{"": "async", "second": "sync"}[name]
		c.Set(t, "synchronous_standby_names", name)
		for end := time.Now().Add(amply); psql(t, url, `SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'`) != want; time.Sleep(20 * time.Millisecond) {
			need.Must(t, time.Now().Before(end), "it is never %s", want)
		}
	}
	refused := func(err error) {
		t.Helper()
		trouble := ledger.Trouble{}
		need.Must(t, errors.As(err, &trouble) && trouble.Code == "refused" && strings.Contains(trouble.Message, "no commit waits for second"), "%v", err)
		need.Contains(t, trouble.Do, "--async-standby")
	}
	finds := func(s *Store, level, says string) {
		t.Helper()
		f := need.Get(s.Standbys(ctx))(t)
		need.That(t, f.Level == level && strings.Contains(f.Found, says), "%+v, want %s: %s", f, level, says)
		commits(t, s, level, says)
	}
	events := func() string {
		return psql(t, url, `SELECT concat_ws(' ', actor, reason) FROM indoubt.ev WHERE verb = 'standby' ORDER BY seq`)
	}
	waits("")
	_, err := Create(ctx, url, Options{})
	refused(err)
	need.Equal(t, psql(t, url, `SELECT to_regnamespace('indoubt') IS NULL`), "t", "nothing is made")

	waits("second")
	s := need.Get(Create(ctx, url, Options{AsyncStandby: "never promoted", Actor: vera}))(t)
	defer s.Close()
	need.OK(t, s.MakeRoles(ctx))
	psql(t, url, `CREATE ROLE eng LOGIN IN ROLE indoubt_engine`)
	engine := opened(t, pgtest.As(url, "eng"), Options{To: Check})
	finds(s, ledger.LevelOK, "durable on a standby")
	finds(engine, ledger.LevelOK, "vera said on")
	waits("")
	finds(s, ledger.LevelOK, "of second vera said on")
	need.OK(t, s.AcceptStandby(ctx)) // the same again
	need.Equal(t, events(), "vera never promoted", "it is said once")

	// Who may not see whether a commit waits is told so.
	psql(t, url, `DELETE FROM indoubt.meta WHERE name = 'standby_accepted'`)
	finds(engine, ledger.LevelFail, "no commit waits for second")
	waits("second")
	finds(engine, ledger.LevelWarn, "cannot tell whether commits wait for second")
	psql(t, url, `GRANT pg_read_all_stats TO eng`)
	finds(engine, ledger.LevelOK, "durable on a standby")
	need.That(t, errors.As(engine.AcceptStandby(ctx), new(*Error)), "an engine's user accepts a standby")
	psql(t, url, `ALTER DATABASE ledger SET synchronous_commit = local`)
	s.pool.Load().Reset()
	finds(s, ledger.LevelFail, "no commit waits for second")
	psql(t, url, `ALTER DATABASE ledger RESET synchronous_commit`)
	waits("")

	// Of an adoption the word is wanted anew.
	elsewhere := func() string {
		return psql(t, url, `SET session_replication_role = replica; UPDATE indoubt.meta SET value = 'elsewhere' WHERE name = 'home' RETURNING (SELECT value FROM indoubt.meta WHERE name = 'id')`)
	}
	silent := opened(t, url, Options{})
	id := elsewhere()
	refused(silent.Adopt(ctx, vera, ""))
	need.Equal(t, need.Get(silent.Info(ctx))(t).ID, id, "it is adopted all the same: id")
	need.OK(t, s.Adopt(ctx, vera, ""))
	finds(silent, ledger.LevelOK, "never promoted")
	elsewhere()
	refused(silent.Adopt(ctx, vera, ""))

	// What a slot is kept for may come back. A program that copies the log, and the slot that it has, are no standby.
	need.OK(t, s.Adopt(ctx, vera, ""))
	psql(t, url, `DELETE FROM indoubt.meta WHERE name = 'standby_accepted'; SELECT pg_create_physical_replication_slot('kept')`)
	finds(silent, ledger.LevelFail, "second, slot kept")
	second.Kill()
	for end := time.Now().Add(amply); psql(t, url, `SELECT count(*) FROM pg_stat_replication`) != "0"; time.Sleep(20 * time.Millisecond) {
		need.Must(t, time.Now().Before(end), "it goes on")
	}
	finds(silent, ledger.LevelFail, "no commit waits for slot kept")
	psql(t, url, `SELECT pg_drop_replication_slot('kept')`)
	commits(t, silent, ledger.LevelWarn, "it has no standby")
}

// A logical replica has the rows and not the places of sequences. Once it is adopted, what is begun and told there
// comes after all that it has. Its walsender is no standby.
func TestI13_ALogicalReplicaIsAdopted(t *testing.T) {
	need.Program(t, "pg_dump")
	c := pgtest.Start(t, pgtest.Options{Durable: true, Settings: map[string]string{"wal_level": "logical"}})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	url, to := c.URL("ledger"), pgtest.URL(t)
	primary, w := need.Get(Create(ctx, url, Options{}))(t), downstream{sent: map[string]int{}}
	defer primary.Close()
	for n := range 20 {
		need.OK(t, w.pipeline(primary, fmt.Sprint("before ", n)))
	}
	last := need.Get(primary.Info(ctx))(t).LastSeq
	psql(t, to, string(need.Get(exec.Command("pg_dump", "--schema-only", url).Output())(t)))
	psql(t, url, `CREATE PUBLICATION ledger FOR ALL TABLES`)
	psql(t, to, `CREATE SUBSCRIPTION ledger CONNECTION '`+url+`' PUBLICATION ledger`)
	for end := time.Now().Add(amply); psql(t, to, `SELECT coalesce(max(seq), 0) FROM indoubt.ev`) != fmt.Sprint(last) ||
		psql(t, to, `SELECT count(*) FROM indoubt.op`) != "20"; time.Sleep(20 * time.Millisecond) {
		need.Must(t, time.Now().Before(end), "it never has all")
	}
	commits(t, primary, ledger.LevelWarn, "it has no standby")
	for _, sql := range []string{`ALTER SUBSCRIPTION ledger DISABLE`, `ALTER SUBSCRIPTION ledger SET (slot_name = NONE)`, `DROP SUBSCRIPTION ledger`} {
		psql(t, to, sql)
	}
	c.Kill()

	s, vera := opened(t, to, Options{}), ledger.Actor{Name: "vera", Terminal: true}
	need.That(t, w.pipeline(s, "too early") != nil && w.sent["too early"] == 0, "it is sent from before it is adopted")
	need.OK(t, s.Adopt(ctx, vera, ""))
	need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: vera, Reason: "looked"}))
	for n := range 5 {
		need.OK(t, w.pipeline(s, fmt.Sprint("after ", n)))
	}
	need.OK(t, w.pipeline(s, "before 3")) // which is finished
	for key, n := range w.sent {
		need.That(t, n == 1, "%s was sent %d times", key, n)
	}
	order, at := []int64{}, ledger.Cursor("")
	for {
		events, next, err := s.Follow(ctx, at, 7)
		need.OK(t, err)
		for _, e := range events {
			order = append(order, e.Seq)
		}
		if at = next; len(events) == 0 {
			break
		}
	}
	all := need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 1000}))(t)
	need.That(t, slices.IsSorted(order) && len(order) == len(all) && order[len(order)-1] > last, "the feed has %v of %d events", order, len(all))
	need.Equal(t, psql(t, to, fmt.Sprint(`SELECT count(*) FROM indoubt.ev WHERE seq <= `, last)), fmt.Sprint(last), "events of before")
}
