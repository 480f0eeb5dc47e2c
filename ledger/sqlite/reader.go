package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// reader is one connection that reads everything from one state of the ledger, with its statements, each
// parsed once. It is a store.Tx.
type reader struct {
	s      *handle
	ctx    context.Context // of who has it
	conn   *store.Conn
	turn   int
	spoilt bool
}

// reading is what the readers of a handle share. Its fields are under the handle's mu.
type reading struct {
	by   string        // the name that connections are opened by; "" while nothing is open
	turn int           // goes up when what is open is closed
	open int           // connections, those that rest among them
	idle []*store.Conn // that rest
}

// wide is how many connections read at once.
const wide = 4

// keptStmts is how many statements are kept prepared, of lists at most. Filters
// are many: one for each way of putting one together.
const keptStmts = 100

// disconnectIn is how long a query may go on that runs while its ledger is closed.
const disconnectIn = 5 * time.Second

var errClosed = errors.New("the ledger is closed")

// reader takes the connection that was given back last, or a new one.
func (s *handle) reader(ctx context.Context) (*reader, error) {
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	r, by := &reader{s: s, ctx: ctx, turn: s.read.turn}, s.read.by
	if n := len(s.read.idle); n > 0 {
		r.conn, s.read.idle = s.read.idle[n-1], s.read.idle[:n-1]
	} else if by != "" {
		s.read.open++
	}
	s.mu.Unlock()
	if r.conn != nil {
		return r, nil
	}
	err := errClosed
	if by != "" {
		if r.conn, err = store.Dial(by, keptStmts); err == nil {
			return r, nil
		}
		s.closed(1)
	}
	<-s.readers
	return nil, translate(s.path, err)
}

// giveBack keeps a connection for the next one, unless it was interrupted, has failed, or is of files that are
// not in use any more. One that may be in a transaction is spoilt.
func (r *reader) giveBack() {
	s := r.s
	s.mu.Lock()
	keep := s.read.turn == r.turn && !r.spoilt && r.ctx.Err() == nil
	if keep {
		s.read.idle = append(s.read.idle, r.conn)
	}
	s.mu.Unlock()
	if !keep {
		_ = r.conn.Close()
		s.closed(1)
	}
	<-s.readers
}

func (s *handle) closed(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read.open -= n
}

// hasOpen reports whether the files are open, and how many connections read them.
func (s *handle) hasOpen() (is bool, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read.by != "", s.read.open
}

// unread reports whether no connection has been opened to read with.
func (s *handle) unread() bool {
	is, n := s.hasOpen()
	return is && n == 0
}

// endReading closes the connections that read.
func (s *handle) endReading() error {
	s.mu.Lock()
	idle := s.read.idle
	s.read.idle, s.read.by = nil, ""
	s.read.turn++
	s.mu.Unlock()
	var errs []error
	for _, conn := range idle {
		errs = append(errs, conn.Close())
	}
	s.closed(len(idle))
	for end := time.Now().Add(disconnectIn); ; time.Sleep(time.Millisecond) {
		if _, n := s.hasOpen(); n == 0 {
			return errors.Join(errs...)
		} else if time.Now().After(end) {
			return errors.Join(append(errs, fmt.Errorf("%w: a query on %s goes on", ledger.ErrBusy, s.path))...)
		}
	}
}

// look reads one state.
func (s *handle) look(ctx context.Context, read func(store.Tx) error) error {
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer r.giveBack()
	spoilt := true // also where it is an error: one whose caller has gone may have begun
	defer func() { r.spoilt = r.spoilt || spoilt }()
	if _, err = r.conn.Exec(ctx, `BEGIN`); err == nil {
		err = read(r)
		_, end := r.conn.Exec(context.Background(), `ROLLBACK`)
		spoilt = end != nil
	}
	return s.translate(err)
}

// translate is what is wrong with the files, where reading shows that something is, or else what the driver says.
func (s *handle) translate(err error) error {
	if slices.Contains([]int{codeNotADB, codeCorrupt, codeIO}, code(err)&0xff) {
		if why := cmp.Or(s.anchored(), s.behind()); why != nil {
			return why
		}
	}
	return translate(s.path, err)
}

// Query reads.
func (r *reader) Query(query string, args ...any) (store.Rows, error) {
	rows, err := r.conn.Query(r.ctx, query, args...)
	r.spoilt = r.spoilt || err != nil
	return rows, err
}

func (r *reader) Moment() ledger.Moment { return r.s.moment() }

// Exec refuses: nothing is written here.
func (r *reader) Exec(string, ...any) (int64, error) { return 0, ledger.ErrReadOnly }

// one runs a query that gives one row.
func one(tx store.Tx, query string, dest ...any) error {
	rows, err := tx.Query(query)
	if err != nil {
		return err
	}
	if err = sql.ErrNoRows; rows.Next() {
		err = rows.Scan(dest...)
	}
	return errors.Join(cmp.Or(rows.Err(), err), rows.Close())
}

func (s *handle) one(ctx context.Context, query string, dest ...any) error {
	return database{s}.View(ctx, func(tx store.Tx) error { return one(tx, query, dest...) })
}

// askOnce runs a query that gives one row over a connection of its own.
func askOnce(ctx context.Context, name, query string, dest ...any) error {
	conn, err := store.Dial(name, 0)
	if err != nil {
		return err
	}
	return errors.Join(one(&reader{ctx: ctx, conn: conn}, query, dest...), conn.Close())
}
