package ledgertest

import (
	"context"
	"time"

	"indoubt/ledger"
)

// Stepped implements ledger.Store.
func (m *Memory) Stepped(context.Context) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.moment()
	step, keep := now.ClockLead().Look(m.seen)
	if keep != nil {
		m.seen = keep
	}
	if step == 0 {
		return 0, nil
	}
	m.info.SteppedAt, m.info.Step = now.Wall, step
	m.append(ledger.StepEvent(step), now.Wall)
	for _, e := range m.ops {
		if e.pricing.ReadAt.After(now.Wall) && e.pricing.ReadAt.Before(ledger.Never) && step < 0 {
			e.pricing.ReadAt = latest(e.pricing.ReadAt.Add(step), now.Wall)
		}
	}
	wake(m.watchers)
	return step, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
