package tables

import (
	"time"

	"indoubt/ledger"
)

// largestKept is how much text of a record is remembered, in bytes.
const largestKept = 16 << 10

// at is the record without what is skipped, as the clocks stand.
func (rec Record) at(now ledger.Moment, skip ledger.Parts) Record {
	rec.Now, rec.Steady = now.Wall, now.Steady
	if skip&ledger.PartReads != 0 {
		rec.Reads = nil
	}
	return rec
}

// keep has the process remember an operation that begins here, where a look at it would take
// a round trip.
func (tx *tx) keep(c ledger.Change, o *ledger.Operation, a *ledger.Attempt) {
	if !tx.d.Far || !c.Insert || c.Then != nil || o.LiveAttempt != a.ID {
		return
	}
	if rec, ok := beginning(o, a); ok {
		tx.Keep(rec)
	}
}

// beginning is the record of an operation that has just begun, as it would be read.
func beginning(o *ledger.Operation, a *ledger.Attempt) (rec *Record, ok bool) {
	rec = &Record{Record: ledger.Record{Found: true, Attempts: make([]ledger.Attempt, 1)}}
	began := &rec.Attempts[0]
	size := reread(columns, o, &rec.Operation) + reread(attemptColumns, a, began)
	*began = attemptOf(o.ID, *began)
	return rec, size <= largestKept
}

// reread fills in what is read of a record that is written, and returns how much text
// it has.
func reread[T any](columns []column[T], row, out *T) (size int) {
	for _, c := range columns {
		switch from, to := c.field(row), c.field(out); f := from.(type) {
		case *string:
			*to.(*string) = *f
			size += len(*f)
		case *bool:
			*to.(*bool) = *f
		case *int:
			*to.(*int) = *f
		case *time.Time:
			*to.(*time.Time) = At(Millis(*f))
		default:
			if empty(from) {
				break
			}
			v := value(from)
			if s, ok := v.(string); ok {
				size += len(s)
			}
			set(to, v)
		}
	}
	return size
}
