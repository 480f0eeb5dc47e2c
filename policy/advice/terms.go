package advice

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
)

// Terms are what a kind's file and its downstream say of times, and of what a repeat does.
type Terms struct {
	Effect        Acts
	Deadline      time.Duration
	EscalateAfter time.Duration
	LandsWithin   *time.Duration // after sending ended, the latest it may still take effect; nil: not stated
	VisibleWithin *time.Duration // after landing, the latest a read shows it; nil: not stated
	VisibleFor    *time.Duration // how long a read goes on showing it; nil: for ever
	Looks         ledger.Looks   // when an operation is looked for again after it was settled

	KeyHeader string
	Remembers time.Duration // how long the downstream remembers a key; 0: not at all
	Replays   bool          // it answers a repeat under a remembered key with the answer it gave first
	Resend    string        // "here": what was recorded is sent again from here; else by its pipeline

	CanSee     bool // there is a read
	CanProve   bool // it looks for the token, and its answer can be known to be complete
	NewestOnly bool // it may overlook what an earlier attempt than the newest did
}

// Acts is what a write does to the other side: "read"; "once"; "safe" to repeat until a later
// operation on the same target; "replaces" what is there; "" where nothing says.
type Acts string

// Access is "read" or "write", and "" where the policy does not say.
func (a Acts) Access() string {
	switch a {
	case "", "read":
		return string(a)
	}
	return "write"
}

// Safe reports whether a repeat cannot act twice, until a later operation on the same target.
func (a Acts) Safe() bool { return a == "safe" || a.Replaces() }

// Replaces reports whether it sets a state: a finished one gives its name up once a later
// operation on its target landed or may have.
func (a Acts) Replaces() bool { return a == "replaces" }

// ResendHere is the `resend` of a kind that is sent again from here.
const ResendHere = "here"

// Via is who sends: http, command or mcp from here, else pipeline. What only the
// sending itself shows, such as a secret that is missing here, still leads back to the
// pipeline.
func (k Terms) Via(rec ledger.Record) string {
	o := rec.Operation
	switch {
	case k.Resend != ResendHere || o.Gone() != "":
	case o.Request != nil:
		return "http"
	case o.Command != nil && len(o.Command.Argv) > 0:
		return "command"
	case len(rec.Attempts) > 0 && rec.Attempts[0].Sender == "mcp":
		return "mcp"
	}
	return "pipeline"
}

// CarriesKey reports whether what would be sent repeats the operation's key, so
// that the other side can know it again. A key is the caller's text and may be
// short, so it is not searched for but must have its place.
func (k Terms) CarriesKey(rec ledger.Record) bool {
	o := rec.Operation
	if o.Key == "" {
		return false
	}
	switch via := k.Via(rec); {
	case via == "pipeline":
		return true // it brings its own
	case via == "http" && k.KeyHeader != "":
		return true
	case via == "http":
		return keyOf(o.Request) == o.KeyToSend()
	case via == "command":
		return slices.ContainsFunc(o.Command.Argv, func(a string) bool { return strings.Contains(a, "{{key}}") })
	}
	return false
}

// keyOf is the key that a recorded request holds, bare or as a structured string.
func keyOf(r *ledger.Request) string {
	values := http.Header(r.Header)["Idempotency-Key"]
	if len(values) != 1 {
		return ""
	}
	if key, err := strconv.Unquote(values[0]); err == nil {
		return key
	}
	return values[0]
}
