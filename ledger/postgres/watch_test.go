//go:build soak

package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// amply ends a wait that would otherwise never end: a busy machine takes its time.
const amply = 3 * time.Minute

// heard waits for news of a watch.
func heard(t *testing.T, news <-chan struct{}, what string) {
	t.Helper()
	select {
	case _, open := <-news:
		need.Must(t, open, "%s: the watch has ended", what)
	case <-time.After(amply):
		t.Fatalf("%s went unnoticed", what)
	}
}

// tells commits until that is heard. A notification that a busy server does not take
// within a second is left to those who poll, and the next commit tells again.
func tells(t *testing.T, news <-chan struct{}, what string, commit func(id string)) {
	t.Helper()
	for end := time.Now().Add(amply); ; {
		commit(ledger.NewID())
		select {
		case _, open := <-news:
			need.Must(t, open, "%s: the watch has ended", what)
			return
		case <-time.After(5 * time.Second):
			need.Must(t, time.Now().Before(end), "%s went unnoticed", what)
		}
	}
}

// listening waits until a watch of the ledger listens.
func listening(t *testing.T, s *Store, connections int64) {
	t.Helper()
	for end := time.Now().Add(amply); ; time.Sleep(5 * time.Millisecond) {
		if scalar(t, s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`) == connections {
			return
		}
		need.Must(t, !time.Now().After(end), "not %d connections listen", connections)
	}
}

// listener waits until one connection listens that another process of the server serves
// than before, and returns the id of that process.
func listener(t *testing.T, s *Store, before int64) int64 {
	t.Helper()
	for end := time.Now().Add(amply); ; time.Sleep(5 * time.Millisecond) {
		pid := scalar(t, s, `SELECT CASE count(*) WHEN 1 THEN max(pid)::bigint ELSE 0 END FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`)
		if pid != 0 && pid != before {
			return pid
		}
		need.Must(t, !time.Now().After(end), "no other connection listens")
	}
}

// A commit of another process is told, and without listening it is found.
func TestWatch(t *testing.T) {
	url := made(t)
	direct := func(testing.TB) func(string) string { return func(url string) string { return url } }
	for _, c := range []struct {
		name, mode string
		polling    time.Duration
		by         func(testing.TB) func(url string) string
	}{
		{"told", "", time.Hour, direct},
		{"found", "default_query_exec_mode=exec", 50 * time.Millisecond, direct},
		{"pooler", "", 50 * time.Millisecond, bouncer},
	} {
		t.Run(c.name, func(t *testing.T) {
			writer := opened(t, url, Options{})
			r, through := pgtest.Through(t, with(c.by(t)(url), c.mode))
			s := opened(t, through, Options{})
			s.polling = c.polling
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			news := s.Watch(ctx)
			if c.name == "told" {
				listening(t, writer, 1)
			}
			commit := func(id string) { need.OK(t, tell(writer, id)) }
			for range 3 {
				tells(t, news, "a commit", commit)
			}
			if c.name == "told" { // the connection is lost, and made again
				for how, lose := range map[string]func(){"cut": r.Drop, "ended by the server": func() {
					psql(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
				}} {
					before := listener(t, writer, 0)
					lose()
					listener(t, writer, before)
					tells(t, news, "a commit after the connection was "+how, commit)
				}
			}
			// A process that makes one change and ends tells of it, too.
			tells(t, news, "the commit of a process that ended", func(id string) {
				brief := opened(t, url, Options{})
				need.OK(t, tell(brief, id))
				brief.Close()
			})
			stop()
			for end := time.After(amply); ; {
				select {
				case _, open := <-news:
					if !open {
						return
					}
				case <-end:
					t.Fatal("the watch goes on after its context has ended")
				}
			}
		})
	}
}

// Who waits for the same call is one of many: they share one connection, also with who
// comes back at once, and it is closed when all have gone.
func TestWatchesShareOneConnection(t *testing.T) {
	url := made(t)
	writer, s := opened(t, url, Options{}), opened(t, url, Options{})
	s.polling = 50 * time.Millisecond
	for range 2 {
		ctx, stop := context.WithCancel(ctx)
		var all []<-chan struct{}
		for range 20 {
			brief, gone := context.WithCancel(ctx)
			s.Watch(brief)
			gone()
			all = append(all, s.Watch(ctx))
		}
		listening(t, writer, 1)
		for i, news := range all {
			tells(t, news, fmt.Sprintf("a commit before watch %d", i), func(id string) { need.OK(t, tell(writer, id)) })
		}
		need.Equal(t, scalar(t, writer, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`), int64(1))
		stop()
		listening(t, writer, 0)
	}
}

// However many changes a process commits, it notifies twenty times a second at most.
func TestNotificationsAreFew(t *testing.T) {
	url := made(t)
	s, l := opened(t, url, Options{}), opened(t, url, Options{})
	l.polling = time.Hour
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var heard atomic.Int64
	bells, _ := l.watching.join(ctx)
	go func() {
		for range bells {
			heard.Add(1)
		}
	}()
	l.background.work(func() { l.watching.listen(ctx) })
	listening(t, s, 1)
	began, commits := time.Now(), 0
	for ; time.Since(began) < time.Second; commits++ {
		need.OK(t, tell(s, fmt.Sprint(commits)))
	}
	for end := time.Now().Add(amply); heard.Load() < 2 && time.Now().Before(end); time.Sleep(notifyEvery) {
	}
	time.Sleep(2 * notifyEvery)
	took := time.Since(began)
	if n := int(heard.Load()); n < 2 || n > int(took/notifyEvery)+1 {
		t.Fatalf("%d notifications of %d commits in %s", n, commits, took)
	}
}
