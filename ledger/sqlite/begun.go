package sqlite

import (
	"cmp"
	"database/sql"
	"maps"

	"modernc.org/sqlite"

	"indoubt/ledger/tables"
)

// begun remembers what this connection began, and what it has leases on, as it stands
// in the ledger. Most attempts are settled by the process that began them, and most
// reads are written down by the one that has the lease; then they need not be read
// again. It holds while no one else has written: any other commit, and any write here
// that is not of operations it names, empties it.
type begun struct {
	version uint32                    // of the database, with these in it
	records map[string]*tables.Record // by the attempt in flight, or by the operation
	coming  map[string]*tables.Record // with the transaction that goes on
}

// mostBegun is how many are remembered.
const mostBegun = 1024

// versionOf moves with every commit of any connection.
func versionOf(conn *sql.Conn) (v uint32, err error) {
	err = conn.Raw(func(c any) error {
		v, err = c.(sqlite.FileControl).FileControlDataVersion("main")
		return err
	})
	return v, err
}

// check is made when a transaction begins, before anything is taken.
func (b *begun) check(conn *sql.Conn) {
	clear(b.coming)
	if len(b.records) == 0 {
		return
	}
	if v, err := versionOf(conn); err != nil || v != b.version {
		b.clear()
	}
}

func (b *begun) add(records []*tables.Record) {
	for _, rec := range records {
		b.coming[cmp.Or(rec.Operation.LiveAttempt, rec.Operation.ID)] = rec
	}
}

// keep takes in what came with a transaction, once that is committed.
func (b *begun) keep(conn *sql.Conn) {
	if len(b.records)+len(b.coming) == 0 {
		return
	}
	v, err := versionOf(conn)
	if len(b.records)+len(b.coming) > mostBegun {
		clear(b.records)
	}
	if b.version = v; err != nil {
		b.clear()
	}
	maps.Copy(b.records, b.coming)
}

// take gives the record of an attempt or an operation once: what becomes of it is not
// kept up here.
func (b *begun) take(id string) (rec tables.Record, ok bool) {
	kept := b.records[id]
	delete(b.records, id)
	delete(b.coming, id)
	if kept == nil {
		return rec, false
	}
	return *kept, true
}

// Foresee prepares the statement that an attempt which was begun here is settled with if
// it commits, while it is being sent. SQLite compiles it with most triggers of the ledger,
// which takes longer than to run it. Once for a connection is enough.
func (s *handle) Foresee(attempt string) {
	w := s.writer
	if w == nil || w.foreseen.Swap(true) {
		return
	}
	w.foreseeing.Store(true)
	go func() {
		defer w.foreseeing.Store(false)
		w.busy <- struct{}{}
		defer func() { <-w.busy }()
		if rec, ok := w.begun.records[attempt]; ok && w.conn != nil {
			if query := rec.Foresee(dialect, s.moment(), attempt); query != "" {
				_, _ = w.stmt(query)
			}
		}
	}()
}

func (b *begun) clear() {
	b.records, b.coming = map[string]*tables.Record{}, map[string]*tables.Record{}
}
