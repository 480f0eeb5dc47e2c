// Package ledger holds the words and the rules of indoubt: operations, their
// attempts, and what may happen to them next.
//
// It is the ground floor. Everything else imports it; it imports nothing of
// indoubt and does no I/O. A rule (Begin, Settle, Observe, Decide, Allow, …) is
// a pure function of a Record, which a Store reads and writes inside one
// transaction, so that every store keeps the same law and a test needs none.
//
// # Invariants
//
// What holds in every state and after every crash. Comments and the names of
// tests (TestI3_…) speak of them by number.
//
//   - I1 Intent first: no byte of a write leaves before its attempt is durable.
//     What cannot be recorded is not sent.
//   - I2 What is not known is uncertain: failed needs proof that nothing happened.
//   - I3 One attempt is in flight at most, over all processes, and it is one
//     transmission: nothing is sent again behind it, no redirect is followed, and
//     no first byte leaves after its deadline.
//   - I4 The same key, and the same token, on every attempt. The same key with
//     another input is refused.
//   - I5 A machine sends nothing again, apart from a recorder that repeats its own
//     request inside its caller's call, under a key that the other side remembers.
//     A percentage sends nothing; a risk is taken by a person at a terminal.
//   - I6 "Not there" is earned: by a read that is valid, whole, uncached and
//     begun late enough, that looks for a token known to have been sent, and that
//     finds other operations on each side of this one. What the policy does not
//     state proves nothing.
//   - I7 A decision is bound to the version that was seen, and refused with the
//     difference when it moved.
//   - I8 Every change leaves an event, which the database refuses to alter.
//   - I9 What arrives late is kept, and raises a conflict where it disagrees.
//   - I10 A crash anywhere leaves each operation settled or visibly in doubt.
//   - I11 Text from a ledger or an answer is hostile: it is made harmless before it
//     is shown, never run, and bound where it is sent. Secrets are never stored,
//     logged or shown.
//   - I12 Once anything said "landed", and after an undo or a dispute, only a
//     person settles.
package ledger

import (
	"fmt"
	"time"
)

// Locator names one operation. The first field that is set counts; Kind, Scope
// and Key go together and find the operation that holds the key now; Scope and
// Awaits find the pending operation that waits for that.
type Locator struct {
	ID        string
	AttemptID string
	Awaits    string
	Kind      string // with Key
	AnyKind   bool   // with Key: one of another kind has it, too, and the newest of several counts
	Scope     string
	Key       string
	Gate      string // with Key: what is open under it is looked for as well; see BeginRequest.Gate
	// Skip is what the rule, or the caller of Read, does not look at. A store may leave
	// it out of the record.
	Skip Parts
	// Seen is Record.Kept of it as it was read, with ID: where nothing has happened since, it is not read again.
	Seen any
}

// Parts are what a record holds beside the operation, its attempts and its
// permissions.
type Parts uint

const (
	PartReads Parts = 1 << iota
	PartRelated
	PartHolds
	PartPricing

	AllParts = PartReads | PartRelated | PartHolds | PartPricing
)

// Rule computes what to change from what is recorded. It runs inside the
// store's write transaction, may run more than once, and must have no effect of
// its own. The zero Change writes nothing; one without an Event (a heartbeat)
// moves a clock and leaves no history.
type Rule func(rec *Record) (Change, error)

// Applied is what one write did.
type Applied struct {
	Before, After Operation // Before is the zero Operation when After was created
	Attempt       Attempt   // the attempt the change wrote, if any
	Allowed       Allowed   // the permission the change wrote, if any
	Noop          bool      // the change id was known already, or nothing was to change
}

// Failover: the database of a ledger is another one than it was adopted in, since a time
// that is not zero. Up to so much of its newest history may be missing, and nothing is
// begun or allowed there until a person has adopted it.
type Failover struct {
	At      time.Time
	Missing time.Duration
}

// String says when it failed over, and what may be missing.
func (f Failover) String() string {
	return fmt.Sprintf("it failed over or was restored by %s, and up to %s of its newest history may be missing", f.At.UTC().Format(time.RFC3339), f.AtMost())
}

// AtMost is what may be missing, to the next whole second.
func (f Failover) AtMost() time.Duration {
	return (f.Missing + time.Second - 1).Truncate(time.Second)
}

// Info is what a ledger knows of itself.
type Info struct {
	ID        string // made at creation
	Path      string
	Schema    int
	CreatedAt time.Time
	LastSeq   int64         // newest event
	Cursor    Cursor        // behind every event in view now
	LastWrite time.Time     // time of the newest event
	LastError time.Time     // when an attempt last ended uncertain
	LastBy    string        // source of the newest operation
	EngineAt  time.Time     // until when an engine was last known to be at work; zero: never
	SteppedAt time.Time     // when it was last noticed that the clock had been set
	Step      time.Duration // how far, forward or back
	Parallel  int           // queries that are worth making at the same time: of a file one, which leaves the other cores to writers
	ReadOnly  bool
	Promoted  bool   // it was opened as a copy that follows another server, and is none any more: opened anew it may be written to
	Strained  string // not empty: what a person must do about its storage, as "DISK SHORT: …"
	Failover  Failover
	MovedTo   string    // where this ledger has moved to: it is looked at only
	Copied    string    // not empty: why this file is looked at only (a copy of another ledger)
	Unsaved   time.Time // when its newest backup that was read back was begun, its birth where none was; zero where a server keeps it
	Look      *Look     // with Until, Kinds and Adopted: begins are looked for first, since it was adopted; nil: they are not
	Lacks     string    // not empty: what was recorded in it and is not there any more; begins are held until it is adopted
}
