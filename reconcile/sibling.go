package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/verdict"
)

const (
	// maxSiblings bounds how many operations are looked up by the marks of one answer.
	maxSiblings = 500
	// nearest is how many of them are read on each side, until one fits, and newest how
	// many that landed are looked at for one to ask for.
	nearest, newest = 8, 50
)

// siblingSearch looks for other operations that the check of one shows.
type siblingSearch struct {
	*reader
	policy.Sighted
	found  findings
	digest string
	eager  bool
}

// siblings are other operations that the check finds: in the very same answer, else by this
// operation's own request with nothing but its token replaced.
func (s siblingSearch) siblings(ctx context.Context) (out verdict.Siblings) {
	o := s.Record.Operation
	tokens := policy.TokensIn(s.found.Marks)
	tokens = append(tokens[:min(len(tokens), maxSiblings)], o.Token)
	known, err := s.o.Store.Siblings(ctx, ledger.SiblingQuery{Kind: o.Kind, Tokens: tokens, Limit: maxSiblings})
	own := slices.IndexFunc(known, func(b ledger.Sibling) bool { return b.ID == o.ID })
	if err != nil || own < 0 {
		out.Cause, out.Why = ledger.CauseUnchecked, "the ledger named no other operation to try this check on"
		if err != nil {
			out.Why += ": " + err.Error()
		}
		return out
	}
	shown := func(other ledger.Record) bool { return s.Shows(s.found.Marks, other) }
	older, younger := s.sides(known, known[own])
	s.name(ctx, &out, older, younger, shown)
	if s.enough(out) || !s.Asks() {
		return out
	}
	s.ask(ctx, &out, known[own])
	return out
}

// enough reports whether no further sibling could change the verdict.
func (s siblingSearch) enough(found verdict.Siblings) bool {
	return found.Older != "" && (found.Younger != "" || s.Consistent())
}

// sides are the siblings before an operation and after it, the nearest first. Of what was sent before the history tells
// of it only the time says what came before, and of what the ledger may have lost also what came after.
func (s siblingSearch) sides(all []ledger.Sibling, own ledger.Sibling) (older, younger []ledger.Sibling) {
	rec := s.Record
	sentBefore, forgotten := sentBy(rec, ledger.SenderImport, ledger.SenderForgotten), sentBy(rec, ledger.SenderForgotten)
	lost := rec.LostEnd(s.Deadline) // the history may lack an attempt until then
	for _, b := range all {
		switch {
		case b.Failed || b.ID == own.ID || b.Began == 0 || b.Ended == 0 || b.EndedAt.IsZero():
		case b.Ended < own.Began && (!sentBefore || b.EndedAt.Before(rec.Operation.StartedAt)):
			older = append(older, b)
		case (b.Began > own.Ended || forgotten) && b.BornAt.After(lost):
			younger = append(younger, b)
		}
	}
	slices.SortFunc(older, func(a, b ledger.Sibling) int { return cmp.Compare(b.Ended, a.Ended) })
	slices.SortFunc(younger, func(a, b ledger.Sibling) int { return cmp.Compare(a.Began, b.Began) })
	return older, younger
}

// name takes the first sibling of each side that fits and is shown.
func (s siblingSearch) name(ctx context.Context, out *verdict.Siblings, older, younger []ledger.Sibling, shown func(ledger.Record) bool) {
	for _, side := range []struct {
		of   []ledger.Sibling
		name *string
	}{{older, &out.Older}, {younger, &out.Younger}} {
		other, err := s.first(ctx, side.of, side.name == &out.Older, shown)
		if err != nil {
			out.Cause, out.Why = ledger.CauseUnchecked, "the ledger did not tell of another operation: "+err.Error()
			return
		}
		if other.ID != "" {
			*side.name = short(other)
		}
	}
}

// first is the nearest of some siblings that this check may be tried on; without an id where there is none. What was
// sent before the history tells of it is not known to be younger.
func (s siblingSearch) first(ctx context.Context, of []ledger.Sibling, older bool, shown func(ledger.Record) bool) (ledger.Operation, error) {
	for _, b := range of[:min(len(of), nearest)] {
		r, err := s.o.Store.Read(ctx, ledger.Locator{ID: b.ID, Skip: ledger.AllParts})
		if err != nil {
			return ledger.Operation{}, err
		}
		known := older || !sentBy(r, ledger.SenderImport, ledger.SenderForgotten)
		if known && s.Fits(r.Operation) && shown(r) {
			return r.Operation, nil
		}
	}
	return ledger.Operation{}, nil
}

// sentBy reports whether an attempt has one of these senders.
func sentBy(rec ledger.Record, senders ...string) bool {
	return slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool { return slices.Contains(senders, a.Sender) })
}

// ask makes the check for what is known to have landed, on each side where none was found.
func (s siblingSearch) ask(ctx context.Context, out *verdict.Siblings, own ledger.Sibling) {
	o := s.Record.Operation
	for _, side := range []struct {
		before time.Time
		name   *string
		pick   func(older, younger []ledger.Sibling) []ledger.Sibling
	}{
		{o.StartedAt, &out.Older, func(older, _ []ledger.Sibling) []ledger.Sibling { return older }},
		{ledger.Never, &out.Younger, func(_, younger []ledger.Sibling) []ledger.Sibling { return younger }},
	} {
		if *side.name != "" || s.enough(*out) {
			continue
		}
		landed, err := s.o.Store.Siblings(ctx, ledger.SiblingQuery{Kind: o.Kind, Before: side.before, Limit: newest})
		var other ledger.Operation
		if err == nil {
			other, err = s.first(ctx, side.pick(s.sides(landed, own)), side.name == &out.Older, func(ledger.Record) bool { return true })
		}
		if err != nil {
			out.Cause, out.Why = ledger.CauseUnchecked, "the ledger did not tell what landed: "+err.Error()
			return
		}
		if other.ID == "" {
			continue
		}
		if cause, why := s.finds(ctx, other); cause != "" {
			out.Cause, out.Why = cause, why
			continue
		}
		*side.name = short(other)
	}
}

// finds says why the check does not find another operation that is known to have landed; ""
// when it does. It begins no earlier than the check itself: another side that has gone blind
// since would else be vouched for. Checks that are made at once share it.
func (s siblingSearch) finds(ctx context.Context, other ledger.Operation) (ledger.Cause, string) {
	asked, err := s.For(other.Token)
	if err != nil {
		return ledger.CauseUnchecked, "the check cannot be asked for another operation: " + err.Error()
	}
	cause, why := s.controlled(ctx, "sibling\x00"+s.Name+"\x00"+s.digest+"\x00"+asked.Key, s.found.from.Steady.At, s.eager, func() (ledger.Cause, string) {
		rec, err := asked.Record()
		if err != nil {
			return ledger.CauseUnchecked, err.Error()
		}
		f := s.read(ctx, s.Kind, rec)
		switch {
		case f.Trouble != "", f.Stale != "":
			return ledger.CauseUnchecked, "the check could not be tried on another operation: " + cmp.Or(f.Trouble, f.Stale)
		case len(f.Effects) == 0:
			return ledger.CauseBlind, "the check may be blind: it does not find " + short(other) + " either, which is known to have landed"
		}
		return s.negative(ctx, s.Kind, s.Record, s.digest, s.found.from, s.eager)
	})
	if cause == "" {
		if why = changedRequest(s.Kind, s.Record, s.found); why != "" {
			cause = ledger.CauseUnchecked
		}
	}
	return cause, why
}

// short names an operation for a person.
func short(o ledger.Operation) string { return cmp.Or(o.Receipt(), o.Title, o.ID) }

const (
	// maxOthers bounds how many other operations are compared with what was found.
	maxOthers = 500
	// markingTime bounds how long a check waits for the marks of operations that
	// were written without one.
	markingTime = 2 * time.Second
)

// shared says why what was found by a name may be another operation's effect:
// another one that may have acted has the same mark.
func (e *reader) shared(ctx context.Context, k *policy.Kind, rec ledger.Record, effects []verdict.Effect) (ledger.Cause, string) {
	if k.Read.Identity() != verdict.ByName {
		return "", ""
	}
	name, err := k.Read.Name(rec.Operation)
	if err != nil {
		return ledger.CauseUnchecked, err.Error()
	}
	if err := e.markAll(ctx); err != nil {
		return ledger.CauseUnchecked, "whether another operation has the same mark is not known: " + err.Error()
	}
	ids, err := e.o.Store.Marked(ctx, name, maxOthers)
	if err == nil && len(ids) == maxOthers {
		return ledger.CauseShared, fmt.Sprintf("%d operations or more have the mark %s, and one of them may have made it", maxOthers, name)
	}
	var others []ledger.Record
	if err == nil {
		others, err = e.o.Store.Records(ctx, ids)
	}
	if err != nil {
		return ledger.CauseUnchecked, "another operation may have made it, and the ledger did not tell: " + err.Error()
	}
	for _, other := range others {
		p := other.Operation
		if p.ID != rec.Operation.ID && k.SameSide(e.policy().Kind(p.Kind)) && !neverActed(other) && !accountedFor(other, effects) {
			return ledger.CauseShared, fmt.Sprintf("%s has the same mark, %s, and may have made it", p.ID, name)
		}
	}
	return "", ""
}

// markAll gives marks to every operation that was written without them, or under
// other rules.
func (e *reader) markAll(ctx context.Context) error {
	for began := time.Now(); ; {
		more, err := e.mark(ctx, batch)
		switch {
		case err != nil || !more:
			return err
		case time.Since(began) > markingTime:
			return fmt.Errorf("the ledger has many operations without a mark; they are being given one")
		}
	}
}

// mark gives marks to some of them.
func (e *reader) mark(ctx context.Context, many int) (more bool, err error) {
	pol := e.policy()
	return e.o.Store.Mark(ctx, func(kind string) string { return pol.Kind(kind).MarkRules() },
		func(o ledger.Operation) ledger.Marks { return pol.Kind(o.Kind).Marks(o) }, many)
}

// known reports whether every effect found is already recorded for the operation.
func known(o ledger.Operation, found []verdict.Effect) bool {
	return !slices.ContainsFunc(found, func(f verdict.Effect) bool { return f.Receipt == "" || !slices.Contains(o.Receipts, f.Receipt) })
}

// accountedFor reports whether every effect of an operation is known, by its own
// answer and never in doubt, and none of them is among those found.
func accountedFor(rec ledger.Record, found []verdict.Effect) bool {
	o := rec.Operation
	return o.State == ledger.Committed && o.ByAnswer && !o.Doubted && len(o.Receipts) > 0 && len(o.Receipts) >= o.Effects &&
		!slices.ContainsFunc(found, func(f verdict.Effect) bool { return f.Receipt == "" || slices.Contains(o.Receipts, f.Receipt) })
}

// neverActed reports whether every attempt is known to have had no effect.
func neverActed(rec ledger.Record) bool {
	return rec.Operation.State == ledger.Failed && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool {
		return a.Proof != ledger.ProofNotThere && (a.Final() != ledger.OutcomeFailed || a.Proof == "")
	})
}
