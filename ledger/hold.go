package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HoldScope is what a hold covers: "all", "kind:<name>" or "downstream:<name>".
type HoldScope string

// Release is the command that lifts a hold on it.
func (s HoldScope) Release() string {
	word, name, _ := strings.Cut(string(s), ":")
	what := map[string]string{"kind": name, "downstream": "--downstream " + name, "all": "--all"}[word]
	return "indoubt release " + what + " --reason …"
}

// Hold stops every attempt but the first of the operations in its scope, and bulk runs; with Begins the first
// one, too, unless a person begins it. Begins stay held when another hold on the scope takes its place.
type Hold struct {
	Scope     HoldScope
	Begins    bool
	Kinds     []string // for a downstream: the kinds that belonged to it
	Actor     Actor
	Reason    string
	CreatedAt time.Time // by the ledger, when it was written down
	Until     time.Time // zero: until released
	ChangeID  string
	Lacks     time.Time // when a change was made that the ledger lacks, where that is why
}

// says who holds, and why.
func (h Hold) says() string { return fmt.Sprintf("held by %s (%s)", h.Actor.Name, h.Reason) }

// stops is the answer to a begin that it stops.
func (h Hold) stops(o Operation) (BeginResult, Change, error) {
	if h.Begins {
		return BeginResult{Answer: AnswerHeld, Operation: o, Why: h.says(), Until: h.Until}, Change{}, nil
	}
	return BeginResult{Answer: AnswerRefused, Operation: o, Why: h.says()}, Change{}, nil
}

// covering is the hold on a kind, or nil: one on begins before any other.
func covering(holds []Hold, kind string, now time.Time) (by *Hold) {
	for i, h := range holds {
		if h.Covers(kind, now) && (by == nil || h.Begins && !by.Begins) {
			by = &holds[i]
		}
	}
	return by
}

// Covers reports whether the hold stops operations of this kind at now. A pattern of the
// policy covers what it matches, also where that came later.
func (h Hold) Covers(kind string, now time.Time) bool {
	if !h.Until.IsZero() && now.After(h.Until) {
		return false
	}
	name, _ := strings.CutPrefix(string(h.Scope), "kind:")
	return h.Scope == "all" || slices.ContainsFunc(append([]string{name}, h.Kinds...), func(k string) bool {
		return KindMatches(k, kind)
	})
}
