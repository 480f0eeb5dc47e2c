package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
)

const (
	followStep = 5 * time.Second // a deadline passes without an event
	lostStep   = 2 * time.Second
)

// follow prints what is there and then what comes, until ctx ends. A ledger that is lost
// is waited for: what was written meanwhile comes then.
func (c logCommand) follow(ctx context.Context, s ledger.Store, o logOptions, events []ledger.Event, place ledger.Cursor, changed <-chan struct{}) error {
	ctx, stop := base.WhileRead(ctx, c.RawOut)
	defer stop()
	names, err := c.names(ctx, s, events)
	if err != nil && ctx.Err() == nil {
		return err
	}
	more := false
	read := func() error {
		if !more { // a file that was moved away can still be read
			if _, err := s.Info(ctx); err != nil {
				return err
			}
		}
		came, next, err := s.Follow(ctx, place, logStep)
		if other := (*ledger.CursorError)(nil); errors.As(err, &other) { // a failover, or another ledger
			info, failed := s.Info(ctx)
			if err = failed; err == nil {
				c.ErrOut.Println("the history is another one than before: some of it may not have been shown")
				next = info.Cursor
			}
		}
		if err == nil {
			err = o.join(ctx, s, came)
		}
		wanted := slices.DeleteFunc(slices.Clone(came), func(e ledger.Event) bool { return !o.wanted(e) })
		if err == nil {
			names, err = c.names(ctx, s, wanted)
		}
		if err == nil {
			events, place, more = wanted, next, len(came) > 0
		}
		return err
	}
	for {
		if err := c.print(events, names); err != nil && ctx.Err() == nil {
			return err
		}
		if !more {
			wait(ctx, changed, followStep)
		}
		if err := read(); err != nil && ctx.Err() == nil {
			regain(ctx, c.App, err, func(line string) { c.ErrOut.Println(line) }, func(other ledger.Store) { s, changed = other, other.Watch(ctx) }, read)
			c.ErrOut.Println("the ledger is back")
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// wait waits until a ledger may have changed, at most for so long.
func wait(ctx context.Context, changed <-chan struct{}, most time.Duration) {
	tick := time.NewTimer(most)
	defer tick.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-tick.C:
	}
}

// regain says that the ledger is lost, and tries to read it, also from a store that it
// opens anew and goes over to, until that succeeds.
func regain(ctx context.Context, a *base.App, err error, say func(string), over func(ledger.Store), read func() error) {
	if ctx.Err() == nil {
		say("the ledger is lost: " + strings.TrimSuffix(base.AsFailure(err).Message, ".") + "; it is tried again until it is back")
	}
	for ctx.Err() == nil && err != nil {
		wait(ctx, nil, lostStep)
		if err = read(); err == nil {
			break
		}
		var s ledger.Store
		if s, err = a.Open(ctx, base.ToLook); err != nil {
			continue
		}
		a.Store.Close()
		base.Keep(a, s)
		over(s)
		err = read()
	}
}
