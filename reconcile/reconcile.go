// Package reconcile reads the other side to learn whether an uncertain write landed.
//
// An Engine reads what is due, judges what it finds and writes the verdict
// through the rules of package ledger. It sends nothing on its own account (I5): Plan
// tells a person what a retry would do, and Retry does it for one. The package may import policy, ledger and connect; nothing here
// draws on a screen or parses a command line.
package reconcile

import (
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// Options says what an engine works on and how far it may go.
type Options struct {
	Store  ledger.Store
	Policy func() *policy.Policy // the policy in force now; it may change between calls
	Actor  ledger.Actor          // who the engine works for
	// Program is where it runs: console, engine, check. A read that it makes for a person is
	// signed by the check, with both.
	Program  string
	Notify   bool               // the engine tells the policy's notifiers what happened
	ReadOnly bool               // nothing is written and no downstream is read
	Clock    ledger.Clock       // nil: the host's
	Steady   ledger.SteadyClock // nil: the host's
	Log      func(string)       // one plain line about something worth knowing; may be nil
}

// ReadResult is what a read made now found, and the operation after it.
type ReadResult struct {
	Read      ledger.Read
	Operation ledger.Operation
}

// Plan is exactly what a retry would do now.
type Plan struct {
	Record   ledger.Record
	Basis    ledger.Basis
	Why      string // why that basis, in one sentence
	LapsesAt time.Time
	Sender   string // http, command, mcp, or pipeline: the pipeline is given a permission
	WillSend string // the request line or command, secrets by name
	Body     string
	Back     string  // why only its pipeline can send it, where the policy would send it from here
	Showing  Showing // what a person who agrees to this agrees to
	// FirstCheck says that a check is made first; if it landed, nothing is sent.
	FirstCheck bool
	Attempt    int         // this one
	Loss       ledger.Cost // what it costs when it had landed after all
	Refused    error       // why it would be refused; nil when it may go
}

// Asked reports whether a request with this change id was carried out before: asked again,
// it sends nothing and tells what came of it.
func (p Plan) Asked(changeID string) bool {
	_, known := repeated(p.Record, RetryRequest{ChangeID: changeID})
	return known
}

// Showing is what was shown of a retry before a person agreed to it. Only that
// is sent (I7).
type Showing struct {
	Digest  string   // of the request, or of the permission for a pipeline
	Text    string   // the request as it was shown, secrets by name
	Related []string // the related operations that landed or may have
}

// Shown is what was shown of a retry, of which the digest is left.
func Shown(digest string) Showing {
	return Showing{Digest: digest, Text: "the request with digest " + digest}
}

// ChangedError refuses to send what is not what was shown: the policy, or what
// it makes the request of, has changed meanwhile.
type ChangedError struct {
	ID      string
	Was, Is string // the requests as shown, then and now
}

func (e *ChangedError) Error() string {
	return "what would be sent has changed since it was shown; nothing was sent"
}

// Difference is what was shown and what would be sent now, line by line: "- "
// before what is gone, "+ " before what is new.
func (e *ChangedError) Difference() []string {
	was, is := strings.Split(e.Was, "\n"), strings.Split(e.Is, "\n")
	var out []string
	for _, side := range []struct {
		sign         string
		lines, other []string
	}{{"- ", was, is}, {"+ ", is, was}} {
		for _, line := range side.lines {
			if !slices.Contains(side.other, line) {
				out = append(out, side.sign+line)
			}
		}
	}
	if len(out) == 0 { // only how it is reached, or the order
		return []string{"- as it was reached then", "+ as it is reached now"}
	}
	return out
}

// RetryRequest is a person's wish for one more attempt.
type RetryRequest struct {
	ID      string
	Version int64 // the version that was shown (I7)
	Basis   ledger.Basis
	Showing Showing // of the Plan that was agreed to
	Reason  string
	Actor   ledger.Actor
	// ChangeID makes the request repeatable: the same again sends nothing.
	ChangeID  string
	LossTyped bool // a person typed what a duplicate would cost
}

// What a retry did.
const (
	DidSend   = "sent"
	DidLand   = "landed_already" // a check found it, or something like it: nothing was sent
	DidAllow  = "allowed"        // the pipeline may send once
	DidRefuse = "refused"
)

// RetryResult is what became of a retry. Did is one of sent, landed_already,
// allowed and refused.
type RetryResult struct {
	Did       string
	Operation ledger.Operation
	Attempt   ledger.Attempt
	Read      ledger.Read
	Why       string
}

// NeverSent reports whether a send ended before a byte of it was written.
func (r RetryResult) NeverSent() bool { return r.Did == DidSend && r.Attempt.Proof == ledger.NeverSent }

// How a downstream is.
const (
	StateNew   = "new" // no answer has come yet
	StateUp    = "up"
	StateDown  = "down"      // not read: it does not answer
	StateNoKey = "no_key"    // not read: a secret that the policy names is missing
	StateHalf  = "half_open" // one probe decides
	StateSlow  = "throttled" // it asked for a pause
)

// Health is how one downstream answers. State is new, up, down, no_key, half_open or
// throttled; Why then is the name of the secret, or what is wrong.
type Health struct {
	Downstream string
	State      string
	Since      time.Time
	Why        string
	Until      time.Time // it asked for a pause so long; zero: it did not
	Answered   time.Time // the newest check that it answered, of this engine; zero: none
}
