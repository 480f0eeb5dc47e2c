// Package postgres keeps a ledger in a PostgreSQL database, shared by the processes of
// many hosts. What is selected and written is that of package store, and what the database
// refuses any writer is its ledger.sql. Here are the connections, the transactions and what
// becomes of them when a connection is lost, where a ledger is at home, the feed of events
// and the news of commits.
//
// Times are the database's: its clock is the ledger's. No two writers of a ledger share
// a clock or a boot for sure, so what needs the steady clock has the host's own.
//
// What it takes, beside a loop without a ledger: go test -run '^$' -bench . ./ledger/postgres
// (BeginSettle, CommitToSeen, FirstPage1M, Engine, as in package sqlite; -tags soak).
package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/store"
)

// Options are how a ledger is opened.
type Options = store.Options

// handle is an open ledger: how it is reached.
type handle struct {
	address  *address
	opts     Options
	pool     atomic.Pointer[pgxpool.Pool]
	plain    atomic.Bool          // no session keeps anything; see address
	clock    func() ledger.Moment // both clocks, where one was given; else nil
	steadily ledger.SteadyClock
	store    *Store // what is asked of it
	notifier *notifier
	watching *watching
	silence  time.Duration // after which a connection is given up
	asking   time.Duration // how long the server is asked what became of a COMMIT
	polling  time.Duration // how often a watch looks by itself

	succession succession

	full       atomic.Bool // the newest change found no room
	background crew        // gives transactions up, and does what is done aside
}

// connected makes the handle. Nothing is sent yet.
func connected(a *address, o Options) (*handle, error) {
	s := &handle{address: a, opts: o, steadily: o.Steady, silence: silence, asking: asking, polling: pollEvery}
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
	s.notifier, s.watching = newNotifier(s), newWatching(s)
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
	for {
		conn, err := s.pool.Load().Acquire(ctx)
		var said *pgconn.PgError
		switch {
		case err == nil:
			return conn, nil
		case errors.As(err, &said) && said.Code == codeProtocol && s.plain.CompareAndSwap(false, true):
			s.address.shared()
			if err := s.repool(); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// Writable is why nothing can be written here, or nil.
func (s *handle) Writable() error {
	if s.opts.ReadOnly {
		return ledger.ErrReadOnly
	}
	return nil
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
		late := try > 0 && time.Since(began) > patience
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
	if errors.Is(err, errAgain) {
		return true
	}
	var said *pgconn.PgError
	if errors.As(err, &said) {
		switch said.Code {
		case codeSerialization, codeDeadlock, codeLockTimeout, codeConnections:
			return true
		case codeNoStatement, codeTwoStatements:
			s.plain.Store(true) // sessions are shared with others
			s.address.shared()
			return s.repool() == nil && try < 3
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
