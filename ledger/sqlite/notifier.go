package sqlite

import (
	"os"
	"sync"
)

// notifier writes a byte that changes to a side file after each commit. A
// file watcher sees that at once, while a write to -wal shows before the commit can
// be read.
type notifier struct {
	mu sync.Mutex
	f  *os.File // nil for readers
	n  byte
}

// newNotifier opens the side file. A notifier that cannot open it stays silent:
// watchers look by themselves once a second.
func newNotifier(path string) *notifier {
	b := &notifier{}
	b.f, _ = openSide(path, ".bell", os.O_CREATE|os.O_RDWR)
	return b
}

func (b *notifier) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.f == nil {
		return
	}
	b.n++
	_, _ = b.f.WriteAt([]byte{b.n}, 0)
}

func (b *notifier) close() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.f == nil {
		return nil
	}
	err := b.f.Close()
	b.f = nil
	return err
}
