package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

const (
	followEvery = 500 * time.Millisecond
	// followBack is how many events before its start an engine reads, for what
	// happened while none was running.
	followBack = 5000
)

// follower reads the history for attempts that ended without an engine's doing.
// Only the loop touches it.
type follower struct {
	place   ledger.Cursor // behind what was read; "" before the start
	next    time.Time
	few     chan struct{} // bounds how many are checked at once
	checked []string      // were being checked when they were to be priced anew
}

// follow checks for second effects of what was sent once more. The engine checks its
// own retries; this is for those that a pipeline sent under a grant (I9).
func (e *Engine) follow(ctx context.Context) error {
	f := &e.after
	if now := time.Now(); now.Before(f.next) {
		return nil
	} else {
		f.next = now.Add(followEvery)
	}
	if f.place == "" {
		if err := e.lookBack(ctx); err != nil {
			return err
		}
	}
	for {
		events, next, err := e.o.Store.Follow(ctx, f.place, batch)
		if err != nil {
			return fmt.Errorf("read what happened: %w", err)
		}
		var moved, over []string // over: left doubt
		for _, ev := range events {
			if moves(ev) {
				moved = append(moved, ev.OperationID)
			}
			e.counted.add(e.heard(ctx, ev).count)
			if ev.From == ledger.Uncertain && (ev.To == ledger.Committed || ev.To == ledger.Failed || ev.To == ledger.Abandoned) {
				over = append(over, ev.OperationID)
			}
		}
		if err := e.timeDoubts(ctx, over); err != nil {
			return err
		}
		if err := e.priceBeside(ctx, moved); err != nil {
			return err
		}
		if f.place = next; len(events) < batch {
			return nil
		}
	}
}

// timeDoubts counts how long operations were in doubt, which are settled now.
func (e *Engine) timeDoubts(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	recs, err := e.o.Store.Records(ctx, ids)
	if err != nil {
		return fmt.Errorf("read what left doubt: %w", err)
	}
	for _, rec := range recs {
		if o := rec.Operation; !o.DoubtedAt.IsZero() && !o.SettledAt.Before(o.DoubtedAt) {
			e.counted.doubt(e.policy().Kind(o.Kind).Pattern, o.SettledAt.Sub(o.DoubtedAt))
		}
	}
	return nil
}

// lookBack reads what happened before the start, and finds the place to follow from.
func (e *Engine) lookBack(ctx context.Context) error {
	info, err := e.o.Store.Info(ctx)
	if err != nil {
		return fmt.Errorf("find the newest event: %w", err)
	}
	var moved []string
	q := ledger.HistoryQuery{Until: info.Cursor, Newest: true, Limit: batch}
	for read := 0; read < followBack; read += batch {
		events, err := e.o.Store.History(ctx, q)
		if err != nil {
			return fmt.Errorf("read what happened before: %w", err)
		}
		for _, ev := range events {
			if moves(ev) {
				moved = append(moved, ev.OperationID)
			}
			e.heard(ctx, ev)
			q.Before = ev.Seq
		}
		if len(events) < batch {
			break
		}
	}
	if err := e.priceBeside(ctx, moved); err != nil {
		return err
	}
	e.after.place = info.Cursor
	return nil
}

// heard is what an event tells, after a check for a second effect where it asks for one.
func (e *Engine) heard(ctx context.Context, ev ledger.Event) news {
	d := told(ev)
	if d.again {
		e.checkDuplicate(ctx, ev.OperationID)
	}
	return d
}

// news is what an event tells.
type news struct {
	committed, replayed, twice bool
	again                      bool // a further attempt committed
}

func told(ev ledger.Event) news {
	var d struct {
		N       int            `json:"n"`
		Outcome ledger.Outcome `json:"outcome"`
		Already bool           `json:"already"`
		Verdict ledger.Verdict `json:"verdict"`
	}
	if ev.Verb == "begin" || json.Unmarshal(ev.Detail, &d) != nil {
		return news{}
	}
	switch ev.Verb {
	case "settle", "late":
		committed := d.Outcome == ledger.OutcomeCommitted
		return news{committed: committed, again: committed && d.N > 1 && ev.To == ledger.Committed,
			replayed: committed && d.Already}
	case "read":
		return news{twice: d.Verdict == ledger.Twice}
	}
	return news{}
}

func (n news) count(c *Counters) {
	for counter, happened := range map[*uint64]bool{&c.Committed: n.committed, &c.Replayed: n.replayed, &c.Twice: n.twice} {
		if happened {
			*counter++
		}
	}
}

// checkDuplicate checks in the background whether what was sent more than once
// landed more than once, unless that was checked since.
func (e *Engine) checkDuplicate(ctx context.Context, id string) {
	e.active.idle.Add(1)
	go func() {
		defer e.active.idle.Done()
		select {
		case e.after.few <- struct{}{}:
			defer func() { <-e.after.few }()
		case <-ctx.Done():
			return
		}
		rec, err := e.o.Store.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return
		}
		k := e.policy().Kind(rec.Operation.Kind)
		if !mayBeTwice(k, rec) || readSince(rec, rec.Operation.EndedAt) {
			return
		}
		c := check{actor: e.checker(), recheck: RecheckAt(k, e.now()), unlessSince: rec.Operation.EndedAt}
		if _, err := e.check(ctx, id, c); err != nil && ctx.Err() == nil && !permanent(err) {
			e.logf("look for a second effect of %s: %v", id, err)
		}
	}()
}

// mayBeTwice reports whether an operation that landed may have landed twice: it
// was sent more than once, and nothing makes that safe.
func mayBeTwice(k *policy.Kind, rec ledger.Record) bool {
	return rec.Operation.State == ledger.Committed && rec.Operation.AttemptCount > 1 && k.Read != nil && !k.Effect.Safe()
}
