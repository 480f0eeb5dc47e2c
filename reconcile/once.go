package reconcile

import (
	"context"
	"sync"
	"time"

	"indoubt/ledger"
)

// Summary is what one pass of Once did.
type Summary struct {
	Expired, Reads                                          int
	Landed, NotThere, NotSeen, Twice, Different, CannotTell int
	Skipped                                                 int             // put off, or moved meanwhile
	Leaders                                                 []ledger.Leader // others, who check what this one left to them
	Errors                                                  int
}

func (s *Summary) count(r ledger.Read) {
	if r.ID == "" {
		s.Skipped++
		return
	}
	s.Reads++
	switch r.Verdict {
	case ledger.Landed:
		s.Landed++
	case ledger.NotThere:
		s.NotThere++
	case ledger.NotSeen:
		s.NotSeen++
	case ledger.Twice:
		s.Twice++
	case ledger.Different:
		s.Different++
	default:
		s.CannotTell++
	}
}

// Once takes the lead of what nobody leads, and there expires, prices and reads everything
// that is due now, each operation once. It tells progress about every one, one at a time. Errors: ErrReadOnly,
// ErrCopied, and of the ledger; a read that fails is counted and passed to progress.
func (e *Engine) Once(ctx context.Context, progress func(Progress)) (Summary, error) {
	var s Summary
	if e.o.ReadOnly {
		return s, ledger.ErrReadOnly
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	defer e.claim()()
	if why := e.mayAsk(ctx); why != "" {
		return s, cannotAsk(why)
	}
	s.Leaders = e.lead.leadOthers()
	for more := true; more; {
		n, err := e.o.Store.Expire(ctx, batch)
		if err != nil {
			return s, err
		}
		s.Expired += n
		more = n == batch
	}
	e.prices.last, e.after.next = true, time.Time{}
	defer func() { e.prices.last = false }()
	err := e.readAll(ctx, &s, progress)
	e.active.idle.Wait()
	return s, err
}

// Unchecked counts what is in doubt and not parked, and has no check: of kinds that the
// policy knows none for by kind, of others by why.
func (e *Engine) Unchecked(ctx context.Context) (kinds, why map[string]int, err error) {
	pol := e.policy()
	kinds, why = map[string]int{}, map[string]int{}
	for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking} {
		for q := (ledger.Query{Tab: tab, Order: ledger.OrderOldest, Limit: batch, Now: e.now()}); ; {
			page, err := e.o.Store.Page(ctx, q)
			if err != nil {
				return nil, nil, err
			}
			var ids []string
			for _, row := range page.Rows {
				if row.StateAt(q.Now) == ledger.Uncertain {
					ids = append(ids, row.ID)
				}
			}
			recs, err := e.o.Store.Records(ctx, ids)
			if err != nil {
				return nil, nil, err
			}
			for _, rec := range recs {
				k := pol.Kind(rec.Operation.Kind)
				switch err := k.NoCheck(rec); {
				case err == nil:
				case k.Read == nil:
					kinds[k.Name]++
				default:
					why[err.Error()]++
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	return kinds, why, nil
}

// readAll reads what is due until nothing new is.
func (e *Engine) readAll(ctx context.Context, s *Summary, progress func(Progress)) error {
	var mu sync.Mutex
	seen := map[string]bool{}
	done, total := 0, 0
	ended := make(chan struct{}, 1)
	wanted := func(row ledger.Row) bool { // each once
		mu.Lock()
		defer mu.Unlock()
		return !seen[row.ID]
	}
	start := func(ctx context.Context, r *dueRead) {
		mu.Lock()
		seen[r.row.ID] = true
		total++
		mu.Unlock()
		go func() {
			result, err := e.readDue(ctx, r)
			mu.Lock()
			done++
			if err != nil {
				s.Errors++
			} else {
				s.count(result.Read)
			}
			progress(Progress{Operation: result.Operation, Read: result.Read, Done: done, Total: total, Err: err})
			mu.Unlock()
			e.active.give(r.row.ID, r.down, time.Time{})
			select {
			case ended <- struct{}{}:
			default:
			}
		}()
	}
	for ctx.Err() == nil {
		before, began := total, time.Now()
		more, err := e.pass(ctx, wanted, start)
		if err != nil {
			e.active.idle.Wait()
			return err
		}
		mu.Lock()
		idle := done == total && total == before
		mu.Unlock()
		if idle && !more {
			return nil
		}
		if !idle {
			select {
			case <-ended:
			case <-time.After(leadEvery):
			case <-ctx.Done():
			}
			_ = sleep(ctx, passEvery-time.Since(began))
		}
	}
	e.active.idle.Wait()
	return ctx.Err()
}
