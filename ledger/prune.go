package ledger

import "time"

// VerbPrune is the verb of the event that names the file of a prune.
const VerbPrune = "prune"

// Prune is what a person has moved to a file: the history of what was settled before a time.
type Prune struct {
	Before time.Time
	To     string // the directory
	Actor  Actor
	DryRun bool // count only
}

// Pruned is what a prune has done, or would do.
type Pruned struct {
	File       string `json:"file,omitempty"` // "" where there was nothing to move
	Operations int    `json:"operations"`     // whose history was moved
	Events     int    `json:"events"`         // that have left the ledger
}

// Event names the file in the history.
func (p Prune) Event(file string) Event {
	return Event{ID: NewID(), Verb: VerbPrune, Actor: p.Actor, Reason: "settled before " + p.Before.UTC().Format(time.RFC3339),
		Detail: detail(map[string]any{"file": file})}
}
