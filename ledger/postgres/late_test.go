//go:build soak

package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// What a commit waits for is said where the ledger is looked at. I1: one that
// is told to wait no more is not taken for durable, though the user is set to hear no warning.
func TestWhatACommitWaitsFor(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"synchronous_commit": "on"}})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	need.OK(t, need.Get(Create(ctx, c.URL("ledger"), Options{}))(t).Close())
	need.OK(t, c.Exec("postgres", `CREATE ROLE quiet SUPERUSER LOGIN; ALTER ROLE quiet SET client_min_messages = error`))
	s := opened(t, pgtest.As(c.URL("ledger"), "quiet"), Options{})
	c.Set(t, "synchronous_standby_names", "gone")
	strained := func(want string) {
		t.Helper()
		for end := time.Now().Add(amply); ; time.Sleep(20 * time.Millisecond) {
			i := need.Get(s.Info(ctx))(t)
			if i.Strained == want {
				return
			}
			need.Must(t, time.Now().Before(end), "%q, want %q", i.Strained, want)
		}
	}
	strained("NO STANDBY: nothing is recorded until one is back (gone)")
	done := make(chan error, 1)
	go func() {
		_, err := ledger.Begin(ctx, s, begun("waits"))
		done <- err
	}()
	waiting := func(cancel string) string {
		return psql(t, c.URL("postgres"), `SELECT count(`+cancel+`) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'quiet'`)
	}
	for end := time.Now().Add(amply); waiting("pg_cancel_backend(pid)") != "1"; time.Sleep(20 * time.Millisecond) {
		need.Must(t, time.Now().Before(end), "it does not wait")
	}
	for waits := ""; waits != "1" && len(done) == 0; time.Sleep(20 * time.Millisecond) { // for what became of it
		waits = waiting("CASE WHEN query LIKE '%pg_logical_emit_message%' OR query = 'COMMIT' THEN 1 END")
	}
	need.That(t, len(done) == 0, "a commit that no standby has is taken for durable")
	c.Set(t, "synchronous_standby_names", "")
	need.OK(t, <-done)
	strained("")
}

// A server whose disk is full says so, and does not read as if this host had to make room.
func TestAServerWithoutRoom(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	psql(t, url, `CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file "base/5/16400": No space left on device'; END $$;
		CREATE TRIGGER is_full BEFORE INSERT ON indoubt.op FOR EACH ROW EXECUTE FUNCTION public.full()`)
	_, err := ledger.Begin(ctx, s, begun("no room"))
	need.That(t, errors.Is(err, ledger.ErrFull) && strings.Contains(err.Error(), "has no room left (could not extend") && strings.Contains(err.Error(), "the server's disk"), "%v", err)
	need.That(t, strings.HasPrefix(need.Get(s.Info(ctx))(t).Strained, "SERVER DISK FULL: "), "the screen does not say it")
	psql(t, url, `DROP TRIGGER is_full ON indoubt.op`)
	need.Equal(t, need.Get(ledger.Begin(ctx, s, begun("no room")))(t).Answer, ledger.AnswerBegun)
	need.Equal(t, need.Get(s.Info(ctx))(t).Strained, "")
}
