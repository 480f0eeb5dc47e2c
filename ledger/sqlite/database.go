package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// dialect is what SQLite says otherwise. The value of a bare ? after GLOB or LIKE is a
// part of the plan, which is then made anew whenever it is bound; +? is none.
var dialect = &tables.Dialect{
	Time:  func(t time.Time) any { return tables.Millis(t) },
	Flag:  func(b bool) any { return b },
	Field: func(column, member string) string { return column + ` ->> '$.` + member + `'` },
	Contains: func(text, mark string) string {
		return fmt.Sprintf(`%s LIKE +%s ESCAPE '\'`, text, mark)
	},
	Glob: func(text, mark string) string { return text + " GLOB +" + mark },
	Pattern: func(parts ...string) string {
		for i, p := range parts {
			parts[i] = globEscaper.Replace(p)
		}
		return strings.Join(parts, "*")
	},
}

var globEscaper = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")

// database is the file as the tables of a ledger.
type database struct{ *handle }

var (
	_ tables.Database = database{}
	_ tables.Tx       = (*tx)(nil)
)

func (s database) Dialect() *tables.Dialect { return dialect }

func (s database) Writable() error { return cmp.Or(s.writable(), s.anchored()) }

func (s database) Moment(context.Context) (ledger.Moment, error) { return s.moment(), nil }

func (s database) Translate(err error) error { return translate(s.path, err) }

func (s database) Query(ctx context.Context, query string, args ...any) (tables.Rows, error) {
	rows, err := s.rows(ctx, query, args...) //nolint:rowserrcheck // the reader does
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (s database) View(ctx context.Context, read func(tables.Querier) error) error {
	n, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer n.close()
	return translate(s.path, read(n))
}

// Brief reads over the connection that writes until there is one that reads.
func (s database) Brief(ctx context.Context, read func(tables.Querier) error) error {
	if lent, err := s.lent(read); lent {
		return translate(s.path, err)
	}
	return s.View(ctx, read)
}

// lent reads over the connection that writes, where none is open to read with: each
// connection parses the whole schema, which costs more than a read that is brief.
func (s *handle) lent(read func(tables.Querier) error) (lent bool, err error) {
	if s.writer == nil || !s.unread() {
		return false, nil
	}
	return s.writer.lend(read)
}

func (s database) Update(ctx context.Context, change func(tables.Tx) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	return s.writer.do(ctx, change)
}

func (s database) UpdateAll(ctx context.Context, changes []func(tables.Tx) error) []error {
	return s.writer.doAll(ctx, changes)
}

// tx is the write transaction as a job sees it.
type tx struct {
	w       *writer
	wrote   bool // something that others should look at
	touched bool // anything
}

func (tx *tx) Query(query string, args ...any) (tables.Rows, error) {
	st, err := tx.w.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...) //nolint:rowserrcheck // the reader does
}

func (tx *tx) Ahead(...tables.Ask) {}

func (tx *tx) Moment() ledger.Moment { return tx.w.store.moment() }

func (tx *tx) Exec(query string, args ...any) (int64, error) {
	tx.wrote, tx.touched = true, true
	return tx.w.execN(query, args...)
}

func (tx *tx) Later(query string, args ...any) error {
	_, err := tx.Exec(query, args...)
	return err
}

func (tx *tx) Quietly(query string, args ...any) error {
	tx.touched = true
	return tx.w.exec(query, args...)
}

func (tx *tx) Must(query string, args ...any) error {
	n, err := tx.Exec(query, args...)
	if err == nil && n == 0 {
		err = tables.ErrRaced
	}
	return err
}

// Lock, Share and LockOperation do nothing: the transaction is alone.
func (tx *tx) Lock(...string) error                     { return nil }
func (tx *tx) Share(string) error                       { return nil }
func (tx *tx) LockOperation(bool, string, ...any) error { return nil }
func (tx *tx) LockOperations(string) error              { return nil }
func (tx *tx) Known(string)                             {}
func (tx *tx) Lets(ledger.Change) error                 { return tx.w.gone }
func (tx *tx) Keep(*tables.Record)                      {}
func (tx *tx) Take(string) (rec tables.Record, ok bool) { return rec, false }
func (tx *tx) Unheard(ledger.Locator) bool              { return false }

// script runs statements.
func (tx *tx) script(sql string) error {
	tx.wrote, tx.touched = true, true
	_, err := tx.w.conn.ExecContext(context.Background(), sql)
	return err
}

// inside is a job of this package, which needs more of its transaction than others.
func inside(run func(*tx) error) func(tables.Tx) error {
	return func(t tables.Tx) error { return run(t.(*tx)) }
}

// write runs a job, if this ledger may be written here.
func (s *handle) write(ctx context.Context, run func(*tx) error) error {
	return database{s}.Update(ctx, inside(run))
}

func (s *handle) writable() error {
	switch {
	case s.copied != "":
		return fmt.Errorf("%w (%s)", ledger.ErrCopied, s.copied)
	case s.writer == nil:
		return ledger.ErrReadOnly
	}
	return nil
}

// meta is what the ledger knows of itself.
func (s *handle) meta(ctx context.Context) (m map[string]string, err error) {
	err = database{s}.Brief(ctx, func(q tables.Querier) (err error) {
		m, err = tables.Meta(q)
		return err
	})
	return m, err
}
