package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// A change mostly finds what its process can tell without asking: a key that is new, or
// an attempt as this process began it. It then travels in one round trip, and what it
// writes depends on the guess: where that is wrong the statement divides by zero, or finds
// no row. Nothing has happened, and the change is made again from what is read.

// memory is what a process can guess with.
type memory struct {
	mu      sync.Mutex
	begun   map[string]*memo // by the attempt in flight
	held    map[string]bool  // keys that were not new when that was guessed
	moment  ledger.Moment    // of the server's clock, and the steady clock before it was asked
	read    ledger.Steady    // the steady clock after that
	reading bool             // there is a moment
}

// memo is a record as a transaction has left it.
type memo struct {
	record *tables.Record
	xid    string // that transaction, which its rows show until they are changed
}

// mostBegun is how many are remembered, freshest how old a reading of the clock may be
// that is carried on, and tolerance how far the server may find a guess of it behind.
const (
	mostBegun = 4096
	freshest  = time.Minute
	tolerance = time.Second
)

// tells takes in what the server's clock showed, between two readings of the steady one.
// Where the answer has waited for a lock it tells too little: what is known already stays.
func (m *memory) tells(moment ledger.Moment, read ledger.Steady) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reading && moment.Steady.Boot == read.Boot && read.At-moment.Steady.At > tolerance/2 {
		return
	}
	m.moment, m.read, m.reading = moment, read, moment.Steady.Boot == read.Boot
}

// now is the server's clock, carried on by the steady one: what was lost in the rounding of
// both, it is ahead at most. The steady clock is read after what others have told.
func (m *memory) now(clock func() ledger.Steady) (now ledger.Moment, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	steady := clock()
	since := steady.At - m.read.At
	if !m.reading || steady.Boot != m.read.Boot || since < 0 || since > freshest {
		return now, false
	}
	now = m.moment
	now.Wall, now.Steady.At = now.Wall.Add(since), now.Steady.At+since
	return now, true
}

// holds keeps a key that is not guessed to be new again.
func (m *memory) holds(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil || len(m.held) > mostBegun {
		m.held = map[string]bool{}
	}
	m.held[key] = true
}

func (m *memory) isHeld(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[key]
}

func (m *memory) keep(memos []*memo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun == nil || len(m.begun) > mostBegun {
		m.begun = map[string]*memo{}
	}
	for _, k := range memos {
		m.begun[k.record.Operation.LiveAttempt] = k
	}
}

// take gives what is remembered of an attempt once, or nil.
func (m *memory) take(id string) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.begun[id]
	delete(m.begun, id)
	return k
}

// tie has a statement depend on what was guessed.
type tie struct {
	to    string // how the statement begins
	where string // what must hold: 1, or a division by zero
	args  []any
}

// guess has the transaction go on from what was guessed. It is too late once anything was
// asked.
func (s *session) guess(ties ...tie) bool {
	if s.guessed || !s.mayGuess || s.begin == "" || len(s.queue) > 0 {
		return false
	}
	moment, ok := s.store.memory.now(s.store.steady)
	if s.store.clock != nil {
		moment, ok = s.store.clock(), true
	}
	if !ok {
		return false
	}
	s.guessed, s.moment, s.ties = true, moment, ties
	if s.opens.timed = s.store.clock == nil; s.opens.timed {
		s.moreArgs = []any{moment.Wall, moment.Wall, tolerance.Milliseconds()}
	}
	return true
}

// tie finds what a statement depends on, once. The first one that depends on anything
// writes the operation.
func (s *session) tie(query string, args []any) (where string, all []any) {
	i := slices.IndexFunc(s.ties, func(t tie) bool { return strings.HasPrefix(strings.TrimSpace(query), t.to) })
	if i < 0 {
		return "", args
	}
	t := s.ties[i]
	s.ties = slices.Delete(s.ties, i, i+1)
	return t.where, append(slices.Clip(args), t.args...)
}

// sendHeld queues the statement that writes the operation, and the one that writes its attempt
// with it. It gives the transaction's number, and does what the opening of a transaction
// does where it waits for no lock of a name.
func (s *session) sendHeld(behind written, args []any) error {
	w := s.held
	w.behind, w.behindTie, w.gives = behind.query, behind.tie, xid
	args = append(slices.Clip(s.heldArgs), args...)
	if s.opened = s.opens.more == "" && !s.plainly(); s.opened {
		w.gives = openedAndXID[s.opens.timed]
		args = append(append(args, s.token), s.moreArgs...)
	}
	s.held, s.heldArgs = written{}, nil
	return s.send(w.text(), args, s.written)
}

const xid = `pg_current_xact_id()::xid`

// guessedRight reports whether a guess was, once the transaction is durable: a row that is
// not there is not written.
func (s *session) guessedRight() bool {
	return !s.guessed || !s.wrote || s.written != nil && len(s.written.values) > 0
}

// Unheard guesses that no operation has the key or stands for it, and that no hold is in
// force.
func (s *session) Unheard(at ledger.Locator) bool {
	s.key = tables.KeyName(at.Scope, at.Key)
	masked := ledger.Masked(at.Key)
	args := append([]any{at.Key, masked, at.Scope, at.Kind}, tables.GateArgs(at.Gate)...)
	if s.store.memory.isHeld(s.key) || !s.guess(tie{to: "INSERT INTO operations", where: unheard, args: args}) {
		return false
	}
	// The statements behind the first see what was committed while that waited.
	gate := s.key
	if at.Gate != "" {
		gate = tables.GateName(at.Gate)
	}
	s.opens.more = `, pg_advisory_xact_lock(` + nameKey + `), pg_advisory_xact_lock(` + nameKey + `), pg_advisory_xact_lock_shared(` + nameKey + `)`
	s.moreArgs = append([]any{s.key, gate, "holds"}, s.moreArgs...)
	return true
}

// watched: the statement that opens a transaction comes too late to have the guards look at
// what it writes.
const watched = `current_setting('session_replication_role') <> 'replica'`

const unheard = `
	1 / (` + watched + ` AND NOT EXISTS (SELECT FROM indoubt.operations WHERE key IN (?, ?) AND scope = ? AND ? IN ('', kind) AND key_live::int = 1)
	 AND NOT EXISTS (SELECT FROM indoubt.operations WHERE ` + tables.GateOpen + `)
	 AND NOT EXISTS (SELECT FROM indoubt.holds WHERE indoubt.ms(released_at) = 0))::int`

// Take guesses that an operation and its attempt are as they were left here, and that both
// are written.
func (s *session) Take(id string) (tables.Record, bool) {
	k := s.store.memory.take(id)
	if k == nil {
		return tables.Record{}, false
	}
	const asLeft = `1 / (xmin = ? AND ` + watched + `)::int`
	return *k.record, s.guess(tie{to: "UPDATE operations", where: asLeft, args: []any{k.xid}}, tie{to: "UPDATE attempts", where: asLeft, args: []any{k.xid}})
}

// Keep remembers a record with an attempt in flight, where it is known which transaction
// this is.
func (s *session) Keep(rec *tables.Record) {
	if s.guessed && rec.Operation.LiveAttempt != "" {
		s.kept = append(s.kept, &memo{record: rec})
	}
}

// remember keeps what this transaction has left, once it is durable.
func (s *session) remember() {
	if len(s.kept) == 0 {
		return
	}
	for _, k := range s.kept {
		k.xid = string(s.written.values[len(s.written.values)-1])
	}
	s.store.memory.keep(s.kept)
}
