package ledgertest

import (
	"slices"

	"indoubt/ledger"
)

// Contents are records, events and holds as a ledger may have them, ready-made.
type Contents struct {
	Records []ledger.Record
	Events  []ledger.Event // their Seq is given by the store
	Holds   []ledger.Hold
}

// Put takes contents as they are: a record in place of the one with its id, with its
// relations beside those that the store finds, and the rest at the end. No rule is asked.
func (m *Memory) Put(c Contents) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range c.Records {
		e := m.find(ledger.Locator{ID: rec.Operation.ID})
		if e == nil {
			e = &entry{seq: int64(len(m.ops)) + 1}
			m.ops = append(m.ops, e)
		}
		*e = entry{seq: e.seq, op: rec.Operation, attempts: rec.Attempts, reads: rec.Reads, grants: rec.Grants, related: rec.Related}
		e.list()
		e.pricing, e.listed = rec.Pricing, e.listed || rec.Operation.State == ledger.Pending && rec.Pricing.Digest != ""
	}
	for _, ev := range c.Events {
		m.append(ev, ev.At)
	}
	m.holds = append(slices.Clone(m.holds), c.Holds...)
	wake(m.watchers)
}
