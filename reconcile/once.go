package reconcile

import (
	"cmp"
	"context"
	"sync"
	"time"

	"indoubt/ledger"
)

// Summary is what Once did.
type Summary struct {
	Read    map[ledger.Verdict]int `json:"read"`    // checks that were made, by what they found
	Skipped int                    `json:"skipped"` // put off, or moved meanwhile
	Errors  int                    `json:"errors"`
	Leaders []ledger.Leader        `json:"-"` // others, who check what this one left to them
}

// Once takes the lead of what nobody leads, and there prices and reads everything that is due
// now, each operation once. It tells of each check that ends, one at a time. Errors: ErrReadOnly,
// ErrCopied, and of the ledger; a read that fails is counted and told.
func (e *Engine) Once(ctx context.Context, tell func(ReadResult, error)) (Summary, error) {
	s := Summary{Read: map[ledger.Verdict]int{}}
	if e.o.ReadOnly {
		return s, ledger.ErrReadOnly
	}
	defer e.Claim()()
	if why := e.mayAsk(ctx); why != "" {
		return s, cannotAsk(why)
	}
	s.Leaders = e.lead.leadOthers()
	e.after.next = time.Time{}
	var mu sync.Mutex
	err := e.passes(ctx, true, func(result ReadResult, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			s.Errors++
		case result.Read.ID == "":
			s.Skipped++
		default:
			s.Read[result.Read.Verdict]++
		}
		if tell != nil {
			tell(result, err)
		}
	})
	e.background.Wait()
	return s, cmp.Or(err, ctx.Err())
}
