package ledger

import (
	"context"
	"time"
)

// Store keeps operations. Every method is one short transaction, durable when
// it returns, and safe for use by many goroutines and processes at once.
//
// It is what a program opens; a function takes the part that it needs.
//
// Errors: ErrNotFound when a locator finds nothing and the rule wants something,
// *MovedError and the other errors of this package as the rules return them,
// ErrReadOnly, ErrCopied, ErrBusy and I/O errors of the store itself.
type Store interface {
	Changer
	Reader
	Lister
	Feed
	Statistics
	Policies
	Finder
	Holds
	Runs
	Describer

	// Unpriced returns open operations whose derived columns were not computed
	// under this policy digest.
	Unpriced(ctx context.Context, digest string, limit int) ([]Operation, error)
	// Beside returns the operations in doubt that these came after on their target: what
	// these have done may change the price of those. The nearest are looked at, as many as
	// a record tells of.
	Beside(ctx context.Context, ids []string) ([]string, error)
	// Price writes the derived columns of open operations: order, lane clock,
	// next read. They are a cache: no version moves and no event is written. One
	// that counts fewer reads than were made since leaves the next read as it is,
	// and one of an operation that has moved since changes nothing.
	Price(ctx context.Context, prices []Pricing) error

	// Expire turns pending operations whose deadline has passed into uncertain
	// ones, at most limit, and returns how many.
	Expire(ctx context.Context, limit int) (int, error)
	// Due returns uncertain operations (and settled ones with a recheck pending)
	// whose next read is due, earliest first, of the downstream that they are priced for;
	// "" returns those without a price.
	Due(ctx context.Context, downstream string, now time.Time, limit int) ([]Due, error)
	// Stepped writes an event down that the wall clock was set, and returns whether this is
	// the first engine to notice. What is to happen at a time of the clock as it was before
	// it was set back does not wait for the difference: reads that are due.
	Stepped(ctx context.Context, step time.Duration) (first bool, err error)

	// Lead takes the scopes for a holder, until LeadLasts from now: those that are free, its
	// own, and those of a lower rank. It gives the holder's others up, and returns all as
	// they are then. TakeLead is the rule.
	Lead(ctx context.Context, holder string, rank int, scopes []string) (Leaders, error)
	// Leaders returns all as they are.
	Leaders(ctx context.Context) (Leaders, error)

	// Outages returns at most limit outages, the newest error first, without their sums.
	Outages(ctx context.Context, now time.Time, limit int) ([]Outage, error)
	// Sums gives outages their sums (Fates), which are asked of all their operations.
	Sums(ctx context.Context, ins []Outage, now time.Time) error
	// Outage returns one with its account, or ErrNotFound; the beginning of an id
	// (4 characters or more) finds it too. Its operations are a Page filtered by
	// outage:ID.
	Outage(ctx context.Context, id string, now time.Time) (OutageAccount, error)
	// Fold opens, grows and ends outages: by the attempts of operations of which one ended, and,
	// with all, by every one since the newest outage. What was heard of operations says whether
	// an outage was answered since its newest error. It adds what came to the sums of
	// Statistics. It is for who leads the ledger; what is done twice is done once.
	Fold(ctx context.Context, ended, heard []string, all bool, burst func(kind string) Burst) error
	// OutagesSince names the outages that the first events behind the cursor are
	// about, themselves or by their operation, and reports whether limit events were
	// enough to see all. Errors: *CursorError.
	OutagesSince(ctx context.Context, after Cursor, limit int) (ids []string, all bool, err error)
	// ChangeOutage carries out what a person does with an outage. A change that
	// is recorded already is not applied again. Errors: those of
	// OutageChange.Apply, ErrNotFound.
	ChangeOutage(ctx context.Context, c OutageChange) (Outage, error)

	// Tell writes the event of a notice, whose id says what is told to whom, and reports
	// whether this is the first to do so.
	Tell(ctx context.Context, notice Event) (first bool, err error)

	Close() error
}

// Changer applies rules: every rule of this package writes through it.
type Changer interface {
	// Change reads the record at the locator, applies the rule to it and writes
	// the result, all in one transaction. changeID makes it repeatable: a change
	// that is already recorded is not applied again and comes back as Noop. The
	// record's Now is the ledger host's clock, read inside the transaction.
	Change(ctx context.Context, at Locator, changeID string, rule Rule) (Applied, error)
}

// Reader reads operations with all that belongs to them.
type Reader interface {
	// Read returns everything about one operation, or ErrNotFound. An unambiguous
	// prefix of an id (4 characters or more) finds it too; *AmbiguousError
	// lists the candidates.
	Read(ctx context.Context, at Locator) (Record, error)
	// Records returns what Read does of several operations, in the order asked for
	// and all from one state of the ledger, but without the evidence of their
	// reads. Those that are not there are left out.
	Records(ctx context.Context, operationIDs []string) ([]Record, error)
	// Kept returns what Records does, each with Record.Kept, for who changes them soon: it takes memory.
	Kept(ctx context.Context, operationIDs []string) ([]Record, error)
}

// Lister lists and counts operations.
type Lister interface {
	// Page returns one page of a list, newest or dearest first as the query says.
	Page(ctx context.Context, q Query) (Page, error)
	// Counts returns the number of operations in each lane at now.
	Counts(ctx context.Context, now time.Time) (Counts, error)
	// Needing counts what needs a person at now, of what a filter lets through.
	Needing(ctx context.Context, f Filter, now time.Time) (Needing, error)
}

// Feed follows what is written.
type Feed interface {
	// Follow returns limit events that came into view after the cursor, and the cursor behind
	// them: a few more where one transaction wrote them, and fewer only where there are no more.
	// A follower sees each event once, also one whose transaction ends after those of events
	// with a higher Seq. Errors: *CursorError.
	Follow(ctx context.Context, after Cursor, limit int) ([]Event, Cursor, error)
	// History returns events in the order of their Seq. Errors: *CursorError.
	History(ctx context.Context, q HistoryQuery) ([]Event, error)
	// Watch sends a value after other processes or this one committed something.
	// It coalesces; the truth is in Follow. The channel closes with ctx.
	Watch(ctx context.Context) <-chan struct{}
}

// Statistics are sums of the history, kept up to a place to which Fold moves on: what came
// after it is added where they are asked for. And what became of decisions.
type Statistics interface {
	// DoubtCounts are how the doubts of each kind and error class ended, where evidence
	// ended them.
	DoubtCounts(ctx context.Context) ([]DoubtCount, error)
	// StateCounts counts operations by kind and state at now, with the oldest doubt of
	// each.
	StateCounts(ctx context.Context, now time.Time) ([]StateCount, error)
}

// Due is an operation whose next read is due, as it was then.
type Due struct {
	ID, Kind string
	Version  int64
}

// Policies keeps the policy that is in force.
type Policies interface {
	// Policy returns the policy that was put in force last: have as it is, where the caller
	// has that one. Number is 0 where none ever was.
	Policy(ctx context.Context, have PolicyText) (PolicyText, error)
	// ApplyPolicy puts a policy in force, as the ledger's clock says now. A change id that is
	// in the history changes nothing more. Errors: those of PolicyText.Follows.
	ApplyPolicy(ctx context.Context, p PolicyText) error
}

// Finder finds operations by what they are known by.
type Finder interface {
	// Keyed returns the ids of the operations that hold this key, in whatever scope and
	// of whatever kind, newest first and at most limit.
	Keyed(ctx context.Context, key string, limit int) ([]string, error)
	// FieldNames returns one name that operations have of each list of fields; see FieldsOf.
	FieldNames(ctx context.Context) ([]string, error)
	// Marked returns the ids of the operations, of whatever kind, that have this
	// mark, newest first and at most limit.
	Marked(ctx context.Context, value string, limit int) ([]string, error)
	// Siblings returns operations of a kind, newest first, with their places in the history.
	Siblings(ctx context.Context, q SiblingQuery) ([]Sibling, error)
	// Mark gives marks to operations that were written without them or under other
	// rules than their kind's, which rules names; a kind without rules is left alone.
	// At most limit are marked; more reports that some are left. No version moves and
	// no event is written.
	Mark(ctx context.Context, rules func(kind string) string, marks func(Operation) Marks, limit int) (more bool, err error)
}

// Holds stop repeats, permissions and bulk runs.
type Holds interface {
	// Hold stops repeats, permissions and bulk runs for a scope; a hold on the
	// same scope is replaced. Release it with LiftHold.
	Hold(ctx context.Context, h Hold) error
	LiftHold(ctx context.Context, l Lift) error
	// Holds returns the holds in force at now.
	Holds(ctx context.Context, now time.Time) ([]Hold, error)
}

// Runs keeps decision runs, in the history.
type Runs interface {
	// Run records a run with its items before its first change. With an id or an
	// idempotency key that is known the recorded run comes back with known=true, or
	// ErrKeyReused when verb or arguments differ.
	Run(ctx context.Context, run DecisionRun, items []RunItem) (recorded DecisionRun, known bool, err error)
	// ChangeRun reads where a run stands and who drives it, applies the rule to what is
	// known of it with that, and writes the result, all in one transaction. It returns the
	// run as it is then.
	ChangeRun(ctx context.Context, known DecisionRun, rule RunRule) (DecisionRun, error)
	// Runs lists runs, newest first, and Account is one with its items in their order, or
	// ErrNotFound.
	Runs(ctx context.Context, q RunQuery) ([]DecisionRun, error)
	Account(ctx context.Context, runID string) (DecisionRun, []RunItem, error)
}

// Describer describes the ledger itself.
type Describer interface {
	// Info describes the ledger itself.
	Info(ctx context.Context) (Info, error)
	// DigestKey is the ledger's key, under which digests stand for what is secret. It is not
	// in the ledger.
	DigestKey(ctx context.Context) ([]byte, error)
}
