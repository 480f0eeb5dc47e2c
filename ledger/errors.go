package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinels. Match them with errors.Is; the wrapping error says more.
var (
	ErrNotFound  = errors.New("no such operation")
	ErrKeyReused = errors.New("this key was used with another input")
	ErrReadOnly  = errors.New("the ledger is opened read-only")
	ErrCopied    = errors.New("this ledger is a copy and is only looked at; `indoubt adopt` makes it a ledger of its own")
	ErrGone      = errors.New("the ledger's file was removed or replaced")
	ErrBusy      = errors.New("the ledger is locked by another writer")
	ErrLost      = errors.New("the ledger's server does not answer")
	ErrFailover  = errors.New("the ledger's database failed over, and what was sent last may be missing")
	ErrUnknown   = errors.New("cannot tell whether the change is recorded")
	ErrFull      = errors.New("there is no room for the ledger")
	ErrGuard     = errors.New("the ledger refuses")
	ErrMoving    = errors.New("the ledger is being moved, or has moved")
	ErrMoved     = errors.New("the operation has moved since it was seen")
	ErrRefused   = errors.New("refused")
	ErrNoKey     = errors.New("the ledger has no key for its digests yet")
)

// MovedError refuses a change because the operation is not as it was seen
// (I7), or not in a state the change starts from. It says who moved it and when.
type MovedError struct {
	ID             string
	Verb           string // what was attempted
	Seen           int64  // version that the decision was made on; 0 when none was given
	Version        int64  // version now
	State          State  // state now
	Actor, Reason  string // who made the newest change, and why
	At             time.Time
	NotFromThisOne bool // the version is current, but the verb does not start from this state
}

func (e *MovedError) Error() string {
	why := e.Reason
	if why != "" {
		why = " (" + why + ")"
	}
	if e.NotFromThisOne {
		return fmt.Sprintf("cannot %s: it is %s, last changed %s by %s%s", e.Verb, e.State, e.At.UTC().Format(time.RFC3339), e.Actor, why)
	}
	return fmt.Sprintf("cannot %s: it moved from version %d to %d; now %s, last changed %s by %s%s",
		e.Verb, e.Seen, e.Version, e.State, e.At.UTC().Format(time.RFC3339), e.Actor, why)
}

// Is makes errors.Is(err, ErrMoved) true.
func (e *MovedError) Is(target error) bool { return target == ErrMoved }

// RefusedError refuses a change by policy, hold, read-only or for want of a
// person. Code is a word for machines, Why a sentence, Hint what to do next.
type RefusedError struct {
	Verb string
	Code string // "" and refused: there is nothing else to do than Hint
	Why  string
	Hint string
}

func (e *RefusedError) Error() string { return "cannot " + e.Verb + ": " + e.Why }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// AmbiguousError lists the operations a short id could mean.
type AmbiguousError struct {
	Prefix string
	IDs    []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q could be any of %s", e.Prefix, strings.Join(e.IDs, ", "))
}

// NoOutageError: no outage has this id, or one that begins with it. It is ErrNotFound.
type NoOutageError struct{ ID string }

func (e *NoOutageError) Error() string        { return fmt.Sprintf("there is no outage %q", e.ID) }
func (e *NoOutageError) Is(target error) bool { return target == ErrNotFound }
