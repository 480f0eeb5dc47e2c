package ledgertest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"indoubt/ledger"
)

// tally counts how a doubt ended, unless a person said so.
func (m *Memory) tally(before, after ledger.Operation, verb string, now time.Time) {
	person := verb == string(ledger.VerbConfirm) || verb == string(ledger.VerbDeny) || verb == string(ledger.VerbAbandon)
	ended := after.State == ledger.Committed || after.State == ledger.Failed
	if before.StateAt(now) != ledger.Uncertain || !ended || person {
		return
	}
	key := ledger.Tally{Kind: after.Kind, Class: before.ErrorClass}
	if before.State == ledger.Pending {
		key.Class = ledger.ClassDeadline
	}
	t := m.tallies[key]
	t.Kind, t.Class = key.Kind, key.Class
	if after.State == ledger.Committed {
		t.Landed++
	} else {
		t.Missed++
	}
	m.tallies[key] = t
}

// Tallies implements ledger.Store.
func (m *Memory) Tallies(context.Context) ([]ledger.Tally, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ledger.Tally
	for _, t := range m.tallies {
		out = append(out, t)
	}
	return out, nil
}

// Census implements ledger.Store.
func (m *Memory) Census(_ context.Context, now time.Time) ([]ledger.Census, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[ledger.Census]ledger.Census{}
	for _, e := range m.ops {
		key := ledger.Census{Kind: e.op.Kind, State: e.op.StateAt(now)}
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
	var out []ledger.Census
	for _, c := range counts {
		out = append(out, c)
	}
	return out, nil
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
		case "retry":
			decided = e.Actor.Machine
		}
		if !decided || e.At.Before(since) {
			continue
		}
		key := ledger.Accuracy{Actor: e.Actor.Name, Machine: e.Actor.Machine, Verb: e.Verb}
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
	var out []ledger.Accuracy
	for _, a := range counts {
		out = append(out, a)
	}
	return out, nil
}

// The order of these is no part of what they say.
func sortTallies(t []ledger.Tally) []ledger.Tally {
	slices.SortFunc(t, func(a, b ledger.Tally) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class)) })
	return t
}

func sortCensus(c []ledger.Census) []ledger.Census {
	slices.SortFunc(c, func(a, b ledger.Census) int {
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
