package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
)

const (
	pollEvery   = time.Second      // for writers that do not notify, and where nothing can be heard
	listenAgain = 10 * time.Second // after a server would not let this process listen
)

// Watch sends after a commit: at once when its writer notifies, within a second in any
// case. Behind a pooler that shares sessions, and on a standby, no one can listen.
func (s *handle) Watch(ctx context.Context) <-chan struct{} {
	w := &watch{store: s, out: make(chan struct{}), heard: make(chan struct{}, 1)}
	if here, err := s.here(ctx); err == nil { // else the first look tells of all there is
		w.seen = here.cursor()
	}
	s.background.work(func() { w.listen(ctx) })
	go w.run(ctx)
	return w.out
}

type watch struct {
	store *handle
	out   chan struct{}
	heard chan struct{} // full while there is news
	seen  ledger.Cursor // of the last poll
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	poll := time.NewTicker(w.store.polling)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.heard:
		case <-poll.C:
			if !w.look(ctx) {
				continue
			}
		}
		select {
		case w.out <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// look reports whether there are new events since the last poll. What a notification
// has told already is told once more.
func (w *watch) look(ctx context.Context) bool {
	events, cursor, err := w.store.Follow(ctx, w.seen, 1)
	if err != nil {
		return false
	}
	if w.seen = cursor; len(events) == 0 {
		return false
	}
	if here, err := w.store.here(ctx); err == nil {
		w.seen = here.cursor()
	}
	return true
}

// listen hears notifications over a connection of its own, and makes it again when it
// is lost.
func (w *watch) listen(ctx context.Context) {
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
func (w *watch) hear(ctx context.Context) error {
	config := w.store.address.config.ConnConfig.Config.Copy()
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {
		select {
		case w.heard <- struct{}{}:
		default:
		}
	}
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
