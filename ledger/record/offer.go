package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	// lately is how long a recorder remembers what it began: a failover is noticed
	// within that time.
	lately = 15 * time.Minute
	// mostLately bounds what is remembered, the newest first, and mostLatelyBytes its
	// inputs and results.
	mostLately      = 20_000
	mostLatelyBytes = 64 << 20
)

// lineageEvery is how often a recorder that remembers something asks whether the ledger
// failed over.
var lineageEvery = 2 * time.Second

// lineages is a store whose database may be replaced by one that lacks its newest writes.
type lineages interface {
	// Lineage names the database in which the ledger was opened, and the one it is in now;
	// "" where that cannot be written.
	Lineage(ctx context.Context) (opened, now string, err error)
}

// intent is one attempt that was begun here, and what became of it.
type intent struct {
	begun   ledger.OfferRequest
	settled *ledger.SettleRequest
	at      time.Time
	bytes   int
}

// recent are the newest intents. A ledger that failed over may lack them, and no one else
// knows what was sent.
type recent struct {
	mu       sync.Mutex
	all      []*intent // oldest first
	of       map[string]*intent
	bytes    int
	watching bool
	line     string // the lineage that has all of them
}

// remember keeps what was begun, where the ledger may lose it.
func (r *Recorder) remember(req ledger.BeginRequest, res ledger.BeginResult) {
	store, ok := r.store.(lineages)
	if !ok {
		return
	}
	a := res.Attempt
	a.OperationID, a.Actor = res.Operation.ID, req.Actor.Name
	m := &r.recent
	m.mu.Lock()
	defer m.mu.Unlock()
	i := &intent{begun: ledger.OfferRequest{ChangeID: req.ChangeID, Operation: res.Operation, Attempt: a, Marks: req.Marks.Values, Actor: req.Actor},
		at: time.Now(), bytes: len(res.Operation.Input)}
	if m.of == nil {
		m.of = map[string]*intent{}
	}
	m.all, m.of[a.ID], m.bytes = append(m.all, i), i, m.bytes+i.bytes
	m.shed(i.at)
	if !m.watching {
		m.watching = true
		go r.watchLineage(store)
	}
}

// shed drops what is too old, or too much.
func (m *recent) shed(now time.Time) {
	for len(m.all) > 0 && (len(m.all) > mostLately || m.bytes > mostLatelyBytes || now.Sub(m.all[0].at) > lately) {
		m.bytes -= m.all[0].bytes
		delete(m.of, m.all[0].begun.Attempt.ID)
		m.all = m.all[1:]
	}
}

// rememberSettled keeps what became of an attempt, beside it.
func (r *Recorder) rememberSettled(req ledger.SettleRequest) {
	m := &r.recent
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.of[req.AttemptID]; i != nil {
		i.settled = &req
		i.bytes, m.bytes = i.bytes+len(req.Result), m.bytes+len(req.Result)
	}
}

// watchLineage offers again what is remembered when the ledger is in another database,
// until nothing is remembered.
func (r *Recorder) watchLineage(store lineages) {
	m := &r.recent
	for {
		time.Sleep(lineageEvery)
		m.mu.Lock()
		m.shed(time.Now())
		if len(m.all) == 0 {
			m.watching = false
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		r.offer(context.Background(), store)
	}
}

// offer has the ledger record again what it has lost of the intents, if it is in another
// database than they were recorded in. What cannot be recorded now is offered again.
func (r *Recorder) offer(ctx context.Context, store lineages) {
	opened, now, err := store.Lineage(ctx)
	m := &r.recent
	m.mu.Lock()
	if m.line == "" {
		m.line = opened
	}
	same := now == "" || now == m.line
	all := append([]*intent(nil), m.all...)
	m.mu.Unlock()
	if err != nil || same {
		return
	}
	lost, failed := 0, error(nil)
	for _, i := range all {
		again, err := r.offerOne(ctx, i)
		if again {
			lost++
		}
		if away(err) {
			return
		}
		failed = errors.Join(failed, err)
	}
	m.mu.Lock()
	m.line = now
	m.mu.Unlock()
	if lost > 0 {
		r.log(fmt.Sprintf("the ledger failed over: %d operations that it had lost are recorded again", lost))
	}
	if failed != nil {
		r.log("the ledger failed over, and does not take all that was sent: " + failed.Error())
	}
}

// offerOne reports whether the ledger had lost an intent.
func (r *Recorder) offerOne(ctx context.Context, i *intent) (lost bool, err error) {
	applied, err := ledger.Offer(ctx, r.store, i.begun)
	if err != nil {
		return false, fmt.Errorf("attempt %s of %s (%s): %w", i.begun.Attempt.ID, i.begun.Operation.Kind, i.begun.Operation.Key, err)
	}
	r.recent.mu.Lock()
	settled := i.settled
	r.recent.mu.Unlock()
	if settled != nil {
		_, err = ledger.Settle(ctx, r.store, *settled)
	}
	return !applied.Noop, err
}

// away reports whether the ledger could not be asked, so that the same may be recorded later.
func away(err error) bool {
	return errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrBusy) || errors.Is(err, ledger.ErrUnknown)
}

// found makes a change again that found no such attempt, once the ledger has recorded again
// what it has lost of it. Where it cannot be asked to, that is the error: what is known of
// the attempt is not given up.
func (r *Recorder) found(ctx context.Context, attemptID string, err error, again func() error) error {
	r.recent.mu.Lock()
	i := r.recent.of[attemptID]
	r.recent.mu.Unlock()
	if i == nil || !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	switch _, failed := r.offerOne(ctx, i); {
	case failed == nil:
		return again()
	case away(failed):
		return failed
	}
	return err
}
