package ledgertest

import (
	"context"
	"time"

	"indoubt/ledger"
)

// Stepped implements ledger.Store.
func (m *Memory) Stepped(_ context.Context, step time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.moment()
	if ledger.SameStep(m.info.Step, step, m.info.SteppedAt, now.Wall) {
		return false, nil
	}
	m.info.SteppedAt, m.info.Step = now.Wall, step
	m.append(ledger.StepEvent(step), now.Wall)
	for _, e := range m.ops {
		if e.pricing.ReadAt.After(now.Wall) && e.pricing.ReadAt.Before(ledger.Never) && step < 0 {
			e.pricing.ReadAt = latest(e.pricing.ReadAt.Add(step), now.Wall)
		}
	}
	wake(m.watchers)
	return true, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
