package connect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite3 "modernc.org/sqlite"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
)

const (
	// DefaultMaxRows bounds the rows that are kept of an answer.
	DefaultMaxRows = 1000
	// HeaderStale is set in the answer of a database that follows another one, so
	// that what it does not show may be there all the same. Its value is
	// "replica", or "unknown" where the database does not tell.
	HeaderStale = "X-Indoubt-Stale"

	maxConnections = 8                // of one database
	idleConnection = time.Minute      // before one is closed
	maxWire        = 32 << 20         // bytes a server may send in answer to one message
	maxBusyWait    = 5 * time.Second  // for another writer of a SQLite file
	settleTimeout  = 10 * time.Second // of ROLLBACK, which is worth more than the rest of a timeout
)

// SQL reads and changes databases. It keeps one small pool of connections
// for each. Its zero value is ready and safe for use by many goroutines.
type SQL struct {
	mu     sync.Mutex
	open   map[string]*pooled // by the name of the database
	closed bool
}

// SQLRequest is one statement with its parameters, in the driver's own
// placeholders. Everything computed belongs in Args: nil, bool, int64, float64,
// string, and []byte as it is.
type SQLRequest struct {
	Name   string // of the database, for the pool
	Driver string // sqlite or postgres
	DSN    string // how to reach it; the path of the file for sqlite
	Query  string
	Args   []any

	Timeout  time.Duration // of the whole, in DefaultTimeout when 0 and no Deadline is set
	Deadline time.Time     // a write is not committed after it
	MaxRows  int           // DefaultMaxRows when 0
	MaxBody  int64         // bytes of Rows; DefaultMaxBody when 0
}

// database is one pool, of whichever driver.
type database interface {
	// read runs a query in a read-only transaction and reports whether what it saw
	// may be old: "" where it is not.
	read(ctx context.Context, q SQLRequest, into *table) (stale string, err error)
	// send runs a statement in a transaction of a connection of its own.
	send(ctx context.Context, q SQLRequest, into *table) (affected int64, err error)
	secrets() []string
	close()
}

// unproven marks an error after which a write may have taken effect.
type unproven struct{ error }

func (e unproven) Unwrap() error { return e.error }

// Read runs one query in a read-only transaction under a statement timeout. It
// stops after MaxRows rows and MaxBody bytes; the answer is Truncated then.
// Values become JSON: numbers with all their digits, moments as RFC 3339 (in UTC
// where the database keeps no zone), bytes as text where they are UTF-8, else as
// base64. An answer of a replica has HeaderStale.
func (s *SQL) Read(ctx context.Context, q SQLRequest) ledger.Answer {
	a := ledger.Answer{Via: "sql", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	if err := mustBegin(q.Query, "SELECT", "WITH", "VALUES", "TABLE", "SHOW"); err != nil {
		return transmit.Failed(a, &Mistaken{err})
	}
	db, err := s.database(q)
	if err != nil {
		return transmit.Failed(a, err)
	}
	rows := newTable(q)
	stale, err := db.read(ctx, q, rows)
	if err != nil && mistaken(err) {
		err = &Mistaken{err}
	}
	if a.Truncated = rows.cut || tooLong(err); err != nil && !a.Truncated {
		return failedStatement(a, ctx, err, db.secrets())
	}
	a.Sent = true
	a.Rows, a.EndedAt = rows.json(), time.Now()
	if stale != "" {
		a.Header = map[string][]string{HeaderStale: {stale}}
	}
	return a
}

// Send runs one statement in one transaction, over a connection of its own.
// Sent reports whether it may have taken effect: false is proof that it has not
// and will not, because COMMIT was never written, or was answered with a
// refusal.
func (s *SQL) Send(ctx context.Context, q SQLRequest) ledger.Answer {
	a := ledger.Answer{Via: "sql", BeganAt: time.Now()}
	ctx, cancel := context.WithDeadline(ctx, transmit.Ends(a.BeganAt, q.Timeout, q.Deadline))
	defer cancel()
	if err := mustBegin(q.Query, "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "WITH", "SELECT", "CALL"); err != nil {
		return transmit.Failed(a, err)
	}
	if transmit.Past(q.Deadline) {
		return transmit.Failed(a, transmit.ErrPastDeadline)
	}
	db, err := s.database(q)
	if err != nil {
		return transmit.Failed(a, err)
	}
	rows := newTable(q)
	rows.drain = true
	affected, err := db.send(ctx, q, rows)
	if err != nil {
		a.Sent = errors.As(err, new(unproven))
		return failedStatement(a, ctx, err, db.secrets())
	}
	a.Sent, a.Affected, a.Rows, a.Truncated, a.EndedAt = true, affected, rows.json(), rows.cut, time.Now()
	return a
}

// Close closes every pool. Requests that follow fail.
func (s *SQL) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.open {
		p.db.close()
	}
	s.open = nil
}

type pooled struct {
	digest [sha256.Size]byte
	db     database
}

// database is the pool of a request. One whose definition changed is replaced.
func (s *SQL) database(q SQLRequest) (database, error) {
	digest := sha256.Sum256([]byte(q.Driver + "\x00" + q.DSN))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the databases were closed")
	}
	have := s.open[q.Name]
	if have != nil && have.digest == digest {
		return have.db, nil
	}
	db, err := openDatabase(q.Driver, q.DSN)
	if err != nil {
		return nil, err
	}
	if have != nil {
		go have.db.close() // waits for the statements that still run
	}
	if s.open == nil {
		s.open = map[string]*pooled{}
	}
	s.open[q.Name] = &pooled{digest, db}
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

// failedStatement closes an answer that did not come. When the time was up,
// that is the reason, whatever a driver makes of it.
func failedStatement(a ledger.Answer, ctx context.Context, err error, secrets []string) ledger.Answer {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	a = transmit.Failed(a, withheld(err, secrets))
	if a.Class == "" && timedOut(err) {
		a.Class = ledger.ClassTimeout
	}
	if a.Class == "" && a.Sent {
		a.Class = ledger.ClassEOF
	}
	return a
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
		return DefaultTimeout.Milliseconds()
	}
	return max(1, time.Until(end).Milliseconds())
}

// withheld is an error whose text shows none of the secrets.
func withheld(err error, secrets []string) error {
	text := err.Error()
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	if text == err.Error() {
		return err
	}
	return withheldError{text, err}
}

type withheldError struct {
	text string
	err  error
}

func (e withheldError) Error() string { return e.text }
func (e withheldError) Unwrap() error { return e.err }
