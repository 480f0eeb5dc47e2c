package ledger

import "time"

// Answer is what came back from a downstream, whichever way it was asked. The
// zero Answer means that nothing was sent and nothing came.
type Answer struct {
	Via  string // http, command
	Err  error  // why no complete answer came; nil when one did
	Sent bool   // at least one byte of the request was written, or the process was started
	// Class is how the answer failed to come; empty when a complete one came.
	Class ErrorClass

	Status    int                 // HTTP status; 0 when none was read
	Header    map[string][]string // canonical names
	Body      []byte              // bounded
	Truncated bool                // Body or Stdout is not all there was

	Exited bool // the process ended by itself with code Exit
	Exit   int
	Signal string // what killed it
	Stdout []byte // bounded tail
	Stderr []byte // bounded tail

	BeganAt, EndedAt time.Time
}
