package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// database is the file as the database of a ledger.
type database struct{ *handle }

var _ store.Database = database{}

// View reads over the connection that writes until there is one that reads: each connection
// parses the whole schema, which costs more than most reads.
func (s database) View(ctx context.Context, read func(store.Tx) error) error {
	if s.writer != nil && s.unread() {
		if lent, err := s.writer.lend(read); lent {
			return s.translate(err)
		}
	}
	return s.look(ctx, read)
}

func (s database) Update(ctx context.Context, change func(store.Tx) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	return s.writer.do(ctx, change)
}

// Close ends the store. Changes already begun are finished first.
func (s database) Close() error { return s.close() }

// tx is the write transaction as a job sees it.
type tx struct {
	w       *writer
	wrote   bool // something that others should look at
	touched bool // anything
}

func (tx *tx) Query(query string, args ...any) (store.Rows, error) {
	tx.writes(query)
	return tx.w.conn.Query(context.Background(), query, args...)
}

func (tx *tx) Exec(query string, args ...any) (int64, error) {
	tx.writes(query)
	return tx.w.conn.Exec(context.Background(), query, args...)
}

// writes notes what a statement does. Who leads, and what is summed up, is no news.
func (tx *tx) writes(query string) {
	verb, of, _ := strings.Cut(query, " ")
	if verb == "SELECT" || verb == "WITH" {
		return
	}
	tx.touched = true
	of = strings.TrimPrefix(strings.TrimPrefix(of, "INTO "), "FROM ")
	tx.wrote = tx.wrote || !strings.HasPrefix(of, "lead ") && !strings.HasPrefix(of, "total ")
}

func (tx *tx) Moment() ledger.Moment { return tx.w.store.moment() }

// Lets says why no one may send because of what is written, or nil.
func (tx *tx) Lets() error { return tx.w.gone }

func (s *handle) writable() error {
	switch {
	case s.copied != "":
		return fmt.Errorf("%w (%s)", ledger.ErrCopied, s.copied)
	case s.writer == nil:
		return ledger.ErrReadOnly
	}
	return nil
}

// mayWrite refuses where the file may not be written to now.
func (s *handle) mayWrite() error { return cmp.Or(s.writable(), s.anchored()) }

// meta is what the ledger knows of itself.
func (s *handle) meta(ctx context.Context) (m map[string]string, err error) {
	err = database{s}.View(ctx, func(tx store.Tx) (err error) {
		m, err = store.Meta(tx)
		return err
	})
	return m, err
}
