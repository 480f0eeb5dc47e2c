// Package postgres keeps a ledger in a PostgreSQL database, shared by the processes of
// many hosts. What is selected and written is package tables'; what the database
// refuses any writer is schema.sql's and the scripts' beside it. Here are the
// connections, the transactions and what becomes of them when a connection is lost, the
// feed of events and the news of commits.
//
// Times are the database's: its clock is the ledger's. No two writers of a ledger share
// a clock or a boot for sure, so what needs the steady clock has the host's own.
//
// What it takes, beside a loop without a ledger: go test -run '^$' -bench . ./ledger/postgres
// (BeginSettle, FourProcesses, CommitToSeen, FirstPage1M, Engine, as in package sqlite).
package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/tables"
)

// Options are how a ledger is opened. The zero Options open it for writing.
type Options struct {
	ReadOnly bool                 // refuse every write with ledger.ErrReadOnly
	Clock    ledger.Clock         // the database's when nil
	Steady   ledger.SteadyClock   // the host's when nil
	Actor    ledger.Actor         // who adopts, expires and lifts, where no other actor is given
	To       string               // what the user must be allowed: Check, Decide, or else Record
	KeyFile  string               // holds the key of the digests; who only looks needs none
	Warn     func(ledger.Trouble) // told what a change waits for, at any time; nil: no one is
}

// handle is an open ledger: how it is reached.
type handle struct {
	address  *address
	opts     Options
	pool     atomic.Pointer[pgxpool.Pool]
	plain    atomic.Bool          // no session keeps anything; see address
	clock    func() ledger.Moment // both clocks, where one was given; else nil
	steadily ledger.SteadyClock
	follow   func(context.Context, ledger.Cursor, int) ([]ledger.Event, ledger.Cursor, error)
	now      func(context.Context) (ledger.Cursor, error)
	notifier *notifier
	watching *watching
	silence  time.Duration // after which a connection is given up
	asking   time.Duration // how long the server is asked what became of a COMMIT
	polling  time.Duration // how often a watch looks by itself

	memory     memory
	succession succession
	lanes      *lanes

	spare      chan *pgxpool.Conn        // connections with a transaction that only read and is over
	lateAt     atomic.Pointer[time.Time] // when it was last said what a change waits for
	full       atomic.Bool               // the newest change found no room
	background crew                      // gives transactions up, and does what is done aside
}

// connected makes the handle. Nothing is sent yet.
func connected(a *address, o Options) (*handle, error) {
	s := &handle{address: a, opts: o, steadily: o.Steady, silence: silence, asking: asking, polling: pollEvery, spare: make(chan *pgxpool.Conn, 8)}
	if o.Clock != nil {
		s.clock = hostclock.Of(o.Clock, o.Steady)
	}
	if s.steadily == nil {
		s.steadily = hostclock.Steady
	}
	s.plain.Store(a.plain)
	s.succession.news = func() { s.pool.Load().Reset() } // connections to a server that was left may be open
	a.succeeds(&s.succession)
	if err := s.repool(); err != nil {
		return nil, err
	}
	s.lanes = newLanes(int(s.pool.Load().Config().MaxConns))
	s.notifier, s.watching = newNotifier(s), newWatching(s)
	s.follow, s.now = s.Follow, func(ctx context.Context) (ledger.Cursor, error) {
		at, err := s.here(ctx)
		return at.cursor(), err
	}
	return s, nil
}

func (s *handle) repool() error {
	config := s.address.config.Copy()
	config.ConnConfig.OnNotice = notice
	config.AfterConnect = func(_ context.Context, c *pgx.Conn) error {
		c.TypeMap().RegisterType(&pgtype.Type{Name: "json", OID: pgtype.JSONOID, Codec: pgtype.TextCodec{}})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return s.Translate(err)
	}
	if old := s.pool.Swap(pool); old != nil {
		go old.Close()
	}
	return nil
}

// close waits for what is being given up.
func (s *handle) close() {
	s.notifier.close()
	s.watching.close()
	s.background.end()
	for len(s.spare) > 0 {
		s.tidy()
	}
	closed := make(chan struct{})
	go func() {
		s.pool.Load().Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Second): // the driver waits much longer for the answer of a dead connection
	}
}

// steady is the steady clock, in the precision that the ledger keeps.
func (s *handle) steady() ledger.Steady {
	now := s.steadily()
	now.At = now.At.Truncate(time.Millisecond)
	return now
}

func (s *handle) at(ms int64, steady ledger.Steady) ledger.Moment {
	return ledger.Moment{Wall: time.UnixMilli(ms).UTC(), Steady: steady}
}

// acquire takes a connection of the pool, or makes one. A pooler that refuses the
// settings of a session gets none from now on.
func (s *handle) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	select {
	case conn := <-s.spare:
		return conn, nil
	default:
	}
	for {
		conn, err := s.pool.Load().Acquire(ctx)
		var said *pgconn.PgError
		switch {
		case err == nil:
			return conn, nil
		case errors.As(err, &said) && said.Code == codeProtocol && s.plain.CompareAndSwap(false, true):
			for _, set := range slices.Concat(settings, plans) {
				delete(s.address.config.ConnConfig.RuntimeParams, set.name)
			}
			if err := s.repool(); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// View reads one state of the ledger.
func (s *handle) View(ctx context.Context, read func(tables.Querier) error) error {
	return s.again(ctx, func() error {
		t := s.session(ctx, beginRead, 0)
		defer t.over()
		defer t.end()
		return first(t, read(t))
	})
}

// Brief is View.
func (s *handle) Brief(ctx context.Context, read func(tables.Querier) error) error {
	return s.View(ctx, read)
}

// Query runs one query by itself, in one round trip.
func (s *handle) Query(ctx context.Context, query string, args ...any) (rows tables.Rows, err error) {
	err = s.again(ctx, func() error {
		t := s.session(ctx, "", 0)
		defer t.over()
		defer t.end()
		if err := t.connect(); err != nil {
			return err
		}
		if t.plainly() { // the transaction makes the settings
			t.begin = beginRead
		}
		answer := &result{}
		rows = answer
		if err := t.add(query, args, answer); err != nil {
			return err
		}
		if t.plainly() {
			t.queue = append(t.queue, statement{query: "COMMIT"})
		}
		return first(t, t.flush())
	})
	return rows, err
}

// Moment is the ledger's clock.
func (s *handle) Moment(ctx context.Context) (now ledger.Moment, err error) {
	if s.clock != nil {
		return s.clock(), nil
	}
	err = s.View(ctx, func(q tables.Querier) error {
		now = q.Moment()
		return q.(*session).err
	})
	return now, err
}

// Writable is why nothing can be written here, or nil.
func (s *handle) Writable() error {
	if s.opts.ReadOnly {
		return ledger.ErrReadOnly
	}
	return nil
}

// Update makes one durable transaction. It is made again where another one was in its
// way, where its connection was lost before COMMIT, and where COMMIT was lost with its
// connection and has not happened. Error: Unknown where that cannot be learned.
func (s *handle) Update(ctx context.Context, change func(tables.Tx) error) error {
	if err := s.Writable(); err != nil {
		return err
	}
	guess, doubted := true, false
	err := s.again(ctx, func() error {
		leave, err := s.lanes.enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		token := rand.Int64() | 1
		t := s.session(ctx, beginWrite, token)
		defer t.over()
		t.mayGuess, guess = guess, false
		if err = first(t, change(t)); err != nil {
			t.end()
		} else {
			err = t.commit()
		}
		lost := (*lostCommit)(nil)
		switch {
		case errors.As(err, &lost):
			doubted, err = true, s.resolve(ctx, lost, token, t.change)
		case doubted && definite(err) && s.resolve(ctx, &lostCommit{err}, token, t.change) == nil:
			err = errAgain // the server began late with what was sent on the lost connection
		}
		if said := (*pgconn.PgError)(nil); t.guessed && errors.As(err, &said) {
			switch {
			case said.Code == codeUnique:
				err = errAgain // the change is in the history already
			case said.Code == codeDivision && t.key != "":
				s.memory.holds(t.key)
			}
		}
		if err == nil && !t.guessedRight() {
			err = errAgain
		}
		if err == nil {
			t.remember()
		}
		if err == nil && t.loud {
			s.notifier.notify()
		}
		return err
	})
	if errors.Is(err, ledger.ErrFailover) {
		s.note()
	}
	if full := errors.Is(err, ledger.ErrFull); full || err == nil {
		s.full.Store(full)
	}
	return err
}

// first prefers what ended the transaction to what the function made of it.
func first(t *session, err error) error {
	if t.err != nil {
		return t.err
	}
	return err
}

// UpdateAll makes several transactions, a few at a time.
func (s *handle) UpdateAll(ctx context.Context, changes []func(tables.Tx) error) []error {
	errs := make([]error, len(changes))
	turns := make(chan struct{}, max(1, s.pool.Load().Config().MaxConns/2))
	var all sync.WaitGroup
	for i, change := range changes {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			errs[i] = s.Update(ctx, change)
		})
	}
	all.Wait()
	return errs
}

// patience is how long a transaction is made again, and reconnects how often where its
// connection is lost: a server or a pooler that ends many takes its time, and ends new ones.
const (
	patience   = 10 * time.Second
	reconnects = 6
)

// again makes a transaction until it has happened or there is no use in it.
func (s *handle) again(ctx context.Context, once func() error) error {
	began := time.Now()
	for try := 0; ; try++ {
		err := once()
		late := try > 0 && time.Since(began) > patience // the first try may have been a guess, and have waited for long
		if err == nil || late || !s.worth(err, try) {
			return s.Translate(err)
		}
		wait := time.Millisecond << min(try, 8)
		if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.Code == codeConnections {
			wait = 50 * time.Millisecond << min(try, 4) // each try costs the server a process
		}
		nap := time.NewTimer(rand.N(wait))
		select {
		case <-nap.C:
		case <-ctx.Done():
			nap.Stop()
			return ctx.Err()
		}
	}
}

// worth reports whether making a transaction again may help.
func (s *handle) worth(err error, try int) bool {
	if errors.Is(err, errAgain) || errors.Is(err, tables.ErrRaced) {
		return true
	}
	var said *pgconn.PgError
	if errors.As(err, &said) {
		switch said.Code {
		case codeSerialization, codeDeadlock, codeLockTimeout, codeDivision, codeConnections:
			return true
		case codeNoStatement, codeTwoStatements:
			s.plain.Store(true) // sessions are shared with others
			s.pool.Load().Reset()
			return try < 3
		case codeFeature: // a table was altered, and a plan is of the old one
			s.pool.Load().Reset()
			return try < 3 && said.Routine == "RevalidateCachedQuery"
		}
	}
	// Others that were idle when the server went are dead, too.
	if !connecting(err) && !errors.Is(err, context.Canceled) && (broken(err) || said != nil && ended(said)) {
		s.pool.Load().Reset()
		return try < reconnects
	}
	return false
}

// errAgain: nothing has happened, and another try may succeed.
var errAgain = errors.New("the transaction was not committed")
