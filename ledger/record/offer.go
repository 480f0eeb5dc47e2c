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
	line    string     // a lineage that has it: one that was seen before it was recorded
	turn    sync.Mutex // it is offered once at a time
}

// recent are the newest intents. A ledger that failed over may lack them, and no one else
// knows what was sent.
type recent struct {
	mu       sync.Mutex
	all      []*intent // oldest first
	of       map[string]*intent
	keys     map[string]*intent // the newest under each key
	bytes    int
	watching bool
	line     string     // the newest lineage that was seen
	round    sync.Mutex // one goes through them at a time, and who waits finds it done
	said     string     // of a round that left some
}

func keyOf(scope, key string) string { return scope + "\n" + key }

// lineage is the newest that was seen; "": none but that in which the ledger was opened.
func (m *recent) lineage() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line
}

func (m *recent) knows(scope, key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[keyOf(scope, key)] != nil
}

// before is the newest lineage that was seen before a begin. Under a key of which something
// is remembered, the ledger has that first: it may have lost it, and would let it be sent
// again (I3). Such a begin happens only in the lineage that has it: the ledger may fail
// over, and be adopted, before it gets there.
func (r *Recorder) before(ctx context.Context, req ledger.BeginRequest) (line, only string, err error) {
	store, ok := r.store.Store.(lineages)
	if !ok || !r.recent.knows(req.Scope, req.Key) {
		return r.recent.lineage(), "", nil
	}
	_, err = within(ctx, func(ctx context.Context) (bool, error) { return true, r.offer(ctx, store) }) // it may wait for its turn
	line = r.recent.lineage()
	if err == nil && line == "" { // a standby has answered
		err = ledger.ErrReadOnly
	}
	return line, line, err
}

// remember keeps what was begun, where the ledger may lose it. Since before that, it was in
// this lineage.
func (r *Recorder) remember(req ledger.BeginRequest, res ledger.BeginResult, line string) {
	store, ok := r.store.Store.(lineages)
	if !ok {
		return
	}
	m := &r.recent
	m.mu.Lock()
	defer m.mu.Unlock()
	i := &intent{begun: ledger.OfferOf(req, res), at: time.Now(), bytes: len(res.Operation.Input), line: line}
	if m.of == nil {
		m.of, m.keys = map[string]*intent{}, map[string]*intent{}
	}
	m.all, m.of[res.Attempt.ID], m.keys[i.key()], m.bytes = append(m.all, i), i, i, m.bytes+i.bytes
	m.shed(i.at)
	if !m.watching {
		m.watching = true
		go r.watchLineage(store)
	}
}

func (i *intent) key() string { return keyOf(i.begun.Operation.Scope, i.begun.Operation.Key) }

// shed drops what is too old, or too much.
func (m *recent) shed(now time.Time) {
	for len(m.all) > 0 && (len(m.all) > mostLately || m.bytes > mostLatelyBytes || now.Sub(m.all[0].at) > lately) {
		i := m.all[0]
		m.bytes -= i.bytes
		delete(m.of, i.begun.Attempt.ID)
		if m.keys[i.key()] == i {
			delete(m.keys, i.key())
		}
		m.all = m.all[1:]
	}
}

// rememberSettled keeps what became of an attempt, beside it. Since before that, it was in
// this lineage.
func (r *Recorder) rememberSettled(req ledger.SettleRequest, line string) {
	m := &r.recent
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.of[req.AttemptID]; i != nil {
		i.settled, i.line = &req, line
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
		_ = r.offer(context.Background(), store) // and again
	}
}

// offer has the ledger record again what it has lost of the intents, if it is in another
// database than they were recorded in. What cannot be recorded now is the error, and is
// offered again; what the ledger refuses for good is said.
func (r *Recorder) offer(ctx context.Context, store lineages) error {
	m := &r.recent
	m.round.Lock()
	defer m.round.Unlock()
	opened, now, err := store.Lineage(ctx)
	if err != nil || now == "" {
		return err
	}
	var elsewhere []*intent
	m.mu.Lock()
	m.line = now
	for _, i := range m.all {
		if i.line == "" {
			i.line = opened
		}
		if i.line != now {
			elsewhere = append(elsewhere, i)
		}
	}
	m.mu.Unlock()
	lost, refused, left := 0, error(nil), error(nil)
	for _, i := range elsewhere {
		again, err := r.offerOne(ctx, i, now)
		if again {
			lost++
		}
		if err != nil && final(err) {
			refused = errors.Join(refused, err)
		} else if err != nil {
			left = err
			if away(err) {
				break
			}
		}
	}
	if lost > 0 {
		r.log(fmt.Sprintf("the ledger failed over: %d operations that it had lost are recorded again", lost))
	}
	if refused != nil {
		r.log("the ledger failed over, and does not take all that was sent: " + refused.Error())
	}
	m.say(r, left)
	return left
}

// say tells once what keeps intents from being recorded again.
func (m *recent) say(r *Recorder, left error) {
	said := ""
	if left != nil {
		said = "the ledger failed over, and does not take yet what was sent: " + left.Error()
	}
	if said != "" && said != m.said {
		r.log(said)
	}
	m.said = said
}

// offerOne reports whether the ledger had lost an intent. The lineage has it then, or never
// takes it.
func (r *Recorder) offerOne(ctx context.Context, i *intent, line string) (lost bool, err error) {
	i.turn.Lock()
	defer i.turn.Unlock()
	m := &r.recent
	m.mu.Lock()
	settled, was := i.settled, i.line
	m.mu.Unlock()
	applied, err := ledger.Offer(ctx, r.store, i.begun)
	lost = err == nil && !applied.Noop
	if o := applied.After; lost && !o.KeyLive {
		r.log(fmt.Sprintf("%s (%s) was sent before the ledger failed over, and may have been sent once more since: see indoubt show %s", o.Kind, o.Key, o.ID))
	}
	if err == nil && settled != nil {
		_, err = ledger.Settle(ctx, r.store, *settled)
	}
	if err != nil {
		err = fmt.Errorf("attempt %s of %s (%s): %w", i.begun.Attempt.ID, i.begun.Operation.Kind, i.begun.Operation.Key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i.settled == settled && i.line == was && (err == nil || final(err)) {
		i.line = line
	}
	return lost, err
}

// away reports whether the ledger could not be asked, so that the same may be recorded later.
func away(err error) bool {
	return errors.Is(err, ledger.ErrLost) || errors.Is(err, ledger.ErrBusy) || errors.Is(err, ledger.ErrUnknown) || errors.Is(err, ledger.ErrMoving)
}

// final reports whether the ledger will never take it.
func final(err error) bool {
	return errors.Is(err, ledger.ErrMoved) || errors.Is(err, ledger.ErrGuard) || errors.Is(err, ledger.ErrNotFound)
}

// found makes a change again that found no such attempt, once the ledger has recorded again
// what it has lost of it. Where it does not do so yet, that is the error: what is known of
// the attempt is given up only where the ledger never takes it.
func (r *Recorder) found(ctx context.Context, attemptID string, err error, again func() error) error {
	r.recent.mu.Lock()
	i, line := r.recent.of[attemptID], r.recent.line
	r.recent.mu.Unlock()
	if i == nil || !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	switch _, failed := r.offerOne(ctx, i, line); {
	case failed == nil:
		return again()
	case !final(failed):
		return failed
	}
	return err
}
