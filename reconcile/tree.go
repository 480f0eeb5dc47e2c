package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/procgroup"
)

// seeTrees traces the processes of attempts that started a command, where they were
// not seen to be gone, and records which are. From then
// on a read may prove something. It returns the record as it is afterwards.
func (e *reader) seeTrees(ctx context.Context, rec ledger.Record, actor ledger.Actor) ledger.Record {
	for a := rec.OpenTree(); a != nil; a = rec.OpenTree() {
		if found, err := procgroup.Trace(*a); err != nil || len(found) > 0 {
			return rec
		}
		applied, err := ledger.SeeTreeEmpty(ctx, e.o.Store, ledger.TreeRequest{ChangeID: ledger.NewID(), AttemptID: a.ID, Actor: actor,
			Reason: "no process of it lives any more on " + e.host})
		if err != nil {
			e.logf("record that the processes of attempt %s are gone: %v", a.ID, err)
			return rec
		}
		if applied.Noop { // another engine has recorded it meanwhile
			if now, err := e.o.Store.Read(ctx, ledger.Locator{ID: rec.Operation.ID}); err == nil {
				rec = now
			}
			return rec
		}
		rec.Attempts = slices.Clone(rec.Attempts)
		*rec.Attempt(a.ID) = applied.Attempt
	}
	return rec
}

// treesEvery is how often the processes on this host are looked for.
const treesEvery = 2 * time.Second

// seeTreesHere looks whether the commands on this host are gone, of what came into doubt
// and of what was seen before, where another process makes the checks: it may run on a host
// that does not see them. Only the loop calls it.
func (e *Engine) seeTreesHere(ctx context.Context, doubts []string) error {
	f, now := &e.after, time.Now()
	if len(doubts) == 0 && (len(f.trees) == 0 || now.Before(f.treesAt)) {
		return nil
	}
	f.treesAt = now.Add(treesEvery)
	var recs []ledger.Record
	for ids := range slices.Chunk(slices.AppendSeq(doubts, maps.Keys(f.trees)), batch) {
		some, err := e.o.Store.Records(ctx, ids)
		if err != nil {
			return fmt.Errorf("read whose processes may live: %w", err)
		}
		recs = append(recs, some...)
	}
	f.trees = map[string]bool{}
	for _, rec := range recs {
		a := rec.OpenTree()
		if a == nil || !procgroup.IsHere(a.Place) {
			continue
		}
		if !e.leads(scopeOf(e.policy().Kind(rec.Operation.Kind))) {
			rec = e.seeTrees(ctx, rec, e.checker())
		}
		if rec.OpenTree() != nil {
			f.trees[rec.Operation.ID] = true
		}
	}
	return nil
}

// mayStillWrite is why a process of the operation may have an effect yet, or "".
func mayStillWrite(rec ledger.Record) string {
	a := rec.OpenTree()
	switch {
	case a == nil && rec.LostCommand():
		return "a command that the ledger has lost may still write: its newest writes were lost at " + rec.Gap.UTC().Format(time.RFC3339)
	case a == nil:
		return ""
	}
	why := "it is not recorded yet that they are gone"
	if found, err := procgroup.Trace(*a); err != nil {
		why = err.Error()
	} else if len(found) > 0 {
		why = "process " + procgroup.List(found) + " lives"
	}
	return fmt.Sprintf("processes of attempt %d may still write (started by process %d on %s): %s", a.N, a.PID, a.Host, why)
}
