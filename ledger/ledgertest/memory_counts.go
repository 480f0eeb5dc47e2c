package ledgertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
)

// countDoubt counts how a doubt ended, unless a person said so, and reports whether one did.
func countDoubt(m *Memory, before, after ledger.Operation, verb string, now time.Time) bool {
	person := slices.Contains([]string{"confirm", "deny", "abandon", "ack"}, verb)
	ended := after.State == ledger.Committed || after.State == ledger.Failed
	if before.StateAt(now) != ledger.Uncertain || !ended || person {
		return false
	}
	key := ledger.DoubtCount{Kind: after.Kind, Class: before.ErrorClass}
	if before.State == ledger.Pending {
		key.Class = ledger.ClassDeadline
	}
	t := m.doubts[key]
	t.Kind, t.Class = key.Kind, key.Class
	if after.State == ledger.Committed {
		t.Landed++
	} else {
		t.Missed++
	}
	m.doubts[key] = t
	return true
}

// DoubtCounts implements ledger.Store.
func (m *Memory) DoubtCounts(context.Context) ([]ledger.DoubtCount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.doubts)), nil
}

// StateCounts implements ledger.Store.
func (m *Memory) StateCounts(_ context.Context, now time.Time) ([]ledger.StateCount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[ledger.StateCount]ledger.StateCount{}
	for _, e := range m.ops {
		key := ledger.StateCount{Kind: e.op.Kind, State: e.op.StateAt(now)}
		c := counts[key]
		c.Kind, c.State, c.Count = key.Kind, key.State, c.Count+1
		var since time.Time
		switch {
		case key.State == ledger.Pending:
			since = e.attempts[len(e.attempts)-1].StartedAt
		case e.op.State == ledger.Pending:
			since = e.op.DeadlineAt
		case key.State == ledger.Uncertain:
			since = e.op.DoubtedAt
		}
		if c.Oldest.IsZero() || since.Before(c.Oldest) {
			c.Oldest = since
		}
		counts[key] = c
	}
	return slices.Collect(maps.Values(counts)), nil
}

// Accuracy implements ledger.Store.
func (m *Memory) Accuracy(_ context.Context, since time.Time) ([]ledger.Accuracy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[ledger.Accuracy]ledger.Accuracy{}
	for i, e := range m.events {
		var decided bool
		switch e.Verb {
		case "confirm", "deny", "abandon":
			decided = !e.Actor.Machine
		case "read":
			decided = e.Actor.Machine && e.From != e.To
		}
		if !decided || e.At.Before(since) {
			continue
		}
		key := ledger.Accuracy{Actor: ledger.Signer(e.Actor.Name), Machine: e.Actor.Machine, Verb: e.Verb}
		a := counts[key]
		a.Actor, a.Machine, a.Verb, a.Decided = key.Actor, key.Machine, key.Verb, a.Decided+1
		for _, later := range m.events[i+1:] {
			if later.OperationID != e.OperationID {
				continue
			}
			if later.Conflict == ledger.Contradiction || later.Conflict == ledger.Duplicate {
				a.Wrong++
			} else if later.Verb != "undo" {
				continue
			}
			break
		}
		counts[key] = a
	}
	return slices.Collect(maps.Values(counts)), nil
}

// The order of these is no part of what they say.
func sortDoubtCounts(t []ledger.DoubtCount) []ledger.DoubtCount {
	slices.SortFunc(t, func(a, b ledger.DoubtCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class))
	})
	return t
}

func sortStateCounts(c []ledger.StateCount) []ledger.StateCount {
	slices.SortFunc(c, func(a, b ledger.StateCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
	return c
}

func sortAccuracy(a []ledger.Accuracy) []ledger.Accuracy {
	slices.SortFunc(a, func(a, b ledger.Accuracy) int {
		return cmp.Or(cmp.Compare(a.Actor, b.Actor), cmp.Compare(a.Verb, b.Verb))
	})
	return a
}
