package ledger

import (
	"fmt"
	"strings"
)

// Actor is who did something. Name is a label, not authentication.
type Actor struct {
	Name     string `json:"name"`
	OSUser   string `json:"os_user,omitempty"`
	Host     string `json:"host,omitempty"`
	Machine  bool   `json:"machine,omitempty"`  // a pipeline, a proxy or an engine
	Terminal bool   `json:"terminal,omitempty"` // a person at a terminal
}

// ChecksOf signs what a check found: by the check, with the program that made it and
// the person it runs for.
func ChecksOf(program, person string) string {
	if program == "" || person == "" {
		return ActorChecks
	}
	return ActorChecks + ", " + program + " of " + person
}

// Signer is a name without where it was at work: "checks" for all that ChecksOf makes.
func Signer(name string) string {
	if strings.HasPrefix(name, ActorChecks+",") {
		return ActorChecks
	}
	return name
}

// Names that indoubt signs with itself. A person or a pipeline of such a name could
// not be told from it in the history.
const (
	ActorChecks = "checks" // the reads of an engine
	ActorClock  = "clock"  // a deadline that has passed
	ActorNotify = "notify" // what tells people
)

// ReservedActor reports whether only indoubt itself signs with a name.
func ReservedActor(name string) bool {
	name = Signer(strings.ToLower(strings.TrimSpace(name)))
	return name == ActorChecks || name == ActorClock
}

// MaySign refuses a person under a name that is the machine's, with a
// *RefusedError.
func (a Actor) MaySign(verb string) error {
	if a.Machine || !ReservedActor(a.Name) {
		return nil
	}
	return &RefusedError{Verb: verb, Code: "no_person", Why: fmt.Sprintf("%q is a name that indoubt signs with itself", a.Name), Hint: "say who you are with --as NAME"}
}
