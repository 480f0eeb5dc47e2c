package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Relation is another operation that matters to a decision about this one: it
// wants the same (the same input, or the same fields that make its kind's key), or
// it came later on the same target.
type Relation struct {
	ID        string
	Title     string
	State     State
	Source    Source
	CreatedAt time.Time
	SettledAt time.Time // zero while it is not settled
	Receipt   string    // the first that is known
	SameKey   bool      // it has, or had, the same key
	Overtook  bool      // first sent later on the same target; otherwise one with the same input or key fields
	// MayHaveLanded: it landed or may have. False only where every attempt of it
	// is known to have had no effect.
	MayHaveLanded bool
}

// NoEffect reports whether an attempt is known to have had no effect.
func (a Attempt) NoEffect() bool {
	return a.Proof != "" && (a.Final() == OutcomeFailed || a.Proof == ProofNotThere)
}

// MayHaveLanded reports whether an operation with these attempts landed or may
// have. A proof that was contradicted or undone proves nothing (I12).
func MayHaveLanded(o Operation, attempts []Attempt) bool {
	return o.State != Failed && o.State != Abandoned || o.HandsOff || !allProven(o, attempts)
}

// Landings are the related operations that landed or may have: one more attempt
// may do again, or undo, what they did.
func (r *Record) Landings() []Relation {
	var out []Relation
	for _, rel := range r.Related {
		if rel.MayHaveLanded {
			out = append(out, rel)
		}
	}
	return out
}

// Replaced is the later operation that stands in for this one, so that nothing is left to do
// but end this one: it overtook it. Nil where there is none, and where one under the same key
// landed or may have, so that both are to be looked at.
func (r *Record) Replaced() *Relation {
	if slices.ContainsFunc(r.Related, func(rel Relation) bool { return rel.SameKey && rel.MayHaveLanded }) {
		return nil
	}
	return r.Overtaken()
}

// Overtaken is the later operation on the same target that landed, or else the newest one
// that may have; nil where there is none. To send this one now could undo it.
func (r *Record) Overtaken() *Relation {
	var may *Relation
	for i := range r.Related {
		switch rel := &r.Related[i]; {
		case !rel.Overtook || !rel.MayHaveLanded:
		case rel.State == Committed:
			return rel
		case may == nil:
			may = rel
		}
	}
	return may
}

// Superseded reports whether a finished operation set what a later one on its target
// set otherwise, or may have: to ask for it again is to want it back. One that is in
// conflict, or whose answer no caller was given, stands for its request.
func (r *Record) Superseded() bool {
	o := r.Operation
	if o.State != Committed && o.State != Failed || o.Conflict != NoConflict || o.Undelivered || r.OpenGrant() != nil {
		return false
	}
	return r.Overtaken() != nil
}

// unseen is a related operation that landed or may have and is not among those
// that were shown, or nil.
func (r *Record) unseen(shown []string) *Relation {
	for i, rel := range r.Related {
		if rel.MayHaveLanded && !slices.Contains(shown, rel.ID) {
			return &r.Related[i]
		}
	}
	return nil
}

// voidedBy is a related operation that was begun after the permission was given, whatever
// became of it, or that landed or may have and was not shown with it; or nil.
func (g Grant) voidedBy(r *Record) *Relation {
	for i, rel := range r.Related {
		if rel.CreatedAt.After(g.CreatedAt) {
			return &r.Related[i]
		}
	}
	return r.unseen(g.Related)
}

// since is a related operation that landed or may have, and was not settled when
// this one was first sent: a caller that begins this one again may not know of it.
func (r *Record) since() *Relation {
	for i, rel := range r.Related {
		if rel.MayHaveLanded && (rel.SettledAt.IsZero() || !rel.SettledAt.Before(r.Operation.StartedAt)) {
			return &r.Related[i]
		}
	}
	return nil
}

// says which operation it is, and since when it is what it is.
func (r *Relation) says() string {
	how := "wants the same"
	if r.Overtook {
		how = "came later on the same target"
	}
	since := r.SettledAt
	if since.IsZero() {
		since = r.CreatedAt
	}
	return fmt.Sprintf("%s %s and is %s since %s", r.ID, how, r.State, since.UTC().Format(time.RFC3339))
}

// besideAnother reports whether an attempt is a first one that went out beside another
// operation: one in doubt that wants the same, as the kind's policy lets it, or one that
// has its key since the ledger had lost this one (SettleSent).
func (a Attempt) besideAnother() bool { return a.N == 1 && a.Basis != "" && a.GrantID == "" }

// errLookAround asks for what few changes need: the operations beside this one.
var errLookAround = errors.New("another one may be settled")

// changeBeside is Change for what may settle an operation: the others that want the
// same are looked for only where it was sent beside one, and what has its key where it
// has not.
func changeBeside(ctx context.Context, s Changer, at Locator, changeID string, rule Rule) (Applied, error) {
	var keyed Locator
	applied, err := s.Change(ctx, at, changeID, func(rec *Record) (Change, error) {
		if slices.ContainsFunc(rec.Attempts, Attempt.besideAnother) {
			if o := rec.Operation; !o.KeyLive {
				keyed = Locator{Kind: o.Kind, Scope: o.Scope, Key: o.Key, Skip: AllParts}
			}
			return Change{}, errLookAround
		}
		return rule(rec)
	})
	if !errors.Is(err, errLookAround) {
		return applied, err
	}
	var holder *Relation // it keeps the key, or that is given up and there is none
	if keyed.Key != "" {
		if _, err := s.Change(ctx, keyed, "", func(rec *Record) (Change, error) {
			holder = rec.holder()
			return Change{}, nil
		}); err != nil {
			return Applied{}, err
		}
	}
	at.Skip &^= PartRelated
	return s.Change(ctx, at, changeID, func(rec *Record) (Change, error) {
		rec.relate(holder)
		return rule(rec)
	})
}

// holder is the operation as another one that wanted its key is related to it, or nil.
func (r *Record) holder() *Relation {
	o := r.Operation
	if !r.Found {
		return nil
	}
	return &Relation{ID: o.ID, Title: o.Title, State: o.State, Source: o.Source, CreatedAt: o.CreatedAt, SettledAt: o.SettledAt, Receipt: o.Receipt(),
		SameKey: true, MayHaveLanded: MayHaveLanded(o, r.Attempts)}
}

// relate adds what has the key to the related ones, where it is not among them: it has
// another input, or none.
func (r *Record) relate(holder *Relation) {
	if holder != nil && !slices.ContainsFunc(r.Related, func(rel Relation) bool { return rel.ID == holder.ID }) {
		r.Related = append(r.Related, *holder)
	}
}

// beside are the operations that the first attempt of o went out beside, and that landed
// or may have, without having been settled when it was begun: earlier ones that want the
// same, or, where o never had its key, those that had it.
func (r *Record) beside(o Operation, a Attempt) (out []string) {
	known := o.KeyLive || a.Basis == BasisKeySafe
	named := known
	for _, rel := range r.Related {
		switch {
		case known && !rel.SettledAt.IsZero() && rel.SettledAt.Before(o.CreatedAt):
			continue
		case o.KeyLive && (rel.Overtook || rel.CreatedAt.After(o.CreatedAt)):
			continue
		case !o.KeyLive && !rel.SameKey:
			continue
		}
		named = true
		if rel.MayHaveLanded && (o.KeyLive || rel.another(o, a)) {
			out = append(out, rel.named())
		}
	}
	if !named {
		out = append(out, "another one under its key") // which has given it up since
	}
	return out
}

// another reports whether what has the key of o has, or may have, another effect. Where the
// other side knows both by the key, that takes another receipt.
func (r *Relation) another(o Operation, a Attempt) bool {
	if r.Receipt != "" && len(o.Receipts) > 0 {
		return !slices.Contains(o.Receipts, r.Receipt)
	}
	return a.Basis != BasisKeySafe
}

// named is which operation it is, with its receipt.
func (r *Relation) named() string {
	if r.Receipt == "" {
		return r.ID
	}
	return r.ID + " (" + r.Receipt + ")"
}

// raiseRisked flags an operation that has landed after it was sent beside others
// that had landed or may have: by a person, as the policy lets a call repeat, or because
// the ledger had lost one of them.
func raiseRisked(rec *Record, o *Operation, attempts []Attempt) {
	for _, a := range attempts {
		if a.NoEffect() {
			continue
		}
		if a.besideAnother() {
			has := "wants the same"
			if !o.KeyLive {
				has = "has its key"
			}
			if others := rec.beside(*o, a); len(others) > 0 {
				raise(o, PossibleDuplicate, fmt.Sprintf("attempt %d was sent beside %s, which %s, and landed or may have", a.N, strings.Join(others, ", "), has))
			}
		}
		if a.GrantID == "" {
			continue
		}
		for _, g := range rec.Grants {
			if g.ID == a.GrantID && len(g.Related) > 0 {
				raise(o, PossibleDuplicate, fmt.Sprintf("attempt %d was sent beside %s, which landed or may have", a.N, strings.Join(g.Related, ", ")))
			}
		}
	}
}
