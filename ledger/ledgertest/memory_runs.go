package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// memoryRun is a decision run with its items.
type memoryRun struct {
	run   ledger.DecisionRun
	items []ledger.RunItem
}

func (r *memoryRun) copy() ledger.DecisionRun {
	out := r.run
	out.Tally = maps.Clone(out.Tally)
	return out
}

// keptRuns are the decision runs of a Memory.
type keptRuns struct {
	m    *Memory
	runs map[string]*memoryRun
}

// next is the first item whose turn is as asked for, or nil.
func (r *memoryRun) next(came ledger.Came, but int) *ledger.RunItem {
	for _, it := range r.items {
		if it.Came == came && it.N != but {
			return &it
		}
	}
	return nil
}

func (k *keptRuns) Run(_ context.Context, run ledger.DecisionRun, items []ledger.RunItem) (ledger.DecisionRun, bool, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	for _, r := range k.runs {
		if r.run.ID == run.ID || run.IdempotencyKey != "" && r.run.IdempotencyKey == run.IdempotencyKey {
			if r.run.Digest != run.Digest || r.run.Verb != run.Verb {
				return ledger.DecisionRun{}, false, ledger.ErrKeyReused
			}
			return r.copy(), true, nil
		}
	}
	now := k.m.clock()
	run, event, err := run.Record(items, now)
	if err != nil {
		return ledger.DecisionRun{}, false, err
	}
	r := &memoryRun{run, slices.Clone(items)}
	for n := range r.items {
		r.items[n].N, r.items[n].Came = n, ""
	}
	k.runs[run.ID] = r
	k.told(event)
	return r.copy(), false, nil
}

// runOf is who decided the newest open run in which the turn of an operation is still
// to come, as it stands; "" where there is none.
func (k *keptRuns) runOf(o ledger.Operation) string {
	var newest *memoryRun
	for _, r := range k.runs {
		waits := func(it ledger.RunItem) bool {
			return it.OperationID == o.ID && it.Version == o.Version && (it.Came == "" || it.Came == ledger.CameHeld)
		}
		if r.run.Open() && r.run.Size > 1 && slices.ContainsFunc(r.items, waits) && (newest == nil || r.run.CreatedAt.After(newest.run.CreatedAt)) {
			newest = r
		}
	}
	if newest == nil {
		return ""
	}
	return newest.run.Actor.Name
}

// told keeps an event of the ledger itself, if there is one.
func (k *keptRuns) told(e *ledger.Event) {
	if e != nil {
		k.m.append(*e, k.m.clock())
	}
}

func (k *keptRuns) ChangeRun(_ context.Context, runID string, item int, changeID string, rule ledger.RunRule) (ledger.DecisionRun, *ledger.RunItem, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	r := k.runs[runID]
	if r == nil {
		return ledger.DecisionRun{}, nil, fmt.Errorf("run %s: %w", runID, ledger.ErrNotFound)
	}
	now := k.m.clock()
	rec := &ledger.RunRecord{Run: r.copy(), Next: r.next("", item), Held: r.next(ledger.CameHeld, -1), Holds: holdsAt(k.m.holds, now), Now: now}
	if item >= 0 && item < len(r.items) {
		it := r.items[item]
		rec.Item = &it
	}
	if _, known := k.m.changes[changeID]; known {
		return rec.Run, rec.Next, nil
	}
	c, err := rule(rec)
	if err != nil || c.Run == nil {
		return rec.Run, rec.Next, err
	}
	r.run = *c.Run
	if c.Item != nil {
		r.items[c.Item.N] = *c.Item
	}
	for n, it := range r.items {
		if c.Again && it.Came == ledger.CameHeld {
			r.items[n].Came, r.items[n].Word, r.items[n].By, r.items[n].At = "", "", "", time.Time{}
		}
	}
	k.told(c.Event)
	if c.Again {
		return r.copy(), r.next("", -1), nil
	}
	return r.copy(), rec.Next, nil
}

func (k *keptRuns) Runs(_ context.Context, q ledger.RunQuery) ([]ledger.DecisionRun, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	var out []ledger.DecisionRun
	for _, r := range k.runs {
		if q.ID != "" && strings.HasPrefix(r.run.ID, q.ID) || q.ID == "" && r.run.Size > 1 && (!q.Open || r.run.Open()) {
			out = append(out, r.copy())
		}
	}
	slices.SortFunc(out, func(a, b ledger.DecisionRun) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return out[:min(len(out), max(q.Limit, 1))], nil
}

func (k *keptRuns) RunItems(_ context.Context, runID string) ([]ledger.RunItem, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	if r := k.runs[runID]; r != nil {
		return slices.Clone(r.items), nil
	}
	return nil, nil
}
