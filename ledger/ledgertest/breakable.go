package ledgertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Breakable is a store whose changes fail while it is broken. It knows the
// operations that were changed through it.
type Breakable struct {
	ledger.Store

	mu      sync.Mutex
	err     error
	refused int
	ids     []string
}

// NewBreakable makes one that is empty and in memory, with the host's clocks when
// clock is nil.
func NewBreakable(clock *Clock) *Breakable {
	if clock == nil {
		return &Breakable{Store: NewMemory(time.Now, nil)}
	}
	return &Breakable{Store: NewMemory(clock.Now, clock.Steady)}
}

// Break makes every further change fail with err; nil mends the store.
func (b *Breakable) Break(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// Refused is how many changes failed because the store was broken.
func (b *Breakable) Refused() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Change is the store's, unless it is broken.
func (b *Breakable) Change(ctx context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	b.mu.Lock()
	err := b.err
	if err != nil {
		b.refused++
	}
	b.mu.Unlock()
	if err != nil {
		return ledger.Applied{}, err
	}
	applied, err := b.Store.Change(ctx, at, changeID, rule)
	b.mu.Lock()
	defer b.mu.Unlock()
	if id := applied.After.ID; id != "" && !slices.Contains(b.ids, id) {
		b.ids = append(b.ids, id)
	}
	return applied, err
}

// Changed are the ids of the operations that were changed, oldest first.
func (b *Breakable) Changed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ids)
}

// Only is the record of the only operation that was changed.
func (b *Breakable) Only(t testing.TB) ledger.Record {
	t.Helper()
	ids := b.Changed()
	need.Must(t, len(ids) == 1, "%d operations", len(ids))
	return need.Get(b.Read(context.Background(), ledger.Locator{ID: ids[0]}))(t)
}
