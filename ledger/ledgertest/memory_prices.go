package ledgertest

import (
	"context"
	"slices"
	"time"

	"indoubt/ledger"
)

// prices are what a policy says of what a Memory has.
type prices struct{ m *Memory }

func (p *prices) Unpriced(_ context.Context, digest string, limit int) ([]ledger.Operation, error) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ledger.Operation
	for _, e := range m.ops {
		rec := m.record(e, m.clock())
		open := rec.Row().LaneAt(m.clock()) != ledger.LaneResolved
		if open && e.op.State != ledger.Pending && e.pricing.Digest != digest && len(out) < limit {
			out = append(out, e.op)
		}
	}
	return out, nil
}

func (p *prices) Beside(_ context.Context, ids []string) (out []string, err error) {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.ops {
		if e.op.State == ledger.Uncertain && slices.ContainsFunc(m.ops, func(t *entry) bool {
			return t != e && t.op.Target != "" && t.op.Target == e.op.Target && overtook(e, t) && slices.Contains(ids, t.op.ID)
		}) {
			out = append(out, e.op.ID)
		}
	}
	return out, nil
}

func (p *prices) Price(_ context.Context, all []ledger.Pricing) error {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range all {
		e := m.find(ledger.Locator{ID: p.OperationID})
		if e != nil && (p.Version == 0 || p.Version == e.op.Version) {
			e.price(p, time.Time{})
		}
	}
	return nil
}
