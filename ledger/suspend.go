package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// SuspendRequest reports an answer that is none yet: more input is wanted.
type SuspendRequest struct {
	ChangeID, AttemptID string
	Awaits              string          // names where the rest is to be asked for
	Instead             string          // not empty: only while the attempt awaits this, so that one of many goes on with it
	For                 time.Duration   // the attempt's new deadline, from now; at most MaxDeadline
	Result              json.RawMessage // what was said instead of an answer, kept until there is one
	Reason              string
	Actor               Actor
}

// Suspend keeps the attempt in flight past its deadline and records what it
// waits for. A *MovedError says that the attempt is not live any more, so that
// what it is told later is a late answer, or does not await Instead.
func Suspend(ctx context.Context, s Changer, r SuspendRequest) (Applied, error) {
	if r.Awaits == "" || r.For < MinDeadline {
		return Applied{}, fmt.Errorf("suspend: what is awaited, and for how long, are needed")
	}
	return s.Change(ctx, Locator{AttemptID: r.AttemptID, Skip: AllParts}, r.ChangeID, func(rec *Record) (Change, error) {
		if !rec.Found {
			return Change{}, fmt.Errorf("attempt %s: %w", r.AttemptID, ErrNotFound)
		}
		o := rec.Operation
		if rec.State() != Pending || o.LiveAttempt != r.AttemptID || r.Instead != "" && o.Awaits != r.Instead {
			return Change{}, moved(rec, "wait for the rest of the answer", 0, true)
		}
		a := *rec.Attempt(r.AttemptID)
		a.DeadlineAt = rec.Now.Add(min(r.For, MaxDeadline))
		a.Result = r.Result
		o.DeadlineAt, o.Awaits = a.DeadlineAt, r.Awaits
		note(rec, &o, r.Actor, r.Reason)
		return Change{Operation: &o, Attempts: []Attempt{a}, Event: &Event{ID: r.ChangeID, Verb: "wait", Actor: r.Actor,
			Reason: r.Reason, Detail: detail(map[string]any{"attempt": a.ID, "awaits": r.Awaits})}}, nil
	})
}

// Deliver notes that the caller has been given the operation's final answer. It
// moves no version and leaves no event: it is about the caller, not the effect.
func Deliver(ctx context.Context, s Changer, operationID string) error {
	_, err := s.Change(ctx, Locator{ID: operationID, Skip: AllParts}, NewID(), func(rec *Record) (Change, error) {
		if !rec.Found {
			return Change{}, fmt.Errorf("operation %s: %w", operationID, ErrNotFound)
		}
		if !rec.Operation.Undelivered || rec.State() == Pending {
			return Change{}, nil
		}
		o := rec.Operation
		o.Undelivered = false
		return Change{Operation: &o}, nil
	})
	return err
}
