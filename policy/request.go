package policy

import (
	"encoding/json"
)

// Request is something to send: exactly one of its fields is set.
type Request struct {
	HTTP    *HTTPRequest
	Command *CommandRequest
}

// HTTPRequest is a rendered request. It holds secrets: show Shown, never the
// rest, and never store it.
type HTTPRequest struct {
	Method string
	URL    string
	Header map[string][]string
	Body   []byte
	Shown  string // as text, secrets by name
}

// CommandRequest is a rendered command line without a shell. It may hold
// secrets: show Shown, never the rest.
type CommandRequest struct {
	Argv  []string
	Dir   string
	Env   []string // NAME=value, added to the sender's own environment
	Stdin []byte
	Shown string
}

// Found is what a read's answer shows.
type Found struct {
	Effects  []Effect
	Complete bool // "none" is the whole truth of this page
	Next     any  // cursor of the following page, nil at the last
	Valid    bool
}

// Effect is one effect found.
type Effect struct {
	Receipt string
	Same    bool // it is what was asked for; otherwise a mismatch
	Value   json.RawMessage
}
