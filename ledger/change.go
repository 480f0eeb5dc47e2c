package ledger

import (
	"strconv"
	"time"
)

// Record is everything a rule may look at: one operation and what belongs to
// it, read in the transaction that will write the change.
type Record struct {
	Found     bool
	Operation Operation
	Attempts  []Attempt  // oldest first
	Reads     []Read     // newest first; without their evidence inside a Change
	Allowed   []Allowed  // newest first
	Related   []Relation // with the same target: those that overtook it first
	Holder    *Relation  // who has its key where the ledger had lost it, as far as a rule needs it
	Holds     []Hold     // in force
	Look      *Look      // with Holds; nil where nothing can be lost
	Outages   []string   // that it is in, the newest first; not inside a Change
	Pricing   Pricing
	Now       time.Time
	Steady    Steady // at the same instant
	Times     int    // inside a Change, by a key: how many operations had this name before, in its scope and kind
	// Mask is there inside a Change, and of what was redacted; nil where this process does not
	// have the ledger's key.
	Mask Mask `json:"-"`
	// Gap is until when attempts may have begun that the ledger has lost: its database
	// failed over then, or its file is a copy that was adopted then. Zero: none is lost.
	Gap time.Time
	// GapSeen is since when a process that checks knows of the gap; the zero Steady: it does not say.
	GapSeen Steady `json:"-"`
	// Open is what is in flight or in doubt under the locator's gate, with AllParts left out;
	// nil: nothing is.
	Open *Record
	// Kept is what the store has of a record that Reader.Kept returns; see Locator.Seen.
	Kept any `json:"-"`
}

// Change is what a rule wants written. The store writes it as a whole, guarded
// by the version the record had.
type Change struct {
	Operation *Operation // the whole row as it shall be; nil leaves it alone
	Insert    bool       // Operation is new
	Retire    bool       // with Insert: the operation found gives its key up
	Marks     []string   // with Insert: its marks
	Attempts  []Attempt  // inserted or updated by id
	Allowed   []Allowed  // inserted or updated by id
	Read      *Read      // inserted
	Event     *Event     // Seq, At, From, To and Version are filled in by the store
	// Then is asked for one more change of what was inserted, in the same transaction. What
	// is inserted so was sent before, and allows no send.
	Then Rule
	// RecheckAt schedules one more read of a settled operation.
	RecheckAt time.Time
	// Erase takes the text of all that belongs to Operation, whose own is taken already.
	Erase *Erasure
	// Pricing replaces the derived columns, if the operation stays open.
	Pricing *Pricing
}

// OpenAllowed is the permission that can be consumed now, or nil.
func (r *Record) OpenAllowed() *Allowed {
	for i := range r.Allowed {
		if r.Allowed[i].Open(r.Now) {
			return &r.Allowed[i]
		}
	}
	return nil
}

// Attempt finds an attempt by id, or by its operation's id, a dot and its number; nil where there is none.
func (r *Record) Attempt(id string) *Attempt {
	for i, a := range r.Attempts {
		if a.ID == id || id == r.Operation.ID+"."+strconv.Itoa(a.N) {
			return &r.Attempts[i]
		}
	}
	return nil
}
