package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// reader is one connection that reads, with its statements, each parsed once. One of a
// pool of database/sql would be parsed on whichever connection is idle, and beside a
// transaction on another one than that reads: which would be opened for it, and parse
// the whole schema.
type reader struct {
	s      *handle
	ctx    context.Context // of who has it
	db     *sql.DB         // that it is of
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	spoilt bool
	inside bool // it is in a transaction, or may be
}

// wide is how many connections read at once.
const wide = 4

// keptStmts is how many statements are kept prepared, of lists at most. Filters
// are many: one for each way of putting one together.
const keptStmts = 100

var errClosed = errors.New("the ledger is closed")

// reader takes the connection that was given back last, or a new one.
func (s *handle) reader(ctx context.Context) (*reader, error) {
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := s.rested()
	r.ctx = ctx
	err := errClosed
	if r.conn != nil {
		return r, nil
	} else if r.db != nil {
		r.conn, err = r.db.Conn(ctx)
	}
	if err != nil {
		<-s.readers
		return nil, translate(s.path, err)
	}
	return r, nil
}

// rested takes a connection that is not read with; it is one to open where there is none.
func (s *handle) rested() *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &reader{s: s, db: s.read, stmts: map[string]*sql.Stmt{}}
	if n := len(s.idle); n > 0 {
		r, s.idle = s.idle[n-1], s.idle[:n-1]
	}
	return r
}

// giveBack keeps a connection for the next one. One that was interrupted, or failed, goes
// to the pool, which drops what is not good any more; so does one of files that are not in
// use any more, whose pool is closed. One that may be in a transaction is closed.
func (r *reader) giveBack() {
	r.s.mu.Lock()
	keep := r.s.read == r.db && !r.spoilt && !r.inside && r.ctx.Err() == nil
	if keep {
		r.s.idle = append(r.s.idle, r)
	}
	r.s.mu.Unlock()
	if !keep {
		_ = r.close()
	}
	<-r.s.readers
}

// unread reports whether no connection has been opened to read with.
func (s *handle) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read != nil && s.read.Stats().OpenConnections == 0
}

// close closes the statements first: the driver faults on one whose connection is closed.
func (r *reader) close() error {
	var errs []error
	for _, st := range r.stmts {
		errs = append(errs, st.Close())
	}
	if r.inside {
		return r.conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool closes it
	}
	return errors.Join(append(errs, r.conn.Close())...)
}

// query runs a query, prepared unless there are many already.
func (r *reader) query(query string, args ...any) (rows *sql.Rows, err error) {
	st := r.stmts[query]
	switch {
	case st == nil && len(r.stmts) >= keptStmts:
		rows, err = r.conn.QueryContext(r.ctx, store.SQLite(query), args...)
	case st == nil:
		if st, err = r.conn.PrepareContext(r.ctx, store.SQLite(query)); err == nil {
			r.stmts[query] = st
		}
		fallthrough
	default:
		if err == nil {
			rows, err = st.QueryContext(r.ctx, args...)
		}
	}
	r.spoilt = r.spoilt || err != nil
	return rows, err
}

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

// snapshot reads everything from one state of the ledger.
type snapshot struct{ *reader }

func (s *handle) snapshot(ctx context.Context) (snapshot, error) {
	r, err := s.reader(ctx)
	if err != nil {
		return snapshot{}, err
	}
	r.inside = true // also where it is an error: one whose caller has gone may have begun
	if _, err := r.conn.ExecContext(ctx, `BEGIN`); err != nil {
		r.giveBack()
		return snapshot{}, translate(s.path, err)
	}
	return snapshot{r}, nil
}

func (n snapshot) Query(query string, args ...any) (store.Rows, error) {
	return n.query(query, args...) //nolint:rowserrcheck // the reader does
}

func (n snapshot) Moment() ledger.Moment { return n.s.moment() }

// Exec refuses: nothing is written here.
func (n snapshot) Exec(string, ...any) (int64, error) { return 0, ledger.ErrReadOnly }

func (n snapshot) close() {
	_, err := n.conn.ExecContext(context.Background(), `ROLLBACK`)
	n.inside = err != nil
	n.giveBack()
}
