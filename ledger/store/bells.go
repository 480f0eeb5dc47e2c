package store

import (
	"context"
	"sync"
)

// Bells wake those who watch a database.
type Bells struct {
	mu  sync.Mutex
	all map[chan struct{}]bool
}

// Watch is full while there is news. It is closed when ctx ends.
func (b *Bells) Watch(ctx context.Context) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[chan struct{}]bool{}
	}
	bell := make(chan struct{}, 1)
	b.all[bell] = true
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.all, bell)
		close(bell)
	})
	return bell
}

// Ring has each of them look.
func (b *Bells) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bell := range b.all {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// Any reports whether anyone watches.
func (b *Bells) Any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all) > 0
}
