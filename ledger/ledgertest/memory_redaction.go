package ledgertest

import (
	"slices"

	"indoubt/ledger"
)

// overtakes refuses to forget the target of what an earlier operation may have to know it by.
func overtakes(m *Memory, e *entry) error {
	var first *entry
	for _, other := range m.ops {
		o := other.op
		if other != e && e.op.Target != "" && !ledger.IsMasked(e.op.Target) && o.Target == e.op.Target && !o.StartedAt.After(e.op.StartedAt) &&
			slices.Contains([]ledger.State{ledger.Pending, ledger.Uncertain, ledger.Failed}, o.State) && (first == nil || o.StartedAt.Before(first.op.StartedAt)) {
			first = other
		}
	}
	if first == nil {
		return nil
	}
	return ledger.Overtaken(first.op.ID)
}

// erase takes the text of what belongs to an operation.
func erase(m *Memory, e *entry, changeID string, what ledger.Erasure) {
	for i := range e.reads {
		e.reads[i] = e.reads[i].Without()
	}
	for i := range e.grants {
		e.grants[i] = e.grants[i].Without()
	}
	for i := range e.marks {
		e.marks[i] = ledger.Masked(e.marks[i])
	}
	in, over := m.of(e), map[string]bool{}
	for _, ev := range m.events {
		over[ev.Run] = over[ev.Run] || ev.Verb == ledger.VerbRunOver
	}
	for i, ev := range m.events {
		its := ev.OperationID == e.op.ID || ev.OperationID == "" && ev.Outage != "" && slices.Contains(in, ev.Outage) && ev.Tells(what.Texts) && (ev.Run == "" || over[ev.Run])
		if its && ev.ID != changeID {
			m.events[i] = ev.Without()
		}
	}
	for _, begun := range slices.Clone(m.events) {
		if !about(begun) || begun.ID != begun.Run {
			continue
		}
		r, items := m.account(begun)
		if r.Open() || !slices.ContainsFunc(items, func(it ledger.RunItem) bool { return it.OperationID == e.op.ID }) {
			continue
		}
		for i, ev := range m.events {
			if about(ev) && ev.Run == r.ID {
				m.events[i] = ev.Without()
			}
		}
	}
	e.pricing.Title, e.pricing.Target, e.pricing.Digest = "", "", ""
}
