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

// Watch sends after a commit: at once when its writer notifies, a few
// milliseconds later when it only wrote to -wal, within a second in any case.
// Nothing is watched while the receiver is busy: what came meanwhile is one news.
func (s database) Watch(ctx context.Context) <-chan struct{} {
	w := &watch{store: s.handle, out: make(chan struct{}), dir: filepath.Dir(s.path)}
	w.seen = w.last(ctx)
	w.add()
	go w.run(ctx)
	return w.out
}

type watch struct {
	store *handle
	out   chan struct{}
	dir   string
	seen  int64             // the newest event when the receiver was last told
	files *fsnotify.Watcher // nil while the directory is not watched, or cannot be
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	defer w.drop()
	for w.news(ctx) {
		w.drop()
		select {
		case w.out <- struct{}{}:
		case <-ctx.Done():
			return
		}
		w.add()
	}
}

// news waits for a commit. It reports false when ctx has ended.
func (w *watch) news(ctx context.Context) bool {
	if w.look(ctx) {
		return true
	}
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
		look := false
		select {
		case <-ctx.Done():
			return false
		case e, ok := <-events:
			switch {
			case !ok, e.Name == w.dir && e.Has(fsnotify.Remove|fsnotify.Rename):
				w.drop()
			case e.Name == w.store.path+".bell" && e.Has(fsnotify.Write):
				w.seen = max(w.seen, w.last(ctx))
				return true
			case e.Name == w.store.path+"-wal" && again == nil:
				again, looks = time.After(settle), 0
			}
		case <-errs: // an overflow: events were lost
			look = true
		case <-again:
			if again, look = nil, true; looks == 0 {
				again, looks = time.After(lookAgain-settle), 1
			}
		case <-poll.C:
			look = true
			if w.files == nil {
				w.add()
			}
		}
		if look && w.look(ctx) {
			return true
		}
	}
}

// look reports whether there are new events.
func (w *watch) look(ctx context.Context) bool {
	last := w.last(ctx)
	if last <= w.seen {
		return false
	}
	w.seen = last
	return true
}

func (w *watch) last(ctx context.Context) int64 {
	var seq int64
	_ = w.store.one(ctx, `SELECT coalesce(max(seq), 0) FROM ev`, &seq) // the next look tries again
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
