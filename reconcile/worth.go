package reconcile

import (
	"context"
	"fmt"
	"math"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// worth is a walk through the list, to price anew what the ledger's history has made
// dearer or cheaper since. Each walk goes to the end, whatever is learned meanwhile.
type worth struct {
	by    *policy.Past // the history of the newest walk
	left  []ledger.Tab // still to walk through
	after string       // cursor in the first of them
	next  time.Time    // for the next page
}

const (
	worthEvery = time.Second // a page
	worthPage  = 250         // rows
	// worthChange is how much of a rank makes a difference to the order of the list.
	worthChange = 0.1
)

// revalue does one page of the walk. more reports that there are more of them.
func (e *Engine) revalue(ctx context.Context) (more bool, err error) {
	w, digest := &e.worth, e.policy().Digest()
	if len(w.left) == 0 {
		past := e.past.known()
		if past == w.by || e.onlyReads(ctx) {
			return false, nil
		}
		w.by, w.left, w.after = past, []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking}, ""
	}
	q := ledger.Query{Tab: w.left[0], Order: ledger.OrderOldest, Now: e.now(), After: w.after, Limit: worthPage}
	page, err := e.o.Store.Page(ctx, q)
	if err != nil {
		return false, fmt.Errorf("read what is priced anew: %w", err)
	}
	var ids []string
	for _, row := range page.Rows {
		if row.StateAt(q.Now) == ledger.Uncertain && row.Pricing.Digest == digest {
			ids = append(ids, row.ID)
		}
	}
	if len(ids) > 0 {
		if err := e.reprice(ctx, ids, dearerOrCheaper); err != nil {
			return false, err
		}
	}
	if w.after = page.Next; w.after == "" {
		w.left = w.left[1:]
	}
	return len(w.left) > 0, nil
}

func dearerOrCheaper(rec ledger.Record, q quote) bool {
	was := rec.Pricing.Rank
	return math.Abs(q.Rank-was) > worthChange*math.Max(q.Rank, was)
}
