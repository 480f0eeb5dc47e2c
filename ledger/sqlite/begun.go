package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"

	"modernc.org/sqlite"

	"indoubt/ledger"
)

// begun remembers what this connection began, and what it has leases on, as it stands
// in the ledger. Most attempts are settled by the process that began them, and most
// reads are written down by the one that has the lease; then they need not be read
// again. It holds while no one else has written: any other commit, and any write here
// that is not of operations it names, empties it.
type begun struct {
	version uint32            // of the database, with these in it
	records map[string]record // by the attempt in flight, or by the operation
	coming  map[string]record // with the transaction that goes on
}

const (
	mostBegun    = 1024
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
func (b *begun) take(id string) (record, bool) {
	rec, ok := b.records[id]
	delete(b.records, id)
	delete(b.coming, id)
	return rec, ok
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
			_, _ = ledger.Settle(context.Background(), foreseen{w, rec}, ledger.SettleRequest{AttemptID: attempt, Outcome: ledger.OutcomeCommitted})
		}
	}()
}

// foreseen applies a rule to a record and writes nothing.
type foreseen struct {
	w *writer
	record
}

func (f foreseen) Change(_ context.Context, loc ledger.Locator, _ string, rule ledger.Rule) (ledger.Applied, error) {
	rec := f.at(f.w.store.moment(), loc.Skip)
	rec.Attempts = slices.Clone(rec.Attempts)
	c, err := rule(&rec.Record)
	if err == nil && c.Operation != nil && c.Event != nil {
		query, _ := updateOperation(f.Operation, kept(columns, *c.Operation), 0, 0, *c.Event)
		_, err = f.w.stmt(query)
	}
	return ledger.Applied{}, err
}

// forget drops what is known of an operation that is about to change.
func (b *begun) forget(o ledger.Operation) {
	b.take(o.ID)
	b.take(o.LiveAttempt)
}

// notLeased are the parts that a record has not, or that others may change, while it is
// remembered for its lease.
const notLeased = ledger.PartRelated | ledger.PartHolds | ledger.PartPricing

// leased is the record of an operation on which a lease was taken, to be remembered
// beside the one that is given away.
func leased(rec record) (_ record, ok bool) {
	o := rec.Operation
	rec.Attempts, rec.Reads, rec.Grants = slices.Clone(rec.Attempts), slices.Clone(rec.Reads), slices.Clone(rec.Grants)
	rec.Related, rec.Holds, rec.Pricing, rec.lacks = nil, nil, ledger.Pricing{}, notLeased
	return rec, o.LiveAttempt == "" && len(o.Input)+len(o.Result) <= largestBegun
}

// at is the record without what is skipped, as the clocks stand.
func (rec record) at(now ledger.Moment, skip ledger.Parts) record {
	rec.Now, rec.Steady = now.Wall, now.Steady
	if skip&ledger.PartReads != 0 {
		rec.Reads = nil
	}
	if skip&ledger.PartLease != 0 || !rec.Lease.ExpiresAt.After(now.Wall) {
		rec.Lease = ledger.Lease{}
	}
	return rec
}

func (b *begun) clear() { b.records, b.coming = map[string]record{}, map[string]record{} }

// beginning is the record of an operation that has just begun, as it would be read.
func beginning(o ledger.Operation, a ledger.Attempt) (rec record, ok bool) {
	size := 0
	rec.Found, rec.lacks = true, ledger.AllParts
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
