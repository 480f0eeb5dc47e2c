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

// now begins each transaction, and reads its clock.
const now = `; SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint`

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
	t := &tx{ctx: ctx, conn: conn.Conn()}
	steady := d.steady()
	results, err := t.conn.PgConn().Exec(ctx, begin+now).ReadAll()
	if err != nil {
		return err
	}
	var ms int64
	if _, err = fmt.Sscan(string(results[1].Rows[0][0]), &ms); err != nil {
		return err
	}
	if t.at = d.at(ms, steady); d.clock != nil {
		t.at = d.clock()
	}
	if err = do(t); err == nil {
		if _, err = t.conn.Exec(ctx, "COMMIT", pgx.QueryExecModeSimpleProtocol); err == nil && t.loud {
			d.notifier.notify()
		}
		return err
	}
	if _, failed := t.conn.Exec(context.WithoutCancel(ctx), "ROLLBACK", pgx.QueryExecModeSimpleProtocol); failed != nil {
		_ = t.conn.Close(ctx)
	}
	return err
}

// wrote reports whether a statement leaves something that others wait for.
func wrote(query string) bool {
	return strings.HasPrefix(query, "INSERT INTO ") || strings.HasPrefix(query, "UPDATE op")
}

// tx is a transaction.
type tx struct {
	ctx  context.Context
	conn *pgx.Conn
	at   ledger.Moment
	loud bool
}

// Moment is when it began.
func (t *tx) Moment() ledger.Moment { return t.at }

// Query reads.
func (t *tx) Query(query string, args ...any) (store.Rows, error) {
	rows, err := t.conn.Query(t.ctx, store.PostgreSQL(query, args), values(args)...)
	return &found{Rows: rows}, err
}

// Exec writes, and returns how many rows have changed.
func (t *tx) Exec(query string, args ...any) (int64, error) {
	t.loud = t.loud || wrote(query)
	tag, err := t.conn.Exec(t.ctx, store.PostgreSQL(query, args), values(args)...)
	return tag.RowsAffected(), err
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
type found struct{ pgx.Rows }

func (f *found) Close() error { f.Rows.Close(); return nil }

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
