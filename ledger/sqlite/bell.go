package sqlite

import (
	"os"
	"sync"
)

// bell is a side file whose one byte is written after each commit. A file
// watcher sees that at once, while a write to -wal shows before the commit can
// be read.
type bell struct {
	path string
	mu   sync.Mutex
	f    *os.File // nil for readers
	n    byte
}

// newBell opens the bell for ringing. A bell that cannot be opened stays silent:
// watchers look by themselves once a second.
func newBell(path string) *bell {
	b := &bell{path: path + ".bell"}
	b.f, _ = openSide(path, ".bell", os.O_CREATE|os.O_RDWR)
	return b
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.f == nil {
		return
	}
	b.n++
	_, _ = b.f.WriteAt([]byte{b.n}, 0)
}

func (b *bell) close() error {
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
