package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Relation is another operation that matters to a decision about this one: it
// wants the same (the same input), or it came later on the same target.
type Relation struct {
	ID        string
	Title     string
	State     State
	Source    Source
	CreatedAt time.Time
	SettledAt time.Time // zero while it is not settled
	Overtook  bool      // newer on the same target; otherwise a twin (same fingerprint)
	// MayHaveLanded: it landed or may have. False only where every attempt of it
	// is known to have had no effect.
	MayHaveLanded bool
}

// NoEffect reports whether an attempt is known to have had no effect.
func (a Attempt) NoEffect() bool {
	return a.Proof != "" && (a.Final() == OutcomeFailed || a.Proof == ProvenAbsent)
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

// since is a related operation that landed or may have, and was not settled when
// this one was first begun: whoever begins this one again may not know of it.
func (r *Record) since() *Relation {
	for i, rel := range r.Related {
		if rel.MayHaveLanded && (rel.SettledAt.IsZero() || !rel.SettledAt.Before(r.Operation.CreatedAt)) {
			return &r.Related[i]
		}
	}
	return nil
}

// says names the relation in a sentence.
func (r *Relation) says() string {
	if r.Overtook {
		return fmt.Sprintf("%s came later on the same target and is %s", r.ID, r.State)
	}
	return fmt.Sprintf("%s wants the same and is %s", r.ID, r.State)
}

// raiseRisked flags an operation that has landed after a person sent it beside
// others that had landed or may have.
func raiseRisked(rec *Record, o *Operation, attempts []Attempt) {
	for _, a := range attempts {
		if a.GrantID == "" || a.NoEffect() {
			continue
		}
		for _, g := range rec.Grants {
			if g.ID == a.GrantID && len(g.Related) > 0 {
				raise(o, PossibleDuplicate, fmt.Sprintf("attempt %d was sent beside %s, which landed or may have", a.N, strings.Join(g.Related, ", ")))
			}
		}
	}
}
