package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// FetchRequest asks to send an attempt's request once more for its answer alone:
// a check found its effect, the answer was lost, and the other side answers a repeat
// under a key that it remembers with the answer it gave first.
type FetchRequest struct {
	AttemptID string
	Until     time.Time     // the other side remembers the key of what begins before it
	AsOf      Moment        // when that was worked out
	Deadline  time.Duration // of the transmission
	Actor     Actor
}

// Fetch records the intent to fetch (I1) and returns the attempt, with the start
// and the deadline of this transmission. An attempt's answer is fetched once: what
// comes of it is the attempt's late answer, if anything. Errors: *RefusedError
// (basis, conflict, hold, fetched), ErrNotFound.
func Fetch(ctx context.Context, s Changer, f FetchRequest) (Operation, Attempt, error) {
	var fetched Attempt
	applied, err := s.Change(ctx, Locator{AttemptID: f.AttemptID, Skip: AllParts &^ PartHolds}, DeriveID(f.AttemptID, "fetch"), func(rec *Record) (Change, error) {
		c, err := f.fetch(rec)
		if err == nil {
			fetched = *rec.Attempt(f.AttemptID)
			fetched.StartedAt, fetched.DeadlineAt = rec.Now, rec.Now.Add(f.Deadline)
		}
		return c, err
	})
	if err == nil && applied.Noop {
		err = &RefusedError{Verb: "fetch", Code: "fetched", Why: "its answer was asked for once already"}
	}
	return applied.After, fetched, err
}

func (f FetchRequest) fetch(rec *Record) (Change, error) {
	if !rec.Found {
		return Change{}, fmt.Errorf("attempt %s: %w", f.AttemptID, ErrNotFound)
	}
	no := func(code, why string) (Change, error) {
		return Change{}, &RefusedError{Verb: "fetch", Code: code, Why: why}
	}
	o, a, h := rec.Operation, rec.Attempt(f.AttemptID), rec.HeldBy()
	until := f.Until
	if !f.AsOf.Wall.IsZero() { // the clock may have been set back meanwhile
		until = until.Add(rec.Moment().Earliest(f.AsOf).Sub(f.AsOf.Wall))
	}
	switch {
	case f.Deadline < MinDeadline || f.Deadline > MaxDeadline:
		return Change{}, fmt.Errorf("fetch: a deadline of %s is outside %s … %s", f.Deadline, MinDeadline, MaxDeadline)
	case o.State != Committed || o.Verdict != Landed || slices.ContainsFunc(rec.Attempts, func(a Attempt) bool { return a.Final() == OutcomeCommitted }):
		return no("basis", "only the lost answer of what a check has found is fetched")
	case o.Conflict != NoConflict:
		return no("conflict", "it is in conflict: "+o.ConflictNote)
	case !a.KeyWorks || a.Final() != OutcomeUncertain || a.Proof != "" || !rec.Now.Before(until):
		return no("basis", "the other side is not known to remember this transmission")
	case h != nil:
		return no("hold", fmt.Sprintf("%s holds %s (%s)", h.Actor.Name, h.Scope, h.Reason))
	}
	why := fmt.Sprintf("attempt %d goes out once more under its key, for its answer", a.N)
	o.Version++
	note(rec, &o, f.Actor, why)
	return Change{Operation: &o, Grants: voided(rec, why), Event: &Event{Verb: "fetch", Actor: f.Actor, Reason: why,
		ID: DeriveID(f.AttemptID, "fetch"), Detail: detail(map[string]any{"attempt": a.ID, "n": a.N})}}, nil
}
