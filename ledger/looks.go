package ledger

import (
	"context"
	"slices"
	"time"
)

// lookAfter are the times, counted from when it was settled, at which an operation is
// looked for again whose effect may still come, or come once more (I9).
var lookAfter = []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}

const (
	// lookPause is the shortest pause before a look that could not be made is tried again.
	lookPause = 30 * time.Second
	// lookTries is how long a look is tried that no other one follows.
	lookTries = 24 * time.Hour
)

// Looks is what the policy of a kind says of looking for an operation again after it was
// settled. The zero Looks: it is not looked for.
type Looks struct {
	Check  bool          // the kind has a check
	Verify time.Duration // how long after each commit one more look is due; 0: none is
	// Lands is how long after an attempt ended its effect may still come and be seen; 0: not
	// stated. The last look is never before that.
	Lands time.Duration
}

// next is when a settled operation is looked for again; the zero time: never. open says
// that its effect may still come, or come once more; failed, that a look could not be made now.
// It is then tried again after a pause that grows, until the next one is due.
func (l Looks) next(o Operation, now time.Time, open, failed bool) time.Time {
	if !l.Check || o.State.Open() {
		return time.Time{}
	}
	var times []time.Duration
	if open {
		times = append(times, lookAfter...)
		if last := lookAfter[len(lookAfter)-1]; l.Lands >= last {
			times = append(times, l.Lands+lookAfter[0])
		}
	}
	if l.Verify > 0 && o.State == Committed {
		times = append(times, l.Verify)
	}
	slices.Sort(times)
	n := slices.IndexFunc(times, func(after time.Duration) bool { return o.SettledAt.Add(after).After(now) })
	next := time.Time{}
	if n >= 0 {
		next = o.SettledAt.Add(times[n])
	} else {
		n = len(times)
	}
	if n == 0 || !failed {
		return next
	}
	since := now.Sub(o.SettledAt.Add(times[n-1]))
	if again := now.Add(max(lookPause, since)); since < lookTries && (next.IsZero() || again.Before(next)) {
		return again
	}
	return next
}

// mayStillLand reports whether more may come of a settled operation than is recorded. refused
// says whether a refusal is only assumed to be one.
func mayStillLand(o Operation, attempts []Attempt, refused bool) bool {
	if o.State != Committed {
		return slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Final() == OutcomeUncertain || refused && a.Proof == Refused })
	}
	if !o.ByAnswer && o.Verdict != Landed { // a person's word
		return true
	}
	n := 0
	for _, a := range attempts {
		if a.Final() == OutcomeUncertain && !a.KeyWorks {
			n++
		}
	}
	if !o.ByAnswer || slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Already && a.Final() == OutcomeCommitted }) {
		n-- // it is the one that was found
	}
	return n > 0
}

// LookAgain schedules the next look for an operation that may have landed twice, whoever
// settled it. It leaves alone what is open, and what was settled too long ago. Errors:
// ErrNotFound.
func LookAgain(ctx context.Context, s Changer, id string, l Looks) error {
	_, err := s.Change(ctx, Locator{ID: id, Skip: AllParts}, NewID(), func(rec *Record) (Change, error) {
		if !rec.Found {
			return Change{}, ErrNotFound
		}
		return Change{RecheckAt: l.next(rec.Operation, rec.Now, mayStillLand(rec.Operation, rec.Attempts, false), false)}, nil
	})
	return err
}
