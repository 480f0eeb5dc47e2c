package sqlite

import (
	"database/sql"
	"maps"

	"modernc.org/sqlite"

	"indoubt/ledger"
)

// begun remembers what this connection began, as it stands in the ledger. Most
// attempts are settled by the process that began them, and then need not be read
// again. It holds while no one else has written: any other commit, and any write here
// that is no change of one operation, empties it.
type begun struct {
	version uint32            // of the database, with these in it
	records map[string]record // by the attempt in flight
	coming  map[string]record // with the transaction that goes on
}

const (
	mostBegun    = 256
	largestBegun = 16 << 10 // bytes of text
)

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

func (b *begun) add(records []record) {
	for _, rec := range records {
		b.coming[rec.Operation.LiveAttempt] = rec
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

// take gives the record of an attempt once: what becomes of it is not kept up here.
func (b *begun) take(attempt string) (record, bool) {
	rec, ok := b.records[attempt]
	delete(b.records, attempt)
	delete(b.coming, attempt)
	return rec, ok
}

func (b *begun) clear() { b.records, b.coming = map[string]record{}, map[string]record{} }

// beginning is the record of an operation that has just begun, as it would be read.
func beginning(o ledger.Operation, a ledger.Attempt) (rec record, ok bool) {
	size := 0
	rec.Found = true
	rec.Operation = reread(columns, &o, &size)
	a.EndedSteady.Boot = seenBoot(a)
	rec.Attempts = []ledger.Attempt{attemptOf(o.ID, reread(attemptColumns, &a, &size))}
	return rec, size <= largestBegun
}

// reread is what is read of a record that is written, and adds how much text it has.
func reread[T any](columns []column[T], row *T, size *int) (out T) {
	for _, c := range columns {
		switch from, to := c.field(row), c.field(&out); f := from.(type) {
		case *string:
			*to.(*string) = *f
			*size += len(*f)
		case *bool:
			*to.(*bool) = *f
		case *int:
			*to.(*int) = *f
		default:
			v := value(from)
			if s, ok := v.(string); ok {
				*size += len(s)
			}
			set(to, v)
		}
	}
	return out
}
