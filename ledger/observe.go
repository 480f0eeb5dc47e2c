package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Observation is a reconcile read with what may follow from it. Whether a
// verdict was earned (I6) is judged by the engine that read; the rule here decides
// what it does to an operation.
type Observation struct {
	ChangeID string
	Read     Read
	Version  int64 // of the operation when the read began; of an older one absence settles nothing (I7)
	Settles  bool  // its verdict may settle the operation
	Actor    Actor
	// Result is the one effect that was found, as the downstream shows it: the
	// answer a pipeline gets that asks again. Redacted and bounded.
	Result json.RawMessage
	Looks  Looks // when it is looked for again where it is settled by then
	Failed bool  // the read could not be made, or shows nothing that is new
	// Pricing schedules the next read, in the same transaction.
	Pricing *Pricing
	Seen    any // see Locator.Seen
}

// Observe records a read and applies its verdict. A read that cannot tell moves
// nothing but is kept. Errors: ErrNotFound.
func Observe(ctx context.Context, s Changer, o Observation) (Applied, error) {
	at := Locator{ID: o.Read.OperationID, Skip: PartRelated | PartHolds | PartPricing, Seen: o.Seen}
	return changeBeside(ctx, s, at, o.ChangeID, o.Rule())
}

// Rule is the observation as a pure rule, which the engine also applies to
// the record it read, to schedule the next read.
func (o Observation) Rule() Rule {
	return func(rec *Record) (Change, error) {
		c, err := observe(rec, o)
		if c.Read == nil {
			return c, err
		}
		now, attempts := rec.Operation, rec.Attempts
		if c.Operation != nil {
			now = *c.Operation
		}
		for _, a := range c.Attempts {
			attempts = with(attempts, a)
		}
		half := c.Read.Verdict == Landed && c.Read.Cause != "" // there may be another one, out of sight
		c.RecheckAt = o.Looks.next(now, rec.Now, half || mayStillLand(now, attempts, true), o.Failed)
		return c, err
	}
}

func observe(rec *Record, ob Observation) (Change, error) {
	if !rec.Found {
		return Change{}, fmt.Errorf("operation %s: %w", ob.Read.OperationID, ErrNotFound)
	}
	if slices.ContainsFunc(rec.Reads, func(r Read) bool { return r.ID == ob.Read.ID }) {
		return Change{}, nil // its commit was in doubt, and it is there
	}
	o, read := rec.Operation, ob.Weighed(rec)
	read.Seen, read.Over = rec.Steady, rec.over()
	c := Change{Read: &read}
	if ob.Version == o.Version { // else it was worked out for what the operation was
		c.Pricing = ob.Pricing
	}
	if !read.Verdict.Tells() {
		return c, nil
	}
	if ob.Version != o.Version && read.Verdict == NotThere {
		read.Reason += fmt.Sprintf(" (seen at version %d, now %d: kept as evidence only)", ob.Version, o.Version)
		return c, nil
	}
	before := o
	switch {
	case o.State == Pending: // in flight, or its deadline has passed and is not written down yet
		return c, nil
	case o.State == Uncertain:
		observeDoubt(rec, &o, &c, read, ob)
	default:
		observeSettled(&o, read)
		if ob.proves(rec, o, read) {
			if c.Attempts = proven(rec.Attempts); len(c.Attempts) > 0 {
				o.Verdict = NotThere // it was a person's word, or not known, and is proven now
				o.failedAfterAll(rec.Now)
			}
		}
	}
	if o.State == before.State && o.Conflict == before.Conflict && o.Verdict == before.Verdict && o.Effects == before.Effects && len(o.ClaimedReceipts) == len(before.ClaimedReceipts) && len(c.Attempts) == 0 {
		return c, nil
	}
	o.Version++
	note(rec, &o, ob.Actor, read.Reason)
	c.Operation = &o
	c.Allowed = voided(rec, "a check found: "+read.Reason)
	c.Event = &Event{ID: ob.ChangeID, Verb: "read", Actor: ob.Actor, Reason: read.Reason,
		Detail: detail(map[string]any{"read": read.ID, "verdict": string(read.Verdict), "receipts": read.Receipts, "found": read.Found})}
	return c, nil
}

// Weighed is the read with the verdict that it has for this record. Absence proves
// nothing after "landed" was said (I12), nor while a process may still write.
func (ob Observation) Weighed(rec *Record) Read {
	read, o := ob.Read, rec.Operation
	read.Receipts = o.allKnown(rec.Mask, read.Receipts)
	if rec.Mask == nil && (read.Verdict == Landed || read.Verdict == Twice) && len(read.Receipts) > 0 &&
		len(read.Receipts) <= len(o.Receipts) && slices.ContainsFunc(o.Receipts, IsMasked) {
		read.Verdict, read.Cause = CannotTell, CauseUnidentified
		read.Reason = "its receipts were redacted: who does not have the ledger's key cannot compare them"
	}
	if read.Verdict == NotThere && (rec.State() == Uncertain && o.PersonOnly || o.State == Committed && o.ByAnswer) {
		read.Verdict, read.Reason = CannotTell, "not there now, but it was said to have landed: "+o.Reason
	}
	if read.finds() && o.State != Committed && len(read.Receipts) > 0 && dealtWith(o, read.Receipts) {
		read.Verdict, read.Cause = CannotTell, CauseUnidentified
		read.Reason = fmt.Sprintf("it found only %s, which %s has dealt with: %s", strings.Join(read.Receipts, ", "), o.Actor, o.Reason)
	}
	if lost := rec.LostEnd(0); read.Verdict == NotThere && (rec.LostCommand() || !read.BeganAt.After(lost)) {
		read.Verdict, read.Cause = CannotTell, CauseNone
		read.Reason = "not there, but an attempt that the ledger has lost may have gone on until " + lost.UTC().Format(time.RFC3339)
	}
	if a := rec.OpenTree(); a != nil && read.Verdict == NotThere {
		read.Verdict, read.Reason = CannotTell, fmt.Sprintf("not there, but a process of attempt %d may still write: it was not seen to end", a.N)
	}
	return read
}

// finds reports whether the read found an effect.
func (r Read) finds() bool {
	return r.Verdict == Landed || r.Verdict == Twice || r.Verdict == Different
}

// proves reports whether a read proves what a person has said, or has left open: that it
// did not land.
func (ob Observation) proves(rec *Record, o Operation, read Read) bool {
	return (o.State == Failed || o.Fact != "") && read.Verdict == NotThere && o.Conflict == NoConflict && !o.PersonOnly &&
		ob.denies(rec, read)
}

// denies reports whether a read that finds nothing may prove that nothing happened: it
// may settle, it began after the last attempt had ended, and no attempt was
// redirected (I6).
func (ob Observation) denies(rec *Record, read Read) bool {
	return ob.Settles && read.BeganAt.After(lastEnd(rec)) && !slices.ContainsFunc(rec.Attempts, Attempt.Redirected)
}

// observeDoubt applies a conclusive verdict to an operation in doubt.
func observeDoubt(rec *Record, o *Operation, c *Change, read Read, ob Observation) {
	o.Verdict = read.Verdict
	for _, r := range read.Receipts {
		learn(o, r)
	}
	switch read.Verdict {
	case Landed, Twice:
		if o.PersonOnly || !ob.Settles && read.Verdict == Landed {
			break // a person settles; the verdict stands beside it
		}
		o.State, o.SettledAt = Committed, rec.Now
		o.Effects = max(o.Effects, read.Found, 1)
		o.ByAnswer = false
		if len(o.Result) == 0 && read.Verdict == Landed {
			o.Result = ob.Result
		}
		o.PersonOnly = true
		raiseRisked(rec, o, rec.Attempts)
		if read.Verdict == Twice {
			raise(o, ConflictTwice, read.Reason)
		}
	case Different:
		if rec.Operation.Verdict != Different { // else it was raised, and may have been dealt with
			raise(o, ConflictDifferent, read.Reason)
		}
		o.PersonOnly = true
	case NotThere:
		if !ob.denies(rec, read) {
			break
		}
		o.State, o.SettledAt = Failed, rec.Now
		c.Attempts = proven(rec.Attempts)
	}
	if o.PersonOnly && read.Verdict == Twice && o.State == Uncertain {
		o.Effects = max(o.Effects, read.Found)
		raise(o, ConflictTwice, read.Reason)
	}
}

// proven are the attempts that may have acted, now that they are proven not to have.
func proven(attempts []Attempt) []Attempt {
	var out []Attempt
	for _, a := range attempts {
		if final := a.Final(); a.Proof == "" && (final == OutcomeUncertain || final == OutcomeFailed) {
			a.Proof = ProofNotThere
			out = append(out, a)
		}
	}
	return out
}

// observeSettled compares a verdict with what is recorded. It never changes a
// settled state: it raises what disagrees (I9).
func observeSettled(o *Operation, read Read) {
	found := len(read.Receipts) > 0
	switch {
	case o.State == Committed && read.Verdict == Landed && found && slices.Contains(o.ClaimedReceipts, read.Receipts[0]):
		learn(o, read.Receipts[0]) // a person was right
		o.Verdict = Landed
	case found && read.Verdict != Different && dealtWith(*o, read.Receipts):
	case o.State == Committed && read.Verdict == Landed && found && !slices.Contains(o.Receipts, read.Receipts[0]):
		foundAnother(o, read)
	case read.repeats(o): // perhaps dealt with
	case read.Verdict == Twice:
		for _, r := range read.Receipts {
			learn(o, r)
		}
		o.Effects = max(o.Effects, read.Found)
		o.Verdict = Twice
		why := read.Reason
		if o.State != Committed {
			why = fmt.Sprintf("recorded as %s by %s (%s), but a later check found more than one: %s", o.State, o.Actor, o.Reason, read.Reason)
			o.PersonOnly = true
		}
		raise(o, ConflictTwice, why)
	case o.State == Committed && read.Verdict == NotThere:
		raise(o, ConflictDisputed, fmt.Sprintf("recorded as landed by %s (%s), but a later check found nothing", o.Actor, o.Reason))
		o.Verdict = NotThere
	case o.State == Committed && read.Verdict == Different:
		raise(o, ConflictDifferent, read.Reason)
		o.Verdict = Different
	case o.State != Committed && (read.Verdict == Landed || read.Verdict == Different):
		for _, r := range read.Receipts {
			learn(o, r)
		}
		raise(o, ConflictDisputed, fmt.Sprintf("recorded as %s by %s (%s), but a later check found it", o.State, o.Actor, o.Reason))
		o.Verdict, o.Effects, o.PersonOnly = read.Verdict, max(o.Effects, read.Found), true
	}
}

// repeats reports whether a read says what is known of a settled operation. Of one that was
// abandoned it contradicts that, whatever a check had found before.
func (r Read) repeats(o *Operation) bool {
	return o.Verdict == r.Verdict && !r.tells(o) && o.Fact == ""
}

// tells reports whether a read says more than the one before it that had the same
// verdict: another receipt, or without receipts another effect.
func (r Read) tells(o *Operation) bool {
	if r.Verdict == Twice {
		return len(r.Receipts) > 0 || r.Found > max(o.Effects, 2)
	}
	return slices.ContainsFunc(r.Receipts, func(id string) bool { return !slices.Contains(o.Receipts, id) && !slices.Contains(o.AckedReceipts, id) })
}

// foundAnother deals with one effect found that is not one of those known: two
// receipts are two effects, where more than one send could have made them.
func foundAnother(o *Operation, read Read) {
	known := o.Receipts
	learn(o, read.Receipts[0])
	o.Verdict = Landed
	switch {
	case len(known) == 0:
	case o.AttemptCount > 1:
		o.Effects, o.Verdict = max(o.Effects, len(o.Receipts)), Twice
		raise(o, ConflictTwice, fmt.Sprintf("recorded as %s by %s, and a later check found %s beside it", strings.Join(known, ", "), o.Actor, read.Receipts[0]))
	default:
		raise(o, ConflictDisputed, fmt.Sprintf("recorded as %s by %s (%s), but a later check found %s", strings.Join(known, ", "), o.Actor, o.Reason, read.Receipts[0]))
	}
}
