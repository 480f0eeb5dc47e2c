package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Relation is another operation with the same target: there is no other one.
type Relation struct {
	ID        string
	Title     string
	State     State
	Source    Source
	CreatedAt time.Time
	SettledAt time.Time // zero while it is not settled
	Receipt   string    // the first that is known
	Overtook  bool      // it was first sent later, or may have acted after this one was done
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
	return o.State != Failed && o.State != Abandoned || o.PersonOnly || !allProven(o, attempts)
}

// Landings are the operations that overtook this one: later on its target, and landed or
// may have. One more attempt may do again, or undo, what they did.
func (r *Record) Landings() []Relation {
	var out []Relation
	for _, rel := range r.Related {
		if rel.Overtook && rel.MayHaveLanded {
			out = append(out, rel)
		}
	}
	return out
}

// Overtaken is the later operation on the same target that landed, or else the newest one
// that may have; nil where there is none. To send this one now could undo it.
func (r *Record) Overtaken() *Relation {
	landings := r.Landings()
	for i := range landings {
		if landings[i].State == Committed {
			return &landings[i]
		}
	}
	if len(landings) == 0 {
		return nil
	}
	return &landings[0]
}

// Superseded reports whether an operation that is finished or given up set what a later one on
// its target set otherwise, or may have, and the kind of a request says so (Supersedes): to ask
// for it again is to want it back. One that is in conflict, or whose answer this or no caller
// was given, stands for its request.
func (r *Record) Superseded(req BeginRequest) bool {
	o := r.Operation
	if !req.Supersedes || o.ID == req.Follows || o.State.Open() || o.Conflict != NoConflict || o.Undelivered || r.OpenAllowed() != nil {
		return false
	}
	return r.Overtaken() != nil
}

// unseen is an operation that overtook this one and is not among those that were shown, or nil.
func (r *Record) unseen(shown []string) *Relation {
	for _, rel := range r.Landings() {
		if !slices.Contains(shown, rel.ID) {
			return &rel
		}
	}
	return nil
}

// voidedBy is an operation on the same target that was begun after the permission was given,
// whatever became of it, or that overtook this one and was not shown with it; or nil.
func (g Allowed) voidedBy(r *Record) *Relation {
	for i, rel := range r.Related {
		if rel.CreatedAt.After(g.CreatedAt) {
			return &r.Related[i]
		}
	}
	return r.unseen(g.Related)
}

// is reports whether it is this operation.
func (r *Relation) is(rec *Record) bool { return rec != nil && rec.Operation.ID == r.ID }

// says which operation it is, and since when it is what it is.
func (r *Relation) says() string {
	since := r.SettledAt
	if since.IsZero() {
		since = r.CreatedAt
	}
	return fmt.Sprintf("%s came later on the same target and is %s since %s", r.ID, r.State, since.UTC().Format(time.RFC3339))
}

// besideAnother reports whether an attempt is a first one that went out beside another
// operation: one in doubt that asks the same and holds nothing back, or one that
// has its key since the ledger had lost this one (SettleSent).
func (a Attempt) besideAnother() bool { return a.N == 1 && a.Basis != "" && a.AllowID == "" }

// errLookAround asks for what few changes need: the operations beside this one.
var errLookAround = errors.New("another one may be settled")

// changeBeside is Change for what may settle an operation: the others on its target are
// looked for only where it was sent beside one, and what has its key where it has not.
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
		rec.Holder = holder
		return rule(rec)
	})
}

// holder is the operation as it is told of to another one that wanted its key, or nil.
func (r *Record) holder() *Relation {
	o := r.Operation
	if !r.Found {
		return nil
	}
	return &Relation{ID: o.ID, Title: o.Title, State: o.State, Source: o.Source, CreatedAt: o.CreatedAt, SettledAt: o.SettledAt,
		Receipt: o.Receipt(), MayHaveLanded: MayHaveLanded(o, r.Attempts)}
}

// beside are the operations that the first attempt of o went out beside, and that landed
// or may have: earlier ones on its target that were not settled when it was begun, or, where
// o never had its key, the one that has it.
func (r *Record) beside(o Operation, a Attempt) (out []string) {
	before := func(rel *Relation) bool { return !rel.SettledAt.IsZero() && rel.SettledAt.Before(o.CreatedAt) }
	switch h, safe := r.Holder, a.Basis == BasisKeySafe; {
	case o.KeyLive:
	case h == nil && safe:
		return nil
	case h == nil:
		return []string{"another one under its key"} // which has given it up since
	case !h.MayHaveLanded, safe && before(h), !h.another(o, a):
		return nil
	default:
		return []string{h.named()}
	}
	for _, rel := range r.Related {
		if !rel.Overtook && rel.MayHaveLanded && !rel.CreatedAt.After(o.CreatedAt) && !before(&rel) {
			out = append(out, rel.named())
		}
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
			has := "has the same target"
			if !o.KeyLive {
				has = "has its key"
			}
			if others := rec.beside(*o, a); len(others) > 0 {
				raise(o, ConflictMaybeTwice, fmt.Sprintf("attempt %d was sent beside %s, which %s, and landed or may have", a.N, strings.Join(others, ", "), has))
			}
		}
		if a.AllowID == "" {
			continue
		}
		for _, g := range rec.Allowed {
			if g.ID == a.AllowID && len(g.Related) > 0 {
				raise(o, ConflictMaybeTwice, fmt.Sprintf("attempt %d was sent beside %s, which landed or may have", a.N, strings.Join(g.Related, ", ")))
			}
		}
	}
}
