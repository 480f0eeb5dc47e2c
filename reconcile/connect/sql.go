package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	sqlite3 "modernc.org/sqlite"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy"
)

const (
	// maxRows bounds the rows that are kept of an answer.
	maxRows = 1000
	// HeaderStale is set in the answer of a database that follows another one, so
	// that what it does not show may be there all the same. Its value is
	// "replica", or "unknown" where the database does not tell.
	HeaderStale = "X-Indoubt-Stale"

	maxConnections = 8               // of one database
	idleConnection = time.Minute     // before one is closed
	maxWire        = 32 << 20        // bytes of one value, or of one message of a server
	maxBusyWait    = 5 * time.Second // for a writer of a SQLite file
)

// SQL reads databases. It keeps one small pool of connections
// for each. Its zero value is ready and safe for use by many goroutines.
type SQL struct {
	mu     sync.Mutex
	open   map[[2]string]database // by driver and address
	closed bool
}

// database is one pool, of whichever driver.
type database interface {
	// read runs a query in a read-only transaction and reports whether what it saw
	// may be old: "" where it is not.
	read(ctx context.Context, q policy.SQLRequest, into *table) (stale string, err error)
	close()
}

// Read runs one query in a read-only transaction under a statement timeout. It
// stops after maxRows rows and Max bytes; the answer is Truncated then.
// Values become JSON: numbers with all their digits, moments as RFC 3339 (in UTC
// where the database keeps no zone), bytes as text where they are UTF-8, else as
// base64. An answer of a replica has HeaderStale.
func (s *SQL) Read(ctx context.Context, q policy.SQLRequest) ledger.Answer {
	a := ledger.Answer{Via: "sql", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, time.Time{}))
	defer cancel()
	db, err := s.database(q)
	if err != nil {
		return transmit.Failed(a, err)
	}
	rows := &table{maxBody: cmp.Or(q.Max, transmit.DefaultMaxBody)}
	stale, err := db.read(ctx, q, rows)
	if err != nil && mistaken(err) {
		err = &Mistaken{err}
	}
	if a.Truncated = rows.cut || tooLong(err); err != nil && !a.Truncated {
		if a = failed(a, ctx, err); a.Class == "" && timedOut(err) {
			a.Class = ledger.ClassTimeout
		}
		return a
	}
	a.Sent = true
	a.Rows, a.EndedAt = rows.json(), time.Now()
	if stale != "" {
		a.Header = map[string][]string{HeaderStale: {stale}}
	}
	return a
}

// Close closes every pool. Requests that follow fail.
func (s *SQL) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, db := range s.open {
		db.close()
	}
	s.open = nil
}

// database is the pool of a request. One that no request names any more has no connections.
func (s *SQL) database(q policy.SQLRequest) (db database, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the databases were closed")
	}
	key := [2]string{q.Driver, q.DSN}
	if db := s.open[key]; db != nil {
		return db, nil
	}
	if db, err = openDatabase(q.Driver, q.DSN); err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[[2]string]database{}
	}
	s.open[key] = db
	return db, nil
}

func openDatabase(driver, dsn string) (database, error) {
	switch driver {
	case "sqlite":
		return openSQLite(dsn)
	case "postgres":
		return openPostgres(dsn)
	}
	return nil, fmt.Errorf("there is no driver %q: sqlite and postgres", driver)
}

// tooLong reports whether a single value was longer than is read.
func tooLong(err error) bool {
	return errors.As(err, new(*pgproto3.ExceededMaxBodyLenErr)) || sqliteCode(err) == sqliteTooBig
}

// mistaken reports whether a database answered that the statement makes no sense to
// it or may not be run.
func mistaken(err error) bool {
	var pg *pgconn.PgError
	state := ""
	switch {
	case errors.As(err, &pg):
		state = pg.Code
	case errors.As(err, new(*sqlite3.Error)):
		code := sqliteCode(err)
		return code == sqliteError || code == sqliteReadonly || code == sqliteRange
	}
	return strings.HasPrefix(state, "42") || strings.HasPrefix(state, "22") || state == "25006" // access or syntax; data; read-only
}

// remaining is how long a statement may run at most, in whole milliseconds.
func remaining(ctx context.Context) int64 {
	end, ok := ctx.Deadline()
	if !ok {
		return transmit.DefaultTimeout.Milliseconds()
	}
	return max(1, time.Until(end).Milliseconds())
}
