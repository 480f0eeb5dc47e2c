package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
)

// keptRuns are the decision runs of a Memory: their events are in its history.
type keptRuns struct {
	m       *Memory
	drivers map[string]ledger.RunDriver
}

// event is the one of this id, or none.
func (k *keptRuns) event(id string) ledger.Event {
	if n := k.m.places[id]; n > 0 {
		return k.m.events[n-1]
	}
	return ledger.Event{}
}

// about reports whether an event is about a run.
func about(e ledger.Event) bool {
	return e.Run != "" && (e.Verb == "run" || e.Verb == ledger.VerbRunOver)
}

// account is a run with its items, by its first event.
func (k *keptRuns) account(begun ledger.Event) (ledger.DecisionRun, []ledger.RunItem) {
	r, items, err := ledger.RunBegun(begun)
	if err != nil {
		panic(err)
	}
	var more []ledger.Event
	fates := map[string]ledger.RunFate{}
	for _, e := range k.m.events {
		if about(e) && e.Run == r.ID && e.ID != r.ID {
			more = append(more, e)
		}
	}
	for i, it := range items {
		if o := k.m.find(ledger.Locator{ID: it.OperationID}); o != nil {
			items[i].Title = o.op.Title
		}
		f := ledger.RunFate{Event: k.event(it.Change)}
		if o := k.m.find(ledger.Locator{ID: f.Event.OperationID}); o != nil {
			for _, a := range o.attempts {
				if f.Event.To == ledger.Pending && a.ID == ledger.AttemptID(it.Change) {
					f.Attempt, f.Conflict, f.Note = &a, o.op.Conflict, o.op.ConflictNote
				}
			}
		}
		fates[it.Change] = f
	}
	r.Account(items, more, fates, k.m.clock())
	if by, driven := k.drivers[r.ID]; driven {
		r.Driver = by
	}
	return r, items
}

func (k *keptRuns) Run(_ context.Context, run ledger.DecisionRun, items []ledger.RunItem) (ledger.DecisionRun, bool, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	if run.IdempotencyKey != "" {
		run.ID = ledger.RunID(run.IdempotencyKey)
	}
	if e := k.event(run.ID); e.ID != "" {
		before, _ := k.account(e)
		if before.Digest != run.Digest || before.Verb != run.Verb {
			return ledger.DecisionRun{}, false, ledger.ErrKeyReused
		}
		return before, true, nil
	}
	now := k.m.clock()
	run, e, err := run.Recorded(items, now)
	if err != nil {
		return ledger.DecisionRun{}, false, err
	}
	k.m.append(e, now)
	k.drives(run)
	return run, false, nil
}

// drives keeps who drives a run.
func (k *keptRuns) drives(r ledger.DecisionRun) {
	if k.drivers[r.ID] = r.Driver; !r.Driver.Until.After(k.m.clock()) {
		delete(k.drivers, r.ID)
	}
}

// inRuns gives who decided the newest open run in which the turn of an operation is still
// to come, as it stands; "" where there is none.
func (k *keptRuns) inRuns() func(ledger.Operation) string {
	who, over := map[string]string{}, map[string]bool{}
	for _, e := range slices.Backward(k.m.events) {
		over[e.Run] = over[e.Run] || e.Verb == ledger.VerbRunOver
		if about(e) && e.ID == e.Run && e.Version > 1 && !over[e.Run] {
			r, items := k.account(e)
			ledger.ToCome(who, r, items)
		}
	}
	return func(o ledger.Operation) string { return who[fmt.Sprintf("%s@%d", o.ID, o.Version)] }
}

func (k *keptRuns) ChangeRun(_ context.Context, known ledger.DecisionRun, changeID string, rule ledger.RunRule) (ledger.DecisionRun, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	now, newest := k.m.clock(), ledger.Event{}
	for _, e := range k.m.events {
		if about(e) && e.Run == known.ID {
			newest = e
		}
	}
	if newest.ID == "" {
		return ledger.DecisionRun{}, fmt.Errorf("run %s: %w", known.ID, ledger.ErrNotFound)
	}
	rec := &ledger.RunRecord{Run: known.Stands(newest), Holds: holdsAt(k.m.holds, now), Now: now}
	if by, driven := k.drivers[known.ID]; driven {
		rec.Run.Driver = by
	}
	if _, happened := k.m.changes[changeID]; happened {
		return rec.Run, nil
	}
	c, err := rule(rec)
	if err != nil || c.Run == nil {
		return rec.Run, err
	}
	if c.Item != nil && k.event(c.Run.ChangeID(*c.Item)).ID == "" {
		e := c.Run.LeftOut(*c.Item, c.Actor)
		if o := k.m.find(ledger.Locator{ID: c.Item.OperationID}); o != nil {
			e.OperationID, e.From, e.To, e.Version = o.op.ID, o.op.State, o.op.State, o.op.Version
		}
		k.m.append(e, now)
	}
	if c.Event != nil {
		k.m.append(*c.Event, now)
	}
	k.drives(*c.Run)
	return *c.Run, nil
}

func (k *keptRuns) Runs(_ context.Context, q ledger.RunQuery) ([]ledger.DecisionRun, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	var out []ledger.DecisionRun
	for _, e := range slices.Backward(k.m.events) {
		if len(out) == max(q.Limit, 1) || !about(e) || e.ID != e.Run || q.ID == "" && e.Version < 2 || !strings.HasPrefix(e.ID, q.ID) {
			continue
		}
		if r, _ := k.account(e); q.ID != "" || !q.Open || r.Open() {
			out = append(out, r)
		}
	}
	return out, nil
}

func (k *keptRuns) Account(_ context.Context, runID string) (ledger.DecisionRun, []ledger.RunItem, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	e := k.event(runID)
	if !about(e) || e.ID != e.Run {
		return ledger.DecisionRun{}, nil, fmt.Errorf("run %s: %w", runID, ledger.ErrNotFound)
	}
	run, items := k.account(e)
	return run, items, nil
}
