package ledger

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// What is told of an outage, as the verbs of its events.
const (
	OutageOpened = "outage_opened"
	OutageOver   = "outage_over"
	OutageNoted  = "outage_noted"
	OutageTaken  = "outage_taken"
)

// OutageChange is what a person does with an outage.
type OutageChange struct {
	ChangeID string
	ID       string // of the outage, or the beginning of it
	Verb     string // OutageNoted or OutageTaken
	Actor    Actor
	Reason   string    // the note
	Until    time.Time // OutageTaken; zero: no longer
}

// outageVerbs are what a person asks for, by what is told of it.
var outageVerbs = map[string]string{OutageNoted: "note", OutageTaken: "take"}

// MaxTaken is how long a person can say to be on an outage.
const MaxTaken = 24 * time.Hour

// Apply is the outage as the change leaves it, with the event that tells of it.
// Errors: *RefusedError.
func (c OutageChange) Apply(in Outage, now time.Time) (Outage, Event, error) {
	e := Event{ID: c.ChangeID, Outage: in.ID, At: now, Verb: c.Verb, Actor: c.Actor, Reason: strings.TrimSpace(c.Reason)}
	no := func(code, why, hint string) (Outage, Event, error) {
		return in, e, &RefusedError{Verb: outageVerbs[c.Verb], Code: code, Why: why, Hint: hint}
	}
	if c.Actor.Name == "" || c.Actor.Machine {
		return no("no_person", "only a person does this", "say who you are with --as NAME")
	}
	if err := c.Actor.MaySign(c.Verb); err != nil {
		return in, e, err
	}
	switch c.Verb {
	case OutageNoted:
		if e.Reason == "" {
			return no("incomplete", "it needs a note", "add --reason TEXT")
		}
	case OutageTaken:
		if c.Until.After(now.Add(MaxTaken)) {
			return no("incomplete", fmt.Sprintf("no one is on it for more than %s", MaxTaken), "add --until 2h")
		}
		until := c.Until.UTC().Format(time.RFC3339)
		in.TakenBy, in.TakenUntil = c.Actor.Name, c.Until
		e.Reason, e.Detail = cmp.Or(e.Reason, "on it until "+until), detail(map[string]any{"until": until})
		if !c.Until.After(now) {
			in.TakenBy, in.TakenUntil = "", time.Time{}
			e.Reason, e.Detail = "no longer on it", nil
		}
	default:
		return in, e, fmt.Errorf("unknown change of an outage %q", c.Verb)
	}
	return in, e, nil
}
