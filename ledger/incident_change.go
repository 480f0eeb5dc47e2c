package ledger

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// What is told of an incident, as the verbs of its events.
const (
	IncidentOpened = "incident_opened"
	IncidentJoined = "incident_joined"
	IncidentOver   = "incident_over"
	IncidentNoted  = "incident_noted"
	IncidentTaken  = "incident_taken"
)

// IncidentChange is what a person does with an incident.
type IncidentChange struct {
	ChangeID string
	ID       string // of the incident, or the beginning of it
	Verb     string // IncidentNoted or IncidentTaken
	Actor    Actor
	Reason   string    // the note
	Until    time.Time // IncidentTaken; zero: no longer
}

// incidentVerbs are what a person asks for, by what is told of it.
var incidentVerbs = map[string]string{IncidentNoted: "note", IncidentTaken: "take"}

// MaxTaken is how long a person can say to be on an incident.
const MaxTaken = 24 * time.Hour

// Apply is the incident as the change leaves it, with the event that tells of it.
// Errors: *RefusedError.
func (c IncidentChange) Apply(in Incident, now time.Time) (Incident, Event, error) {
	e := Event{ID: c.ChangeID, Incident: in.ID, At: now, Verb: c.Verb, Actor: c.Actor, Reason: strings.TrimSpace(c.Reason)}
	no := func(code, why, hint string) (Incident, Event, error) {
		return in, e, &RefusedError{Verb: incidentVerbs[c.Verb], Code: code, Why: why, Hint: hint}
	}
	if c.Actor.Name == "" || c.Actor.Machine {
		return no("no_person", "only a person does this", "say who you are with --as NAME")
	}
	if err := c.Actor.MaySign(c.Verb); err != nil {
		return in, e, err
	}
	switch c.Verb {
	case IncidentNoted:
		if e.Reason == "" {
			return no("incomplete", "it needs a note", "add --reason TEXT")
		}
	case IncidentTaken:
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
		return in, e, fmt.Errorf("unknown change of an incident %q", c.Verb)
	}
	return in, e, nil
}
