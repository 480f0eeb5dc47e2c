package postgres

import (
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// A change mostly finds what its process can tell without asking: a key that is new, or
// an attempt as this process began it. It then travels in one round trip, behind a look
// that divides by zero where the guess is wrong: nothing has happened, and the change is
// made again from what is read.

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

// guess begins the transaction with a look for what was guessed: more of its first
// statement, and, where the lock that this takes is of no row, a statement behind it, which
// sees what was committed while it waited. The last of them ends with the transaction's
// number. It is too late once anything was asked.
func (s *session) guess(more string, args []any, look string, values ...any) bool {
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
	s.guessed, s.moment, s.moreArgs = true, moment, args
	s.opens.more, s.opens.timed = more, s.store.clock == nil
	if s.opens.timed {
		s.moreArgs = append(s.moreArgs, moment.Wall, moment.Wall, tolerance.Milliseconds())
	}
	s.xid = &result{}
	if look == "" {
		s.opens.xid = true
		return true
	}
	return s.add(look, values, s.xid) == nil
}

// Unheard guesses that no operation has the key or stands for it, and that no hold is in
// force.
func (s *session) Unheard(at ledger.Locator) bool {
	s.key = tables.KeyName(at.Scope, at.Key)
	shared := "_shared"
	if at.Makes() {
		shared = ""
	}
	return !s.store.memory.isHeld(s.key) && s.guess(`, pg_advisory_xact_lock(`+nameKey+`), pg_advisory_xact_lock`+shared+`(`+nameKey+`), pg_advisory_xact_lock_shared(`+nameKey+`)`, []any{s.key, tables.InputName(at.Like), "holds"}, `
		SELECT 1 / (NOT EXISTS (SELECT FROM indoubt.operations WHERE key IN (?1, ?4) AND scope = ?2 AND ?3 IN ('', kind) AND key_live::int = 1)
		        AND NOT EXISTS (SELECT FROM indoubt.archived WHERE key IN (?1, ?4) AND scope = ?2 AND ?3 IN ('', kind) AND key_live::int = 1)
		        AND NOT EXISTS (SELECT FROM indoubt.operations WHERE fingerprint = ?5 AND state IN ('pending', 'uncertain') AND fingerprint <> '' AND (substr(key, 1, 8) = 'content-' OR substr(key, 1, 7) = 'fields-'))
		        AND NOT EXISTS (SELECT FROM indoubt.holds WHERE indoubt.ms(released_at) = 0))::int, pg_current_xact_id()::xid`, at.Key, at.Scope, at.Kind, ledger.Masked(at.Key), at.Like)
}

// Take guesses that an operation and its attempt are as they were left here, and locks both.
func (s *session) Take(id string) (tables.Record, bool) {
	k := s.store.memory.take(id)
	if k == nil {
		return tables.Record{}, false
	}
	ok := s.guess(`, (SELECT 1 / count(*) FROM (SELECT FROM indoubt.operations o JOIN indoubt.attempts a ON a.operation_id = o.id
		WHERE o.id = ? AND o.xmin = ? AND a.id = ? AND a.xmin = ? FOR UPDATE) guessed)`, []any{k.record.Operation.ID, k.xid, id, k.xid}, "")
	return *k.record, ok
}

// Keep remembers a record with an attempt in flight, where it is known which transaction
// this is.
func (s *session) Keep(rec *tables.Record) {
	if s.guessed && rec.Operation.LiveAttempt != "" {
		s.kept = append(s.kept, &memo{record: rec})
	}
}

// Own is for who remembers more than one that began here.
func (s *session) Own(bool) {}

// remember keeps what this transaction has left, once it is durable.
func (s *session) remember() {
	if len(s.kept) == 0 || len(s.xid.values) == 0 {
		return
	}
	for _, k := range s.kept {
		k.xid = string(s.xid.values[len(s.xid.values)-1])
	}
	s.store.memory.keep(s.kept)
}
