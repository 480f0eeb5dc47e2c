package sqlite

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	pollEvery = time.Second           // for foreign writers, and when watching fails
	settle    = 3 * time.Millisecond  // a foreign commit shows in -wal this long before it can be read
	lookAgain = 20 * time.Millisecond // at the latest
)

// Watch sends after a commit: at once when its writer rings the bell, a few
// milliseconds later when it only wrote to -wal, within a second in any case.
func (s *Store) Watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	w := &watch{store: s, out: out, dir: filepath.Dir(s.path)}
	w.seen = w.last(ctx)
	w.add()
	go w.run(ctx)
	return out
}

type watch struct {
	store *Store
	out   chan struct{}
	dir   string
	seen  int64
	files *fsnotify.Watcher // nil while the directory cannot be watched
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	defer w.drop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var again <-chan time.Time // a look that is due because of a write to -wal
	var looks int
	for {
		var events chan fsnotify.Event
		var errs chan error
		if w.files != nil {
			events, errs = w.files.Events, w.files.Errors
		}
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			switch {
			case !ok:
				w.drop()
			case e.Name == w.dir && e.Has(fsnotify.Remove|fsnotify.Rename):
				w.drop()
			case e.Name == w.store.path+".bell" && e.Has(fsnotify.Write):
				w.seen = max(w.seen, w.last(ctx))
				w.tell()
			case e.Name == w.store.path+"-wal" && again == nil:
				again, looks = time.After(settle), 0
			}
		case <-errs: // an overflow: events were lost, so look
			w.look(ctx)
		case <-again:
			again = nil
			if !w.look(ctx) && looks == 0 {
				again, looks = time.After(lookAgain-settle), 1
			}
		case <-poll.C:
			w.look(ctx)
			if w.files == nil {
				w.add()
			}
		}
	}
}

// look tells whether there are new events, and says so.
func (w *watch) look(ctx context.Context) bool {
	last := w.last(ctx)
	if last <= w.seen {
		return false
	}
	w.seen = last
	w.tell()
	return true
}

func (w *watch) tell() {
	select {
	case w.out <- struct{}{}:
	default: // one is waiting already
	}
}

func (w *watch) last(ctx context.Context) int64 {
	var seq int64
	_ = w.store.one(ctx, `SELECT coalesce(max(seq), 0) FROM events`, nil, &seq) // the next look tries again
	return seq
}

func (w *watch) add() {
	files, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		return
	}
	if err := files.Add(w.dir); err != nil {
		files.Close()
		return
	}
	w.files = files
}

func (w *watch) drop() {
	if w.files != nil {
		w.files.Close()
		w.files = nil
	}
}
