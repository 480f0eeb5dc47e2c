package ledger

import (
	"strconv"
	"strings"
	"time"
)

// DoubtCount is how doubts of one kind and error class ended: only those that a
// read's verdict or a late answer ended, never a person's word. An operation
// leaves doubt for committed or failed; one that is pending past its deadline was
// in doubt, with the class of its deadline.
type DoubtCount struct {
	Kind   string     `json:"kind"`
	Class  ErrorClass `json:"error_class"` // of the doubt, before it was settled
	Landed int        `json:"landed"`
	Missed int        `json:"missed"` // proven not to have landed
}

// StateCount is how many operations of a kind are in a state.
type StateCount struct {
	Kind  string
	State State // as every reader must assume it at the time asked about
	Count int
	// Oldest is when the oldest of them came into its state, for pending and
	// uncertain ones; zero otherwise. A pending one came into it when the attempt in
	// flight began.
	Oldest time.Time
}

// Count is a number of things as a person reads it, with its thousands set apart.
func Count(n int) string { return Thousands(strconv.Itoa(n)) }

// Thousands sets the thousands of a whole number apart.
func Thousands(digits string) string {
	first := len(digits) - len(strings.TrimPrefix(digits, "-"))
	for i := len(digits) - 3; i > first; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
