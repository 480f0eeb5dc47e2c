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
//   - I5 A machine sends only on proof of absence or where the other side still
//     remembers the key, and only where the policy lets it. A percentage sends
//     nothing; a risk is taken by a person at a terminal.
//   - I6 Absence is proven, not seen: by a read that is valid, whole, uncached and
//     begun late enough, that looks for a token known to have been sent, with a
//     check that is known to find things. What the policy does not state proves
//     nothing.
//   - I7 A decision is bound to the version that was seen, and refused with the
//     difference when it moved.
//   - I8 Every change leaves an event, which the database refuses to alter.
//   - I9 What arrives late is kept, and raises a contradiction where it disagrees.
//   - I10 A crash anywhere leaves each operation settled or visibly in doubt.
//   - I11 Text from a ledger or an answer is hostile: it is made harmless before it
//     is shown, never run, and bound where it is sent. Secrets are never stored,
//     logged or shown.
//   - I12 Once anything said "landed", and after an undo or a contradiction, only a
//     person settles.
package ledger

import (
	"context"
	"encoding/json"
	"time"
)

// Locator names one operation. The first field that is set counts; Kind, Scope
// and Key go together and find the operation that holds the key now; Scope and
// Awaits find the pending operation that waits for that.
type Locator struct {
	ID        string
	AttemptID string
	Awaits    string
	Kind      string // with Key; "": whatever it is, and the newest of several
	Scope     string
	Key       string
	// Skip is what a rule does not look at. A store may leave it out of the record
	// it gives the rule.
	Skip Parts
}

// Parts are what a record holds beside the operation, its attempts and its
// grants.
type Parts uint

const (
	PartReads Parts = 1 << iota
	PartRelated
	PartHolds
	PartLease
	PartPricing

	AllParts = PartReads | PartRelated | PartHolds | PartLease | PartPricing
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
	Grant         Grant     // the grant the change wrote, if any
	Noop          bool      // the change id was known already, or nothing was to change
}

// Store keeps operations. Every method is one short transaction, durable when
// it returns, and safe for use by many goroutines and processes at once.
//
// Errors: ErrNotFound when a locator finds nothing and the rule wants something,
// *MovedError and the other errors of this package as the rules return them,
// ErrReadOnly, ErrCopied, ErrBusy and I/O errors of the store itself.
type Store interface {
	// Change reads the record at the locator, applies the rule to it and writes
	// the result, all in one transaction. changeID makes it repeatable: a change
	// that is already recorded is not applied again and comes back as Noop. The
	// record's Now is the ledger host's clock, read inside the transaction.
	Change(ctx context.Context, at Locator, changeID string, rule Rule) (Applied, error)

	// Read returns everything about one operation, or ErrNotFound. An unambiguous
	// prefix of an id (4 characters or more) finds it too; *AmbiguousError
	// lists the candidates.
	Read(ctx context.Context, at Locator) (Record, error)
	// Records returns what Read does of several operations, in the order asked for
	// and all from one state of the ledger, but without the evidence of their
	// reads. Those that are not there are left out.
	Records(ctx context.Context, operationIDs []string) ([]Record, error)
	// Page returns one page of a list, newest or dearest first as the query says.
	Page(ctx context.Context, q Query) (Page, error)
	// Counts returns the number of operations in each lane at now.
	Counts(ctx context.Context, now time.Time) (Counts, error)
	// Events returns at most limit events with Seq > after, oldest first; of one
	// operation when operationID is not empty.
	Events(ctx context.Context, operationID string, after int64, limit int) ([]Event, error)
	// Watch sends a value after other processes or this one committed something.
	// It coalesces; the truth is in Events. The channel closes with ctx.
	Watch(ctx context.Context) <-chan struct{}

	// Expire turns pending operations whose deadline has passed into uncertain
	// ones, at most limit, and returns how many.
	Expire(ctx context.Context, limit int) (int, error)
	// Due returns uncertain operations (and settled ones with a recheck pending)
	// whose next read is due and that nobody holds a lease on, earliest first.
	Due(ctx context.Context, now time.Time, limit int) ([]Row, error)
	// Unpriced returns open operations whose derived columns were not computed
	// under this policy digest.
	Unpriced(ctx context.Context, digest string, limit int) ([]Operation, error)
	// Price writes the derived columns of open operations: order, lane clock,
	// next read. They are a cache: no version moves and no event is written. One
	// that counts fewer reads than were made since leaves the next read as it is,
	// and one of an operation that has moved since changes nothing.
	Price(ctx context.Context, prices []Pricing) error

	// Lease takes or renews the right to reconcile one operation, for ttl. A lease
	// held by somebody else that has not run out gives *LeasedError.
	Lease(ctx context.Context, operationID, holder, digest string, ttl time.Duration) (Lease, error)
	// Leases takes leases on those of the operations that nobody else holds one on,
	// in one transaction; the others are left out.
	Leases(ctx context.Context, operationIDs []string, holder, digest string, ttl time.Duration) ([]Lease, error)
	// Release gives a lease back. A lease that is no longer held is no error.
	Release(ctx context.Context, lease Lease) error

	// RegisterEngine writes down that an engine is at work; one whose Until is not to come
	// has left. Engines are those at work, in the order they came.
	RegisterEngine(ctx context.Context, p Registration) error
	Engines(ctx context.Context) ([]Registration, error)

	// ReserveRead reserves the next time to read a downstream, at least every after the one
	// before it, for all who share this ledger. mine reports that the time is the
	// caller's, at once or within patience (no more than MaxPatience counts);
	// otherwise nothing is reserved, and at is when to ask again. A caller that is late
	// for its time has lost it. NextReservation is the rule. now is the host's own clock,
	// which requests go by, whatever clock the ledger is told.
	ReserveRead(ctx context.Context, downstream string, now time.Time, every, patience time.Duration) (at time.Time, mine bool, err error)

	// Control returns when a positive control of this kind under this policy
	// digest last found what it looked for; the zero time when never.
	Control(ctx context.Context, kind, digest string) (time.Time, error)
	// ControlCandidate returns the newest operation of the kind that was committed
	// by its own answer before the given time and whose token was sent, or
	// ErrNotFound.
	ControlCandidate(ctx context.Context, kind string, before time.Time) (Record, error)
	// RecordControl stores a positive control's read.
	RecordControl(ctx context.Context, r Read) error

	// Keyed returns the ids of the operations that hold this key, in whatever scope and
	// of whatever kind, newest first and at most limit.
	Keyed(ctx context.Context, key string, limit int) ([]string, error)

	// Marked returns the ids of the operations, of whatever kind, that have this
	// mark, newest first and at most limit.
	Marked(ctx context.Context, value string, limit int) ([]string, error)
	// Mark gives marks to operations that were written without them or under other
	// rules than their kind's, which rules names; a kind without rules is left alone.
	// At most limit are marked; more tells that some are left. No version moves and
	// no event is written.
	Mark(ctx context.Context, rules func(kind string) string, marks func(Operation) Marks, limit int) (more bool, err error)

	// Hold stops automatic sends, grants and bulk runs for a scope; a hold on the
	// same scope is replaced. Release it with LiftHold.
	Hold(ctx context.Context, h Hold) error
	LiftHold(ctx context.Context, scope HoldScope, actor Actor, reason, changeID string) error
	// Holds returns the holds in force at now.
	Holds(ctx context.Context, now time.Time) ([]Hold, error)

	// Run records a decision run (one command, one bulk action) before its first
	// change. With an idempotency key that is known: the recorded run comes back
	// with known=true, or ErrKeyReused when verb or arguments differ.
	Run(ctx context.Context, run DecisionRun) (recorded DecisionRun, known bool, err error)
	// Progress stores how far a run has come, and its result when done.
	Progress(ctx context.Context, runID string, done int, result json.RawMessage) error

	// DoubtCounts are how the doubts of each kind and error class ended, where evidence
	// ended them. They are kept as doubts end: no call scans the ledger.
	DoubtCounts(ctx context.Context) ([]DoubtCount, error)
	// StateCounts counts operations by kind and state at now, with the oldest doubt of
	// each. Like DoubtCounts it is kept, not counted.
	StateCounts(ctx context.Context, now time.Time) ([]StateCount, error)
	// Accuracy counts who decided doubts since then, and how often evidence said
	// otherwise later. It reads the events of that time.
	Accuracy(ctx context.Context, since time.Time) ([]Accuracy, error)

	// Stepped tells how far the wall clock was set since anybody who shares the
	// ledger last asked, going by the steady clock of this boot; 0 when it was not,
	// and for those who ask after the first. A step is written down as an event,
	// and what is to happen at a time of the clock as it was before it was set back
	// does not wait for the difference: reads that are due, leases.
	Stepped(ctx context.Context) (time.Duration, error)

	// Info describes the ledger itself.
	Info(ctx context.Context) (Info, error)
	Close() error
}

// Info is what a ledger knows of itself.
type Info struct {
	ID        string // made at creation
	Path      string
	Schema    int
	CreatedAt time.Time
	LastSeq   int64         // newest event
	LastWrite time.Time     // time of the newest event
	LastError time.Time     // when an attempt last ended uncertain
	LastBy    string        // source of the newest operation
	SteppedAt time.Time     // when it was last noticed that the clock had been set
	Step      time.Duration // how far, forward or back
	ReadOnly  bool
	Home      string // the name under which its home was declared, or ""
	Exposed   string // not empty: who else than this account, or the group it is shared with, can change what it says
	Strained  string // not empty: what a person must do about its storage, as "DISK SHORT: …"
	Copied    string // not empty: why this file is looked at only (a copy of another ledger)
}
