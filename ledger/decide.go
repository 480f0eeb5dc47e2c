package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb is what a person decides about an operation.
type Verb string

const (
	VerbConfirm Verb = "confirm" // it landed: uncertain → committed
	VerbDeny    Verb = "deny"    // it did not land, a person says: uncertain → failed
	VerbAbandon Verb = "abandon" // no one sends it any more: uncertain, failed → abandoned
	VerbAck     Verb = "ack"     // what is true of a conflict: settled by its Truth
	VerbPark    Verb = "park"    // out of the way until a time
	VerbUndo    Verb = "undo"    // committed, failed → uncertain; abandoned → what it was
	VerbNote    Verb = "note"    // a remark; changes nothing
	VerbRedact  Verb = "redact"  // its text is taken out, for good
)

// Decision is a person's decision about one operation, bound to the version
// that was seen (I7). Only a note may leave Version 0.
type Decision struct {
	ChangeID, ID string
	Version      int64
	Verb         Verb
	Reason       string // needed by all but confirm, park and some acks
	Actor        Actor
	Receipts     []string  // confirm: the effects found; two or more make a duplicate. ack: the one
	Truth        Truth     // ack
	Reference    string    // ack: the refund, the ticket
	Until        time.Time // park
	Key          bool      // redact: the key, too
	// Looks is when, after a confirm, a deny or an abandon, checks tell whether the
	// person was right (I9).
	Looks Looks
}

// Decide carries a decision out. Errors: *MovedError when the operation is not
// as it was seen or not in a state the verb starts from, *RefusedError for want
// of a reason or a person, ErrNotFound; for a redaction those of Describer.DigestKey.
func Decide(ctx context.Context, s Decider, d Decision) (Applied, error) {
	if d.Verb == VerbRedact {
		if _, err := s.DigestKey(ctx); err != nil { // which makes it where there is none yet
			return Applied{}, err
		}
	}
	if err := writeDown(ctx, s, d.ID, &d.Version); err != nil {
		return Applied{}, err
	}
	return changeBeside(ctx, s, Locator{ID: d.ID, Skip: AllParts}, d.ChangeID, d.Rule())
}

// Decider is what a decision needs of a store.
type Decider interface {
	Changer
	Reader
	DigestKey(ctx context.Context) ([]byte, error)
}

// writeDown records an overdue deadline before a person decides about what
// that showed as in doubt already, and moves the version seen along with it.
func writeDown(ctx context.Context, s Decider, id string, version *int64) error {
	rec, err := s.Read(ctx, Locator{ID: id, Skip: AllParts})
	if err != nil {
		return err
	}
	if o := rec.Operation; o.State != Pending || rec.State() != Uncertain {
		return nil
	}
	applied, err := s.Change(ctx, Locator{ID: rec.Operation.ID, Skip: AllParts}, NewID(), ExpireRule())
	if err == nil && applied.Before.Version == *version {
		*version = applied.After.Version
	}
	return err
}

// Rule is the decision as a pure rule, which a rehearsal applies to a record
// that was read.
func (d Decision) Rule() Rule {
	return func(rec *Record) (Change, error) {
		d := d
		return d.decide(seen(rec, &d.Version))
	}
}

// seen is the record as every reader must see it: an overdue deadline has passed.
func seen(rec *Record, version *int64) *Record {
	if !rec.Found || rec.Operation.State != Pending || rec.State() != Uncertain {
		return rec
	}
	c := expire(rec)
	late := *rec
	late.Operation = *c.Operation
	for _, a := range c.Attempts {
		late.Attempts = with(late.Attempts, a)
	}
	if *version == rec.Operation.Version {
		*version = late.Operation.Version
	}
	return &late
}

func (d Decision) decide(rec *Record) (Change, error) {
	if !rec.Found {
		return Change{}, fmt.Errorf("operation %s: %w", d.ID, ErrNotFound)
	}
	if err := d.check(rec); err != nil {
		return Change{}, err
	}
	o := rec.Operation
	d.Receipts = o.allKnown(rec.Mask, d.Receipts)
	c := Change{}
	if err := d.apply(rec, &o); err != nil {
		return Change{}, err
	}
	// What a check said against it before does not hide a later one that says the
	// same (I9).
	if d.Verb == VerbConfirm && o.Verdict == NotThere || d.Verb == VerbDeny && o.Verdict == Landed {
		o.Verdict = ""
	}
	switch d.Verb { // a note and a park move no version, and void no permission (I7)
	case VerbNote:
		o.touch(d.Actor)
	case VerbPark:
		note(rec, &o, d.Actor, d.reason())
	default:
		o.Version, o.ParkedUntil = rec.Operation.Version+1, time.Time{}
		note(rec, &o, d.Actor, d.reason())
		c.Allowed = voided(rec, fmt.Sprintf("%s by %s", d.Verb, d.Actor.Name))
	}
	c.Operation = &o
	more := map[string]any{}
	switch d.Verb {
	case VerbConfirm, VerbDeny, VerbAbandon:
		c.RecheckAt = d.Looks.next(o, rec.Now, true, false)
	case VerbRedact:
		c.Erase = &Erasure{Texts: rec.Operation.Texts()}
		for _, a := range rec.Attempts {
			c.Attempts = append(c.Attempts, a.Without(rec.Mask))
		}
	}
	if len(d.Receipts) > 0 {
		more["receipts"] = d.Receipts
	}
	if d.Verb == VerbAck {
		more["truth"] = d.Truth
	}
	if d.Reference != "" {
		more["reference"] = d.Reference
	}
	if !d.Until.IsZero() {
		more["until"] = d.Until.UTC().Format(time.RFC3339)
	}
	c.Event = &Event{ID: d.ChangeID, Verb: string(d.Verb), Actor: d.Actor, Reason: d.reason(), Detail: detail(more)}
	return c, nil
}

// check refuses what no state could allow.
func (d Decision) check(rec *Record) error {
	if d.Actor.Name == "" || d.Actor.Machine {
		return &RefusedError{Verb: string(d.Verb), Code: "no_person", Why: "only a person decides this", Hint: "say who you are with --as NAME"}
	}
	if err := d.Actor.MaySign(string(d.Verb)); err != nil {
		return err
	}
	if strings.TrimSpace(d.Reason) == "" && !slices.Contains([]Verb{VerbConfirm, VerbPark, VerbAck}, d.Verb) { // ack judges by its Truth
		return &RefusedError{Verb: string(d.Verb), Code: "incomplete", Why: "it needs a reason", Hint: "add --reason TEXT"}
	}
	if d.Verb == VerbNote && d.Version == 0 {
		return nil
	}
	if d.Version != rec.Operation.Version {
		return moved(rec, string(d.Verb), d.Version, false)
	}
	return nil
}

// startsFrom are the states that a verb changes.
var startsFrom = map[Verb][]State{
	VerbConfirm: {Uncertain},
	VerbDeny:    {Uncertain},
	VerbAbandon: {Uncertain, Failed},
	VerbUndo:    {Committed, Failed, Abandoned},
}

func (d Decision) apply(rec *Record, o *Operation) error {
	from := o.State
	if states, bound := startsFrom[d.Verb]; bound && !slices.Contains(states, from) {
		return moved(rec, string(d.Verb), d.Version, true)
	}
	switch d.Verb {
	case VerbConfirm:
		d.confirm(rec, o)
	case VerbDeny:
		o.State, o.SettledAt = Failed, rec.Now
	case VerbAbandon:
		o.abandon(rec.Now)
	case VerbAck:
		return d.ack(rec, o)
	case VerbPark:
		if !d.Until.After(rec.Now) {
			return &RefusedError{Verb: "park", Code: "incomplete", Why: "it needs a time that is still to come", Hint: "add --until 2h or --until 06:00"}
		}
		if from == Pending || from == Committed && o.Conflict == NoConflict || from == Abandoned {
			return moved(rec, string(d.Verb), d.Version, true)
		}
		o.ParkedUntil = d.Until
	case VerbUndo:
		if from != Abandoned || o.Fact == "" {
			return undo(rec, o)
		}
		o.takeUp()
	case VerbRedact:
		return d.redact(rec, o)
	case VerbNote:
	default:
		return fmt.Errorf("unknown verb %q", d.Verb)
	}
	return nil
}

// abandon says that no one sends it any more. What is known of it stays: its proofs, its
// verdict, and when it failed.
func (o *Operation) abandon(now time.Time) {
	if o.State == Uncertain {
		o.SettledAt = now
	}
	o.State, o.Fact = Abandoned, o.State
}

// takeUp undoes that: the operation is again what is known of it.
func (o *Operation) takeUp() {
	if o.Fact == Uncertain {
		o.SettledAt = time.Time{}
	}
	o.State, o.Fact = o.Fact, ""
}

// confirm settles an operation as landed, with the receipts that the person found.
func (d Decision) confirm(rec *Record, o *Operation) {
	for _, r := range d.Receipts {
		o.claim(strings.TrimSpace(r))
	}
	o.State, o.SettledAt = Committed, rec.Now
	o.Effects = max(o.Effects, len(o.Receipts), 1)
	o.ByAnswer, o.PersonOnly = false, true
	raiseRisked(rec, o, rec.Attempts)
	if o.Effects > 1 && !covered(*o) {
		raise(o, ConflictTwice, fmt.Sprintf("%s found %d effects", d.Actor.Name, o.Effects))
	}
}

// reason is what the history keeps; the database insists on one.
func (d Decision) reason() string {
	r := strings.TrimSpace(d.Reason)
	if d.Verb == VerbAck {
		words := append([]string{d.Truth.Words()}, d.Receipts...)
		if d.Truth == TakenBack {
			words = append(words, strings.TrimSpace(d.Reference))
		}
		return strings.TrimSuffix(strings.Join(words, ", ")+": "+r, ": ")
	}
	if r == "" && d.Verb == VerbConfirm {
		return strings.TrimSuffix("it landed: "+strings.Join(d.Receipts, ", "), ": ")
	}
	return cmp.Or(r, string(d.Verb))
}
