package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// database is how package store reaches a ledger on a server.
type database struct{ *handle }

// View reads from one state.
func (d database) View(ctx context.Context, read func(store.Tx) error) error {
	return d.again(ctx, func() error {
		return d.within(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, read)
	})
}

// Update makes one durable transaction. It is made again where another one was in its way, and where
// its connection was lost: every change has an id, by which it is found where it has happened. All that a
// rule reads is of one state, also where it writes nothing.
func (d database) Update(ctx context.Context, change func(store.Tx) error) error {
	if err := d.Writable(); err != nil {
		return err
	}
	return d.again(ctx, func() error {
		err := d.within(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE`, change)
		var said *pgconn.PgError
		if errors.Is(err, ledger.ErrBusy) || errors.As(err, &said) && said.Code == codeUnique {
			return errAgain // another one came first, and is seen then
		}
		return err
	})
}

// within makes a transaction of what is done with it.
func (d database) within(ctx context.Context, begin string, do func(store.Tx) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	t := &tx{ctx: ctx, database: d, conn: conn.Conn(), begin: begin}
	if err = do(t); err == nil {
		err = t.end("COMMIT")
	} else if t.err == nil {
		_ = t.end("ROLLBACK")
	}
	if t.err != nil && !t.conn.IsClosed() {
		_, _ = t.conn.Exec(context.WithoutCancel(ctx), "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	}
	if err == nil && t.loud {
		d.notifier.notify()
	}
	return first2(t.err, err)
}

func first2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// tx is a transaction. It begins with its first question, and what it writes travels with the next one,
// or with the COMMIT: a round trip takes longer than a statement. No write has to be counted, for one
// that finds its row changed fails.
type tx struct {
	database
	ctx    context.Context
	conn   *pgx.Conn
	begin  string // "" once it has begun
	at     ledger.Moment
	writes pgx.Batch
	loud   bool  // it leaves something that others wait for
	err    error // that ended it
}

const clock = `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// send asks, behind what there is to write, and returns the answers that are left to read.
func (t *tx) send(query string, args ...any) (pgx.BatchResults, error) {
	if t.err != nil {
		return nil, t.err
	}
	var b pgx.Batch
	begins, steady := t.begin != "", t.steady()
	if begins {
		b.Queue(t.begin)
		b.Queue(clock)
		t.begin = ""
	}
	n := t.writes.Len()
	b.QueuedQueries = append(b.QueuedQueries, t.writes.QueuedQueries...)
	t.writes = pgx.Batch{}
	if query != "" {
		b.Queue(query, args...)
	}
	answers := t.conn.SendBatch(t.ctx, &b)
	if begins {
		_, t.err = answers.Exec()
		var ms int64
		if t.err == nil {
			t.err = answers.QueryRow().Scan(&ms)
		}
		if t.at = t.database.at(ms, steady); t.clock != nil {
			t.at = t.clock()
		}
	}
	for range n {
		if t.err == nil {
			_, t.err = answers.Exec()
		}
	}
	if t.err != nil {
		_ = answers.Close()
		return nil, t.err
	}
	return answers, nil
}

// end sends what is left to write, and the last word.
func (t *tx) end(word string) error {
	if t.begin != "" && t.writes.Len() == 0 {
		return nil // nothing was asked
	}
	if word != "COMMIT" {
		t.writes = pgx.Batch{}
	}
	answers, err := t.send(word)
	if err == nil {
		_, t.err = answers.Exec()
		t.err = first2(t.err, answers.Close())
	}
	return t.err
}

// Moment is when it began.
func (t *tx) Moment() ledger.Moment {
	if t.begin != "" {
		if answers, err := t.send(""); err == nil {
			t.err = answers.Close()
		}
	}
	return t.at
}

// Query reads.
func (t *tx) Query(query string, args ...any) (store.Rows, error) {
	answers, err := t.send(store.PostgreSQL(query, args), values(args)...)
	if err != nil {
		return nil, err
	}
	rows, err := answers.Query()
	return &found{rows, answers, t}, err
}

// Exec writes, and returns how many rows have changed.
func (t *tx) Exec(query string, args ...any) (int64, error) {
	text, bound := store.PostgreSQL(query, args), values(args)
	if strings.HasPrefix(query, "INSERT INTO ") || strings.HasPrefix(query, "UPDATE op ") {
		t.loud = true
		t.writes.Queue(text, bound...)
		return 1, t.err
	}
	answers, err := t.send(text, bound...)
	if err != nil {
		return 0, err
	}
	tag, err := answers.Exec()
	t.err = first2(err, answers.Close())
	return tag.RowsAffected(), t.err
}

// values are what is bound, as the server takes it.
func values(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case store.Pattern:
			out[i] = strings.ReplaceAll(patternEscaper.Replace(string(v)), "*", "%")
		default:
			if r := reflect.ValueOf(arg); r.IsValid() && r.Kind() == reflect.String {
				out[i] = string(utf8Text(nil, r.String()))
			} else {
				out[i] = arg
			}
		}
	}
	return out
}

// found are the rows of a query.
type found struct {
	pgx.Rows
	answers pgx.BatchResults
	tx      *tx
}

// Close ends the answer.
func (f *found) Close() error {
	f.Rows.Close()
	f.tx.err = first2(f.Rows.Err(), f.answers.Close())
	return f.tx.err
}

// Scan takes the values of a row.
func (f *found) Scan(dest ...any) error {
	row, err := f.Values()
	if err != nil {
		return err
	}
	for i, v := range row {
		switch v := v.(type) {
		case int32:
			row[i] = int64(v)
		case pgtype.Numeric:
			n, err := v.Int64Value()
			if err != nil {
				return err
			}
			row[i] = n.Int64
		case bool:
			row[i] = map[bool]int64{true: 1}[v]
		}
		if !store.Take(dest[i], row[i]) {
			return fmt.Errorf("column %s is %T and not a %T", f.FieldDescriptions()[i].Name, row[i], dest[i])
		}
	}
	return nil
}

// Close ends what is under way first.
func (d database) Close() error {
	d.close()
	return nil
}
