package tables

import (
	"context"
	"errors"
	"time"

	"indoubt/ledger"
)

// Store is what all stores do in the same way. A store has it beside what is its own:
// the feed, what it knows of itself, and its end.
type Store struct {
	FirstStep int // rows of a list that a filter is tried on first

	db Database
	d  *Dialect
}

// New keeps a ledger in a database.
func New(db Database) *Store {
	return &Store{FirstStep: firstStep, db: db, d: db.Dialect()}
}

// tx is a transaction, with what is said otherwise in its database.
type tx struct {
	Tx
	d *Dialect
}

func (tx *tx) now() time.Time { return tx.Moment().Wall }

// update makes one durable transaction.
func (s *Store) update(ctx context.Context, change func(*tx) error) error {
	return s.db.Update(ctx, func(t Tx) error { return change(&tx{t, s.d}) })
}

// outside runs single queries.
type outside struct {
	ctx context.Context
	db  Database
}

func (q outside) Query(query string, args ...any) (Rows, error) {
	return q.db.Query(q.ctx, query, args...)
}
func (q outside) Ahead(...Ask) {}
func (q outside) Moment() ledger.Moment {
	now, _ := q.db.Moment(q.ctx) // the next statement fails
	return now
}

// Collect scans all rows of a query.
func Collect[T any](q Querier, scan func(Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// Gather scans all rows of a query that is made by itself.
func Gather[T any](ctx context.Context, db Database, scan func(Rows) (T, error), query string, args ...any) ([]T, error) {
	out, err := Collect(outside{ctx, db}, scan, query, args...)
	return out, db.Translate(err)
}

// word scans rows of one text.
func word(rows Rows) (text string, err error) { return text, rows.Scan(&text) }

// errNone tells that a query has no row.
var errNone = errors.New("no row")

// one runs a query that gives one row.
func one(q Querier, query string, args []any, dest ...any) error {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	if rows.Next() {
		err = rows.Scan(dest...)
	} else if err = rows.Err(); err == nil {
		err = errNone
	}
	return errors.Join(err, rows.Close())
}

func (s *Store) one(ctx context.Context, query string, args []any, dest ...any) error {
	return s.db.Translate(one(outside{ctx, s.db}, query, args, dest...))
}

// firstRow is the first row of a query, or nil.
func firstRow[T any](q Querier, scan func(Rows) (T, error), query string, args ...any) (*T, error) {
	all, err := Collect(q, scan, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}
