package record

import (
	"sync"

	"indoubt/ledger"
)

// mostSent bounds the attempts that a long-lived recorder remembers and that are never
// settled, and mostSentBytes their inputs.
const (
	mostSent      = 10_000
	mostSentBytes = 64 << 20
)

// remembered are the attempts that were begun here and are not settled for good. A ledger
// that failed over may lack them, and no one else knows what was sent.
type remembered struct {
	mu    sync.Mutex
	all   map[string]ledger.Sent // by attempt
	bytes int
}

func (m *remembered) keep(s ledger.Sent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := len(s.Operation.Input)
	for id := range m.all {
		if len(m.all) < mostSent && m.bytes+size <= mostSentBytes {
			break
		}
		m.remove(id)
	}
	if m.all == nil {
		m.all = map[string]ledger.Sent{}
	}
	m.all[s.Attempt.ID], m.bytes = s, m.bytes+size
}

// of is the attempt as it was begun here, or one without an id.
func (m *remembered) of(attemptID string) ledger.Sent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[attemptID]
}

func (m *remembered) drop(attemptID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(attemptID)
}

func (m *remembered) remove(attemptID string) {
	m.bytes -= len(m.all[attemptID].Operation.Input)
	delete(m.all, attemptID)
}
