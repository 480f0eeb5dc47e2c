// Package store keeps a ledger in eight tables of an SQL database. It implements ledger.Store,
// and leaves every decision to the rules of package ledger and every guarantee to ledger.sql, whose
// tables other languages write to as well. How a database is reached, its file or its connections
// are the database's: see Database.
//
// # How a record is kept
//
// Where an operation stands is a row of op: every member of ledger.Operation that a guard, an
// index or a list asks for is a column (row.go). All else, and all attempts, reads and permissions, are
// folded from the operation's events in ev, oldest first (fold.go). An event holds what it changed,
// and nothing that stays as it was:
//
//	facts    {"outcome": "uncertain", "op": {"hands": "maya"}, "allowed": {"ID": {…}}, "read": {…}, "detail": {…}}
//	payload  {"error": "…", "op": {"result": …}, "read": {"evidence": …}, "detail": {…}}
//
// Names and values are the JSON of the ledger's own types. At the top are the members of the
// attempt that the event is about, ev.n, as a writer in plain SQL says them too; what the columns
// of the event say (who, when, on which host) is not said again. "attempts" and "reads" hold what it
// changed of others, "read" is a check that was made, "gone" names members that are empty since.
//
// What people read is in payload (texts, in fold.go): it can be emptied, and what is folded then is
// still all that rules ask. A redaction restates what stays of that, masked, as what it changed
// over the facts alone, so that the fold has no case for it. "detail" is ledger.Event.Detail: in
// payload the members that are text, in facts all others, and null where it says again what stands
// beside it. "who" is the actor beside its name, "doubt" the class of a doubt that evidence ended,
// "raised" a flag raised anew, "lost_at" when an attempt ended that counts in an outage; triggers
// copy it into the column.
//
// load(save(x)) is x for every member of a record, in milliseconds; a test holds that.
//
// An abandoned operation is its fact with the flag; one whose effect was taken back is committed
// with it. live is who has a name, n counts those who had it before: a name of fields is one over
// all kinds, and a doubt may give its name up, so that the newest n does not tell. A change that
// moves no version (a park, a wait) is an update of the row all the same; a note and the end of a
// tree are events only, a heartbeat and a delivery columns only. A run is an event about run:ID, a
// hold's actor is in its event, the last step of the clock is the newest event about clock.
//
// # What is left to the program
//
// Tokens are not unique, and no column says until when a repeat is safe: that is in the events
// (facts.basis). A permission's time is judged by the clock of who consumes it. A check that tells
// nothing new is an event each time (verb look, which is no line of the history).
package store

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
)

// Rows are the rows of a query.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Tx is one transaction. A statement has ? or ?N where values go.
type Tx interface {
	Query(query string, args ...any) (Rows, error)
	// Exec writes, and returns how many rows have changed.
	Exec(query string, args ...any) (changed int64, err error)
	// Moment is the ledger's clock as this state was read.
	Moment() ledger.Moment
}

// Database is where a ledger is kept.
type Database interface {
	// View reads from one state.
	View(ctx context.Context, read func(Tx) error) error
	// Update writes all of it or nothing. It may run change more than once.
	Update(ctx context.Context, change func(Tx) error) error
	Watch(ctx context.Context) <-chan struct{}
	Close() error
}

// Options are how a ledger is opened. The zero Options open it for writing.
type Options struct {
	ReadOnly bool               // refuse every write with ledger.ErrReadOnly
	Clock    ledger.Clock       // the host's or the server's when nil
	Steady   ledger.SteadyClock // the host's when nil
	Actor    ledger.Actor       // who adopts, expires and lifts, where no other actor is given
	KeyFile  string             // holds the key of the digests; see digestkey.Variable
	At       string             // the change id of the event that was the newest when begins were held: adopted at it, nothing is missing
	To       string             // what is wanted of a server's ledger: check, decide, or else record
	State    string             // the directory where this account keeps what it knows of ledgers; none when empty
	Anew     bool               // make a ledger in a file also where one was before
	// AsyncStandby is why a server's ledger that is made or adopted may have a standby which lacks what was acknowledged.
	AsyncStandby string
	Group        string // share a new ledger in a file with this group, by name or number
}

// Store is a ledger in a database.
type Store struct {
	db     Database
	masks  masks
	newest newest
}

var _ ledger.Store = (*Store)(nil)

// New is the ledger in a database that has its tables, with the place where the key of its digests lies, and the
// directory where this account keeps what lasts ("": nowhere).
func New(db Database, at digestkey.Place, state string) *Store {
	s := &Store{db: db, masks: masks{db: db, at: at}}
	if state != "" {
		s.newest.dir = filepath.Join(state, "newest")
	}
	return s
}

// DigestKey is the ledger's key, which is made where there is none.
func (s *Store) DigestKey(ctx context.Context) ([]byte, error) {
	return Key(ctx, s.db, s.masks.at, true)
}

// Database is where it is kept.
func (s *Store) Database() Database { return s.db }

// Watch is the database's.
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.db.Watch(ctx) }

// Close closes the database.
func (s *Store) Close() error {
	err := s.db.Close()
	s.newest.close() // what was begun is finished, and remembered, first
	return err
}

// Collect reads all rows of a query.
func Collect[T any](tx Tx, scan func(Rows) (T, error), query string, args ...any) (out []T, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	for rows.Next() && err == nil {
		var one T
		if one, err = scan(rows); err == nil {
			out = append(out, one)
		}
	}
	return out, errors.Join(err, rows.Err(), rows.Close())
}

// Ahead says what is going to be asked, where a question is a journey: it travels with the next one, and false
// where none is.
func Ahead(tx Tx, query string, args ...any) bool {
	far, is := tx.(interface {
		Ahead(query string, args ...any)
	})
	if is {
		far.Ahead(query, args...)
	}
	return is
}

// One reads a single row; sql.ErrNoRows where there is none.
func One(tx Tx, dest []any, query string, args ...any) error {
	found, err := Collect(tx, func(rows Rows) (none struct{}, err error) { return none, rows.Scan(dest...) }, query, args...)
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	return err
}

// gather reads all rows of a query in a transaction of its own.
func gather[T any](ctx context.Context, s *Store, scan func(Rows) (T, error), query string, args ...any) (out []T, err error) {
	err = s.db.View(ctx, func(tx Tx) (err error) {
		out, err = Collect(tx, scan, query, args...)
		return err
	})
	return out, err
}

func word(rows Rows) (s string, err error) { return s, rows.Scan(&s) }

// digits is a number as it is written in an id; 0 for what is none.
func digits(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

func decimal(n int) string { return strconv.Itoa(n) }

func exec(tx Tx, query string, args ...any) error {
	_, err := tx.Exec(query, args...)
	return err
}
