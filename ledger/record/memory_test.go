package record

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
)

// memory is a store in memory, as far as recording needs one: it applies rules
// under one lock and keeps which operation holds which key.
type memory struct {
	ledger.Store // what recording does not use

	mu       sync.Mutex
	clock    ledger.Clock
	records  map[string]*ledger.Record
	keys     map[ledger.Locator]string
	attempts map[string]string // attempt → operation
	changes  map[string]string // change → operation
	prices   []ledger.Pricing
	bells    []chan struct{}
	fail     error // what every change answers when set
	failed   int   // changes that were refused so
}

func newMemory(clock ledger.Clock) *memory {
	if clock == nil {
		clock = time.Now
	}
	return &memory{clock: clock, records: map[string]*ledger.Record{}, keys: map[ledger.Locator]string{}, attempts: map[string]string{}, changes: map[string]string{}}
}

func (m *memory) find(at ledger.Locator) *ledger.Record {
	switch {
	case at.ID != "":
		return m.records[at.ID]
	case at.AttemptID != "":
		return m.records[m.attempts[at.AttemptID]]
	}
	if at.Kind == "" {
		for held, id := range m.keys {
			if held.Scope == at.Scope && held.Key == at.Key {
				return m.records[id]
			}
		}
	}
	return m.records[m.keys[ledger.Locator{Kind: at.Kind, Scope: at.Scope, Key: at.Key}]]
}

func (m *memory) Keyed(_ context.Context, key string, _ int) (ids []string, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for held, id := range m.keys {
		if held.Key == key {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (m *memory) Records(_ context.Context, ids []string) (out []ledger.Record, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		out = append(out, *m.records[id])
	}
	return out, nil
}

func (m *memory) Change(_ context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		m.failed++
		return ledger.Applied{}, m.fail
	}
	rec := ledger.Record{Now: m.clock()}
	if found := m.find(at); found != nil {
		rec = *found
		rec.Found, rec.Now = true, m.clock()
	}
	if id, known := m.changes[changeID]; known {
		return ledger.Applied{After: m.records[id].Operation, Noop: true}, nil
	}
	before := rec.Operation
	c, err := rule(&rec)
	if err != nil || c.Operation == nil {
		return ledger.Applied{Before: before, After: before, Noop: true}, err
	}
	if c.Insert {
		rec = ledger.Record{Found: true}
		m.keys[ledger.Locator{Kind: c.Operation.Kind, Scope: c.Operation.Scope, Key: c.Operation.Key}] = c.Operation.ID
	}
	rec.Operation, rec.Attempts = *c.Operation, slices.Clone(rec.Attempts) // a reader may hold what was there
	applied := ledger.Applied{Before: before, After: rec.Operation}
	for _, a := range c.Attempts {
		applied.Attempt = a
		m.attempts[a.ID] = rec.Operation.ID
		replaced := false
		for i := range rec.Attempts {
			if rec.Attempts[i].ID == a.ID {
				rec.Attempts[i], replaced = a, true
			}
		}
		if !replaced {
			rec.Attempts = append(rec.Attempts, a)
		}
	}
	m.records[rec.Operation.ID] = &rec
	if c.Pricing != nil {
		m.prices = append(m.prices, *c.Pricing)
	}
	if c.Event != nil {
		m.changes[changeID] = rec.Operation.ID
	}
	for _, bell := range m.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
	return applied, nil
}

func (m *memory) Read(_ context.Context, at ledger.Locator) (ledger.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.find(at)
	if found == nil {
		return ledger.Record{}, ledger.ErrNotFound
	}
	rec := *found
	rec.Found, rec.Now = true, m.clock()
	return rec, nil
}

func (m *memory) Info(context.Context) (ledger.Info, error) { return ledger.Info{}, nil }

func (m *memory) Watch(ctx context.Context) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	bell := make(chan struct{}, 1)
	m.bells = append(m.bells, bell)
	return bell
}

// broken makes every further change fail.
func (m *memory) broken(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

var errDisk = errors.New("disk I/O error")

// hands is a clock that moves when it is told to.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func newHands() *hands { return &hands{now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)} }

func (h *hands) read() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}
