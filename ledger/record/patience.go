package record

import (
	"context"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
)

// StoreDeadline is how long a recorder waits for one call of its store: a begin, a settle,
// a heartbeat, a look-up. A server that hangs then counts as one that does not answer:
// what cannot be recorded is not sent, and an outcome is kept and offered again.
const StoreDeadline = 10 * time.Second

// bounded is a store that answers each call of a recorder within StoreDeadline, whatever
// the store below does with its context.
type bounded struct{ ledger.Store }

// within makes a call that is given up after StoreDeadline. It may still go on then.
func within[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, StoreDeadline)
	defer cancel()
	over := time.NewTimer(StoreDeadline)
	defer over.Stop()
	came := make(chan result, 1)
	go func() {
		value, err := call(ctx)
		came <- result{value, err}
	}()
	select {
	case r := <-came:
		return r.value, r.err
	case <-over.C:
	}
	var none T
	return none, errNotInTime
}

var errNotInTime = fmt.Errorf("%w within %s", ledger.ErrLost, StoreDeadline)

// Change is the store's. Where the rule was not asked in time it is not asked any more, so
// that nothing is recorded; else cannot tell (ledger.ErrUnknown).
func (s bounded) Change(ctx context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	var (
		mu          sync.Mutex
		asked, over bool
	)
	applied, err := within(ctx, func(ctx context.Context) (ledger.Applied, error) {
		return s.Store.Change(ctx, at, changeID, func(rec *ledger.Record) (ledger.Change, error) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				return ledger.Change{}, ledger.ErrLost
			}
			asked = true
			return rule(rec)
		})
	})
	if err != errNotInTime { //nolint:errorlint // of this call, and of no store's
		return applied, err
	}
	mu.Lock()
	defer mu.Unlock()
	if over = true; asked {
		err = fmt.Errorf("%w: %w", ledger.ErrUnknown, err)
	}
	return applied, err
}

func (s bounded) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	return within(ctx, func(ctx context.Context) (ledger.Record, error) { return s.Store.Read(ctx, at) })
}

func (s bounded) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	return within(ctx, func(ctx context.Context) ([]ledger.Record, error) { return s.Store.Records(ctx, ids) })
}

func (s bounded) Keyed(ctx context.Context, key string, limit int) ([]string, error) {
	return within(ctx, func(ctx context.Context) ([]string, error) { return s.Store.Keyed(ctx, key, limit) })
}

func (s bounded) FieldNames(ctx context.Context) ([]string, error) {
	return within(ctx, s.Store.FieldNames)
}

func (s bounded) Info(ctx context.Context) (ledger.Info, error) {
	return within(ctx, s.Store.Info)
}
