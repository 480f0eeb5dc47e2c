package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// session is one transaction on a connection of the pool. Statements wait in a queue
// until an answer is needed; then all of them travel together, the beginning of the
// transaction, too.
type session struct {
	ctx    context.Context
	store  *handle
	pooled *pgxpool.Conn // nil before anything is sent, and where it is sent with others
	link   *link
	used   bool   // the connection has a transaction of its last user
	begin  string // how the transaction begins, until it has
	whole  bool   // it travels in one go, which the server takes for one transaction
	alone  bool   // it travels with no other
	token  int64  // whose lock it holds; 0 for one that only reads
	guesses
	*parcel
	ahead  map[string]*result
	moment ledger.Moment
	wrote  bool   // anything
	loud   bool   // something that watchers should look at
	change string // by which the history knows it, if it does
	err    error  // what ended it
}

// guesses are what a session guesses.
type guesses struct {
	mayGuess bool
	guessed  bool
	key      string // that is guessed to be new
	opens    opens
	moreArgs []any   // of its first statement
	ties     []tie   // of statements to come
	held     written // that writes the operation, until it is known what comes with it
	heldArgs []any
	written  *result // of that statement: the transaction's number comes last
	opened   bool    // by that statement
	kept     []*memo
}

var _ tables.Tx = (*session)(nil)

const (
	beginRead  = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
	beginWrite = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`
)

// session makes a transaction. It takes a connection when something is sent.
func (s *handle) session(ctx context.Context, begin string, token int64) *session {
	return &session{ctx: ctx, store: s, begin: begin, token: token, parcel: parcels.Get().(*parcel)}
}

// over gives back the memory of what was sent. The session is not used any more.
func (s *session) over() {
	s.parcel.again()
	s.parcel = nil
}

// connect takes a connection.
func (s *session) connect() error {
	if s.pooled != nil || s.err != nil {
		return s.err
	}
	if s.pooled, s.err = s.store.acquire(s.ctx); s.err == nil {
		s.link = linkOf(s.store, s.pooled.Conn().PgConn(), !s.store.plain.Load())
		s.used = s.link.conn.TxStatus() != 'I'
	}
	return s.err
}

// add queues a statement.
func (s *session) add(query string, args []any, answer *result) error {
	w := written{query: query}
	if len(s.ties) > 0 && answer == nil {
		w.tie, args = s.tie(query, args)
	}
	switch {
	case w.tie != "" && s.written == nil:
		s.written, s.held, s.heldArgs = &result{}, w, args
		return nil
	case s.held.query == "":
	case answer == nil && writesAttempt(query):
		return s.sendHeld(w, args)
	default:
		if err := s.sendHeld(written{}, nil); err != nil {
			return err
		}
	}
	return s.send(w.text(), args, answer)
}

func writesAttempt(query string) bool {
	return strings.HasPrefix(query, "INSERT INTO attempts") || strings.HasPrefix(query, "UPDATE attempts")
}

func (s *session) send(t text, args []any, answer *result) error {
	if s.err != nil {
		return s.store.Translate(s.err)
	}
	values, err := t.bind(s.parcel, args)
	if err != nil {
		return fmt.Errorf("%w in %s", err, t.query)
	}
	s.queue = append(s.queue, statement{query: t.query, args: values, answer: answer})
	return nil
}

// flush sends what is queued.
func (s *session) flush() error {
	if s.err != nil {
		return s.store.Translate(s.err)
	}
	if s.connect() != nil {
		return s.store.Translate(s.err)
	}
	statements, first, err := s.statements()
	if err != nil || len(statements) == 0 {
		return err
	}
	steady := s.store.steady() // no later than the server's reading
	if s.err = s.link.exchange(s.ctx, s.anew(statements)); s.err != nil {
		return s.store.Translate(s.err)
	}
	if first == nil || s.opened && len(first.values) == 0 { // it guessed wrong
		return nil
	}
	var moment ledger.Moment
	if moment, s.err = s.store.told(first, steady); s.err == nil && !s.guessed {
		s.moment = moment
	}
	return s.err
}

// statements are what is to be sent now, and the answer that tells the time, if one does.
func (s *session) statements() (statements []statement, first *result, err error) {
	if s.held.query != "" {
		if err := s.sendHeld(written{}, nil); err != nil {
			return nil, nil, err
		}
	}
	statements = s.queue
	if s.begin != "" {
		statements = make([]statement, 0, 2+len(s.queue))
		if !s.whole {
			statements = append(statements, statement{query: s.begin})
		}
		if first = s.written; !s.opened {
			first = &result{}
			opening, err := s.opening(first)
			if err != nil {
				return nil, nil, err
			}
			statements = append(statements, opening)
		}
		statements, s.begin = append(statements, s.queue...), ""
	}
	s.queue = s.queue[:0]
	return statements, first, nil
}

// anew has statements follow the end of what the last user of the connection has left.
func (s *session) anew(statements []statement) []statement {
	if s.used {
		statements, s.used = append([]statement{{query: "ROLLBACK"}}, statements...), false
	}
	return statements
}

// told is the time as the server told it, which is remembered.
func (s *handle) told(answer *result, steady ledger.Steady) (moment ledger.Moment, err error) {
	var ms int64
	if !answer.Next() {
		return moment, errors.New("the server does not tell the time")
	}
	if err := assign(&ms, answer.values[0]); err != nil {
		return moment, err
	}
	moment = s.at(ms, steady)
	s.memory.tells(moment, s.steady())
	return moment, nil
}

// Query asks one thing, with all that is queued before it.
func (s *session) Query(query string, args ...any) (tables.Rows, error) {
	r, err := s.query(query, args)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *session) query(query string, args []any) (*result, error) {
	if s.err != nil {
		return nil, s.store.Translate(s.err)
	}
	if len(s.ahead) > 0 {
		key, err := askKey(query, args)
		if err != nil {
			return nil, err
		}
		if r := s.ahead[key]; r != nil {
			delete(s.ahead, key)
			return r, s.flush()
		}
	}
	r := &result{}
	if err := s.add(query, args, r); err != nil {
		return nil, err
	}
	return r, s.flush()
}

// Ahead queues queries whose answers are taken later.
func (s *session) Ahead(asks ...tables.Ask) {
	for _, a := range asks {
		key, err := askKey(a.Query, a.Args)
		r := &result{}
		if err == nil {
			err = s.add(a.Query, a.Args, r)
		}
		if err != nil {
			s.err = errors.Join(s.err, err)
			return
		}
		if s.ahead == nil {
			s.ahead = map[string]*result{}
		}
		s.ahead[key] = r
	}
}

// askKey is the same for the same question.
func askKey(query string, args []any) (string, error) {
	values, err := numbered(query).bind(&parcel{}, args)
	if err != nil {
		return "", err
	}
	var key strings.Builder
	key.WriteString(query)
	for _, v := range values {
		fmt.Fprintf(&key, "\x00%d\x00", len(v))
		key.Write(v)
		if v == nil {
			key.WriteByte(0)
		}
	}
	return key.String(), nil
}

// Moment is the ledger's clock at the beginning of the transaction.
func (s *session) Moment() ledger.Moment {
	if s.store.clock != nil {
		return s.store.clock()
	}
	if s.moment.Wall.IsZero() {
		_ = s.flush() // the next statement fails with the same error
	}
	return s.moment
}

// writes notes a write. What was asked before it serves no query after it.
func (s *session) writes(loud bool) {
	s.wrote, s.loud = true, s.loud || loud
	clear(s.ahead)
}

// Exec writes, and waits for how many rows have changed.
func (s *session) Exec(query string, args ...any) (int64, error) {
	s.writes(true)
	r, err := s.query(query, args)
	if err != nil {
		return 0, err
	}
	return r.tag.RowsAffected(), nil
}

// Later writes with what is sent next.
func (s *session) Later(query string, args ...any) error {
	s.writes(true)
	return s.add(query, args, nil)
}

// Quietly is Later for what watchers need not look at.
func (s *session) Quietly(query string, args ...any) error {
	s.writes(false)
	return s.add(query, args, nil)
}

// Must is Later: a row that has another version fails the transaction.
func (s *session) Must(query string, args ...any) error { return s.Later(query, args...) }

const nameKey = `hashtextextended(?, 0)`

// Lock takes the names, in one order for all.
func (s *session) Lock(names ...string) error {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := s.add(`SELECT pg_advisory_xact_lock(`+nameKey+`)`, []any{name}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Share takes the name together with others that share it.
func (s *session) Share(name string) error {
	return s.add(`SELECT pg_advisory_xact_lock_shared(`+nameKey+`)`, []any{name}, nil)
}

// LockOperation locks the row of an operation, and with others the name of its target.
func (s *session) LockOperation(others bool, id string, args ...any) error {
	err := s.add(`SELECT 1 FROM indoubt.operations WHERE id = (`+id+`) FOR UPDATE`, args, nil)
	if err != nil || !others {
		return err
	}
	return s.add(`SELECT pg_advisory_xact_lock(hashtextextended('target:' || o.target, 0)) FROM indoubt.operations o
		 WHERE o.id = (`+id+`) AND o.target <> ''`, args, nil)
}

// LockOperations locks the rows of operations.
func (s *session) LockOperations(ids string) error {
	return s.add(`SELECT 1 FROM indoubt.operations WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id FOR UPDATE`, []any{ids}, nil)
}

// Known names the change by which the history shows that this transaction is durable.
func (s *session) Known(changeID string) { s.change = changeID }

// Lets leaves it to the guards, which do not know for how long a key is remembered.
func (s *session) Lets(c ledger.Change) error {
	s.alone = s.alone || c.Then != nil // what it sets holds for all of a transaction
	switch {
	case c.Then != nil:
		return s.add(`SELECT set_config('indoubt.sent', 'on', true)`, nil, nil)
	case c.Remembers > 0:
		return s.add(`SELECT indoubt.at_home(?)`, []any{c.Remembers.Milliseconds()}, nil)
	}
	return nil
}

// commit makes the transaction durable, or returns the error that has undone it, or
// lostCommit.
func (s *session) commit() error {
	if s.err != nil || !s.wrote {
		s.end()
		return s.err
	}
	if len(s.ties) > 0 { // it writes something else than was guessed
		s.end()
		return errAgain
	}
	if s.guessed && s.begin != "" && !s.alone && !s.plainly() {
		return s.store.lanes.ride(s)
	}
	if err := s.connect(); err != nil {
		return err
	}
	defer s.end()
	s.whole = s.begin == beginWrite && !s.plainly()
	done := &result{tag: pgconn.NewCommandTag("COMMIT")}
	if !s.whole {
		if err := s.add("COMMIT", nil, done); err != nil {
			return err
		}
	}
	s.ctx = context.WithoutCancel(s.ctx) // a commit that was sent is waited for
	s.link.warned = false
	err := s.flush()
	switch {
	case s.err == nil && err != nil:
		return err
	case s.err == nil && done.tag.String() == "COMMIT" && !s.link.warned:
		return nil
	case s.err == nil && done.tag.String() == "COMMIT":
		return &lostCommit{errBrokenOff}
	case s.err == nil:
		return fmt.Errorf("the server answered COMMIT with %s", done.tag)
	case definite(s.err):
		return s.err
	}
	return &lostCommit{s.err}
}

// errBrokenOff: the wait for a standby was broken off. It is committed here only.
var errBrokenOff = errors.New("the server warns that a standby may not have it")

// lostCommit: COMMIT may have been sent, and its answer did not come.
type lostCommit struct{ err error }

func (e *lostCommit) Error() string { return e.err.Error() }
func (e *lostCommit) Unwrap() error { return e.err }

// definite reports whether the server has said that it undid the transaction. One that
// ends a session says nothing of the kind.
func definite(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.SeverityUnlocalized == "ERROR"
}

// linger is how long a connection waits for its next user before the transaction on it
// is ended: the end of it then travels with what that one asks.
const linger = 5 * time.Millisecond

// end gives the connection back, without what was not committed. No one waits for it.
func (s *session) end() {
	pool := s.store.pool.Load()
	switch {
	case s.pooled == nil:
		return
	case s.link.conn.IsClosed() || s.link.conn.TxStatus() == 'I':
		s.pooled.Release()
		return
	case (s.token == 0 || s.link.conn.TxStatus() == 'E') && pool.Stat().AcquiredConns() < pool.Stat().MaxConns() && s.store.background.join(): // else one may wait for it, or for its locks
		select {
		case s.store.spare <- s.pooled:
			time.AfterFunc(linger, func() {
				defer s.store.background.leave()
				s.store.tidy()
			})
			return
		default:
			s.store.background.leave()
		}
	}
	s.store.rollback(s.pooled)
}

// tidy ends the transaction on a connection that no one has taken.
func (s *handle) tidy() {
	select {
	case pooled := <-s.spare:
		s.rollback(pooled)
	default:
	}
}

// rollback ends a transaction and gives its connection back.
func (s *handle) rollback(pooled *pgxpool.Conn) {
	if !s.background.work(func() {
		defer pooled.Release()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = linkOf(s, pooled.Conn().PgConn(), false).exchange(ctx, []statement{{query: "ROLLBACK"}}) // else the pool closes the connection
	}) {
		pooled.Release() // which closes it
	}
}
