package sqlite

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bellEvery = 20 * time.Millisecond // for writers that ring
	pollEvery = time.Second           // for foreign ones
)

// Watch sends soon after a commit: writers ring by a byte of the side file, and in any case it looks each second.
// Nothing is watched while the receiver is busy: what came meanwhile is one news.
func (s database) Watch(ctx context.Context) <-chan struct{} {
	w := &watch{store: s.handle, out: make(chan struct{})}
	w.rings()
	w.seen = w.last(ctx)
	go w.run(ctx)
	return w.out
}

type watch struct {
	store *handle
	out   chan struct{}
	bell  [1 + markSize]byte // as it was read last
	seen  int64              // the newest event when the receiver was last told
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	tick := time.NewTicker(bellEvery)
	defer tick.Stop()
	for looked := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rang := w.rings()
		if !rang && time.Since(looked) < pollEvery {
			continue
		}
		looked = time.Now()
		last := w.last(ctx)
		if !rang && last <= w.seen {
			continue
		}
		w.seen = max(w.seen, last)
		select {
		case w.out <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// rings reports whether the side file has changed.
func (w *watch) rings() bool {
	was := w.bell
	if f, err := os.OpenFile(w.store.path+".bell", os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil {
		_, _ = f.ReadAt(w.bell[:], 0) // less where nothing was marked yet
		f.Close()
	}
	return was != w.bell
}

func (w *watch) last(ctx context.Context) int64 {
	var seq int64
	_ = w.store.one(ctx, `SELECT coalesce(max(seq), 0) FROM ev`, &seq) // the next look tries again
	return seq
}
