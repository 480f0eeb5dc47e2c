package reconcile

import (
	"context"
	"sync"
	"time"

	"indoubt/ledger"
)

// Summary is what one pass of Once did.
type Summary struct {
	Expired    int             `json:"expired"`
	Reads      int             `json:"reads"`
	Landed     int             `json:"landed"`
	NotThere   int             `json:"not_there"`
	NotSeen    int             `json:"not_seen"`
	Twice      int             `json:"twice"`
	Different  int             `json:"different"`
	CannotTell int             `json:"cannot_tell"`
	Skipped    int             `json:"skipped"` // put off, or moved meanwhile
	Errors     int             `json:"errors"`
	Leaders    []ledger.Leader `json:"-"` // others, who check what this one left to them
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
	defer e.Claim()()
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
	e.after.next = time.Time{}
	err := e.checkAll(ctx, &s, progress)
	e.background.Wait()
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

// checkAll checks what is due now, until all of it is.
func (e *Engine) checkAll(ctx context.Context, s *Summary, progress func(Progress)) error {
	var mu sync.Mutex
	done, total, by := 0, 0, e.now()
	ended := func(result ReadResult, err error) {
		mu.Lock()
		defer mu.Unlock()
		if done++; err != nil {
			s.Errors++
		} else {
			s.count(result.Read)
		}
		progress(Progress{Operation: result.Operation, Read: result.Read, Done: done, Total: max(total, done), Err: err})
	}
	for ctx.Err() == nil {
		began := time.Now()
		mu.Lock()
		idle := done == total // what ends from here on makes room that this pass may not have seen
		mu.Unlock()
		begun, more, err := e.pass(ctx, by, ended)
		if err != nil {
			return err
		}
		mu.Lock()
		total += begun
		working := done < total
		mu.Unlock()
		switch {
		case working:
			select {
			case <-e.wake:
			case <-time.After(leadEvery):
			case <-ctx.Done():
			}
			_ = sleep(ctx, passEvery-time.Since(began))
		case idle && begun == 0 && !more:
			return nil
		}
	}
	return ctx.Err()
}
