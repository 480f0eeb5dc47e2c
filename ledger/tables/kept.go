package tables

import (
	"context"
	"slices"
	"time"

	"indoubt/ledger"
)

// largestKept is how much text of a record is remembered, in bytes.
const largestKept = 16 << 10

// notLeased are the parts that a record has not, or that others may change, while it is
// remembered for its lease.
const notLeased = ledger.PartRelated | ledger.PartHolds | ledger.PartPricing

// leased is the record of an operation on which a lease was taken, to be remembered
// beside the one that is given away.
func leased(rec Record) (_ Record, ok bool) {
	o := rec.Operation
	rec.Attempts, rec.Reads, rec.Grants = slices.Clone(rec.Attempts), slices.Clone(rec.Reads), slices.Clone(rec.Grants)
	rec.Related, rec.Holds, rec.Pricing, rec.lacks = nil, nil, ledger.Pricing{}, notLeased
	return rec, o.LiveAttempt == "" && len(o.Input)+len(o.Result) <= largestKept
}

// at is the record without what is skipped, as the clocks stand.
func (rec Record) at(now ledger.Moment, skip ledger.Parts) Record {
	rec.Now, rec.Steady = now.Wall, now.Steady
	if skip&ledger.PartReads != 0 {
		rec.Reads = nil
	}
	if skip&ledger.PartLease != 0 || !rec.Lease.ExpiresAt.After(now.Wall) {
		rec.Lease = ledger.Lease{}
	}
	return rec
}

// beginning is the record of an operation that has just begun, as it would be read.
func beginning(o *ledger.Operation, a *ledger.Attempt) (rec *Record, ok bool) {
	rec = &Record{Record: ledger.Record{Found: true, Attempts: make([]ledger.Attempt, 1)}, lacks: ledger.AllParts}
	began := &rec.Attempts[0]
	size := reread(columns, o, &rec.Operation) + reread(attemptColumns, a, began)
	began.EndedSteady.Boot = endedBoot(*a)
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

// Foresee is the statement that an attempt of the record is settled with if it commits,
// or nothing.
func (rec Record) Foresee(d *Dialect, now ledger.Moment, attempt string) string {
	f := foreseen{rec: rec, d: d, now: now}
	_, _ = ledger.Settle(context.Background(), &f, ledger.SettleRequest{AttemptID: attempt, Outcome: ledger.OutcomeCommitted})
	return f.query
}

// foreseen applies a rule to a record and writes nothing.
type foreseen struct {
	rec   Record
	d     *Dialect
	now   ledger.Moment
	query string
}

func (f *foreseen) Change(_ context.Context, loc ledger.Locator, _ string, rule ledger.Rule) (ledger.Applied, error) {
	rec := f.rec.at(f.now, loc.Skip)
	rec.Attempts = slices.Clone(rec.Attempts)
	c, err := rule(&rec.Record)
	if err == nil && c.Operation != nil && c.Event != nil {
		round(columns, c.Operation)
		f.query, _ = updateOperation(f.d, &f.rec.Operation, c.Operation, time.Time{}, time.Time{}, *c.Event, false)
	}
	return ledger.Applied{}, err
}
