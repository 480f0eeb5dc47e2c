// Package tables keeps a ledger in the tables of an SQL database. It has all that the
// stores share: what is selected, what is written, in which order. Which database that
// is, how it is reached, its files or connections, its schema and its guards are the
// store's, which brings a Database.
//
// It imports package ledger and no driver.
//
// # The text of statements
//
// A statement is written once, for SQLite and for PostgreSQL. It has SQLite's
// placeholders (?, ?1) and its hints (INDEXED BY x, NOT INDEXED, CROSS JOIN t ON …, +0
// after a placeholder), which a store takes out or translates where its database has
// others. It reads tables and views that look alike: times as Unix milliseconds, with 0
// for none, and flags as 0 or 1. It writes times by Dialect.Time and flags by
// Dialect.Flag, except for open_operations, which only indoubt reads and
// which has the numbers.
// What a write asks of a time or a flag that is there, it asks in a SELECT.
package tables

import (
	"context"
	"errors"
	"time"

	"indoubt/ledger"
)

// Schema is the number of the schema that this program makes and knows. It goes up by one
// when tables, views or guards of a released version change.
const Schema = 1

// Rows are the rows of a query.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Ask is a query that is going to be made.
type Ask struct {
	Query string
	Args  []any
}

// Querier reads one state of the ledger.
type Querier interface {
	Query(query string, args ...any) (Rows, error)
	// Ahead names queries that follow, word for word, with what is asked next. A database
	// far away answers them all in one round trip. Where Dialect.Far is not set it is not
	// called.
	Ahead(asks ...Ask)
	// Moment is the ledger's clock as this state was read. Where it cannot be read it is
	// the zero one, and the next statement fails.
	Moment() ledger.Moment
}

// Tx is the transaction of a change. What a statement does is seen by those after it.
type Tx interface {
	Querier
	// Exec writes, and returns how many rows have changed.
	Exec(query string, args ...any) (changed int64, err error)
	// Later is Exec where the count does not matter: it may travel with what follows, and
	// fail with it, or at the end of the transaction.
	Later(query string, args ...any) error
	// Quietly is Later for what watchers need not look at.
	Quietly(query string, args ...any) error
	// Must is Later for what changes an operation at a version (see atVersion). Where it
	// has another one it gives ErrRaced, at once or at the end of the transaction, which
	// then is made again.
	Must(query string, args ...any) error

	// Lock gives this transaction the names until its end, Share the name together with
	// others that share it. LockOperation locks the operation that an expression gives the
	// id of, if there is one; with others, also the name of its target. All travel with what follows. Where Dialect.Locks is not set, a
	// transaction is alone, and they do nothing.
	Lock(names ...string) error
	Share(name string) error
	LockOperation(others bool, id string, args ...any) error
	// LockOperations locks several, in one order for all.
	LockOperations(ids string) error

	// Known names the event by which the history shows that this transaction is durable. It
	// is asked for when the answer to a COMMIT is lost; without it the transaction is made
	// again.
	Known(changeID string)

	// Lets is asked before a change that lets someone send. It returns why no one may, or
	// has the database refuse it.
	Lets(c ledger.Change) error

	// Keep has the process remember a record as this transaction leaves it, and Take gives
	// it back, by its attempt in flight, once: where Dialect.Far is set, and nowhere else.
	Keep(rec *Record)
	Take(attempt string) (rec Record, ok bool)

	// Unheard guesses, before anything is asked, that no operation has a key, of any kind
	// where none is named, or stands for it, and that no hold is in force. Where Dialect.Far is set, it and
	// Take may be wrong: the transaction then fails with what it writes, and is made again
	// without a guess.
	Unheard(at ledger.Locator) bool
}

// ErrRaced tells that what was read has moved before it could be written.
var ErrRaced = errors.New("the operation changed while it was being changed")

// Database is what a store brings: a database with the tables of a ledger. Its errors
// are translated (see Translate), except for those of Rows.
type Database interface {
	Dialect() *Dialect
	// Writable is why nothing can be written here, or nil.
	Writable() error
	// Moment is the ledger's clock, outside of any transaction.
	Moment(ctx context.Context) (ledger.Moment, error)
	// Query runs one query by itself.
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	// View reads one state of the ledger; Brief, a few rows of it.
	View(ctx context.Context, read func(Querier) error) error
	Brief(ctx context.Context, read func(Querier) error) error
	// Update makes one durable transaction, and UpdateAll several, which may share one. A
	// change may run more than once before it is durable, and leaves nothing when it fails.
	Update(ctx context.Context, change func(Tx) error) error
	UpdateAll(ctx context.Context, changes []func(Tx) error) []error
	// Translate makes an error of the driver one of the ledger's.
	Translate(error) error
}

// Dialect is what one database says otherwise.
type Dialect struct {
	// Far: a query takes a round trip, so those that follow are named ahead. Locks:
	// transactions run side by side, so a change locks what it looks at.
	Far, Locks bool
	// Time and Flag are a time and a flag as a column takes them.
	Time func(time.Time) any
	Flag func(bool) any
	// Field is a member of the JSON of a column, as a number.
	Field func(column, member string) string
	// Contains is the condition that a text has the pattern of LIKE that is bound to mark,
	// with \ to escape and whatever the case of its ASCII letters. Glob is the condition
	// that it is, letter for letter, like the pattern that Pattern makes: parts with
	// anything between them.
	Contains func(text, mark string) string
	Glob     func(text, mark string) string
	Pattern  func(parts ...string) string
}
