package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

const (
	pollEvery   = time.Second      // for writers that do not notify, and where nothing can be heard
	listenAgain = 10 * time.Second // after a server would not let this process listen
)

// Watch sends after a commit: at once when its writer notifies, within a second in any
// case. Behind a pooler that shares sessions, and on a standby, no one can listen. All
// watches of a store share one connection that listens, and one look a second.
func (d database) Watch(ctx context.Context) <-chan struct{} {
	out, first := d.watching.join(ctx)
	if first {
		w := &watch{store: d.handle}
		if here, err := d.store.here(ctx); err == nil { // else the first look tells of all there is
			w.seen = here
		}
		d.background.work(w.run)
	}
	return out
}

// watching is who watches a store.
type watching struct {
	store  *handle
	closed context.Context
	close  context.CancelFunc
	bells  store.Bells

	mu sync.Mutex
	on bool // a watch runs for them
}

func newWatching(s *handle) *watching {
	closed, end := context.WithCancel(context.Background())
	return &watching{store: s, closed: closed, close: end}
}

// join takes one more in. It reports whether a watch has to be begun for it.
func (w *watching) join(ctx context.Context) (heard <-chan struct{}, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	heard, first, w.on = w.bells.Watch(ctx), !w.on, true
	return heard, first
}

// alone reports whether no one watches any more, and the watch ends.
func (w *watching) alone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = w.bells.Any()
	return !w.on
}

// watch is what runs for all that watch a store.
type watch struct {
	store *handle
	seen  ledger.Cursor // of the last look
}

// run looks and listens until no one watches: who comes back soon finds it as it was.
func (w *watch) run() {
	ctx, quiet := context.WithCancel(w.store.watching.closed)
	defer quiet()
	w.store.background.work(func() { w.store.watching.listen(ctx) })
	poll := time.NewTicker(w.store.polling)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			if w.store.watching.alone() {
				return
			}
			if w.look(ctx) {
				w.store.watching.bells.Ring()
			}
		}
	}
}

// look reports whether there are new events since the last poll. What a notification
// has told already is told once more.
func (w *watch) look(ctx context.Context) bool {
	events, cursor, err := w.store.store.Follow(ctx, w.seen, 1)
	if err != nil {
		return false
	}
	if w.seen = cursor; len(events) == 0 {
		return false
	}
	if here, err := w.store.store.here(ctx); err == nil {
		w.seen = here
	}
	return true
}

// listen hears notifications over a connection of its own, and makes it again when it
// is lost.
func (w *watching) listen(ctx context.Context) {
	for ctx.Err() == nil && !w.store.plain.Load() {
		nap := pollEvery
		if err := w.hear(ctx); err != nil && !broken(err) && !connecting(err) {
			nap = listenAgain
		}
		select {
		case <-time.After(nap + rand.N(nap/2)):
		case <-ctx.Done():
		}
	}
}

// hear listens until the connection is lost.
func (w *watching) hear(ctx context.Context) error {
	config := w.store.address.alone()
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { w.bells.Ring() }
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	asked, cancel := context.WithTimeout(ctx, w.store.silence)
	defer cancel()
	if err := conn.Exec(asked, "LISTEN "+channel).Close(); err != nil {
		return err
	}
	for {
		if err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
