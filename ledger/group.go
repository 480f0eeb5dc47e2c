package ledger

import (
	"cmp"
	"slices"
	"time"
)

// Group is what is true of an operation, where what is to be done follows from it:
// the operations of an outage stand in one group each.
type Group string

// The groups there are, beside one for each sort of conflict.
const (
	GroupParked    Group = "parked"
	GroupInFlight  Group = Group(LaneInFlight)
	GroupAllowed   Group = Group(LaneUnfetched)
	GroupOverdue   Group = "overdue"   // allowed, and its pipeline has not come for FetchPatience
	GroupRunning   Group = "running"   // its turn in a bulk run is still to come
	GroupElsewhere Group = "elsewhere" // overtaken: a later one on the same target landed, or may have
	GroupHeld      Group = "held"      // did not land, and a hold keeps it from being sent
	GroupProven    Group = "proven"    // did not land, by proof of every attempt
	GroupSaid      Group = "said"      // did not land, by someone's word
	GroupDecide    Group = Group(LaneDecide)
	GroupReading   Group = Group(LaneReading)
	GroupLanded    Group = "landed"
	GroupNeverSent Group = "never_sent" // did not land, and was never in doubt
	GroupRefused   Group = "refused"
	GroupLeft      Group = "left" // abandoned
)

// Groups are all of them.
var Groups = []Group{Group(ConflictTwice), Group(ConflictMaybeTwice), Group(ConflictDisputed), Group(ConflictDifferent),
	GroupProven, GroupSaid, GroupElsewhere,
	GroupHeld, GroupRunning, GroupOverdue, GroupDecide, GroupReading, GroupAllowed, GroupInFlight, GroupParked, GroupLanded, GroupNeverSent, GroupRefused, GroupLeft}

// Tab is the list that has the rows of a group.
func (g Group) Tab() Tab {
	switch g {
	case GroupParked:
		return TabParked
	case GroupInFlight, GroupAllowed:
		return TabInFlight
	case GroupReading:
		return TabChecking
	case GroupLanded, GroupNeverSent, GroupRefused, GroupLeft:
		return TabSettled
	}
	return TabNeedsYou
}

// Group is the first that fits. running: its turn in a bulk run is still to come.
func (r *Record) Group(running bool) Group {
	row := r.plain()
	switch lane := row.LaneAt(r.Now); {
	case row.Parked(r.Now):
		return GroupParked
	case lane == LaneConflict:
		return Group(row.Conflict)
	case lane == LaneUnfetched && row.TabAt(r.Now) == TabNeedsYou:
		return GroupOverdue
	case lane == LaneResolved:
		return r.Operation.settled(r.Attempts)
	case lane != LaneDecide && lane != LaneNotLanded:
		return Group(lane)
	case running:
		return GroupRunning
	case r.Overtaken() != nil:
		return GroupElsewhere
	case lane == LaneDecide:
		return GroupDecide
	case r.HeldBy() != nil:
		return GroupHeld
	case allProven(r.Operation, r.Attempts) && !r.Operation.PersonOnly:
		return GroupProven
	}
	return GroupSaid
}

// settled is the group of an operation that nothing is left to do about.
func (o Operation) settled(attempts []Attempt) Group {
	switch {
	case o.State == Committed:
		return GroupLanded
	case o.State == Abandoned:
		return GroupLeft
	case slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Proof == Refused }):
		return GroupRefused
	}
	return GroupNeverSent
}

// By is who or what keeps the operation in its group: who parked it, who holds it,
// which pipeline it waits for. A run's person is known to the store.
func (r *Record) By(g Group) string {
	switch g {
	case GroupParked:
		return r.Operation.Actor
	case GroupAllowed, GroupOverdue:
		return r.Operation.Source.Pipeline
	case GroupHeld:
		return r.HeldBy().Actor.Name
	}
	return ""
}

// OutageGroup are operations of an outage of one kind that are in one group.
type OutageGroup struct {
	Kind  string // "" of what is settled or in flight: of those no list is kept
	Fate  Fate
	Group Group
	By    string // as Record.By
	Sum   Sum
}

// Landing is an operation of an outage whose effect may be there by another one.
type Landing struct {
	Operation string
	Title     string
	Other     Relation // the newest of them
}

// SomeElsewhere is how many of GroupElsewhere an account names.
const SomeElsewhere = 20

// OutageAccount is one outage with what makes its account.
type OutageAccount struct {
	Outage
	Minutes   []Minute      // with an error, in order
	Groups    []OutageGroup // all that count; the most first
	Elsewhere []Landing     // the first of GroupElsewhere
	Already   int           // landed, and a later attempt's answer said so
	CheckedAt time.Time     // when the last of those sent more than once was checked; zero: none was
	Events    []Event       // its own history, oldest first
}

// Fill gives the account its minutes and groups, in their order.
func (a *OutageAccount) Fill(minutes map[int64]int, groups map[OutageGroup]Sum) {
	for at, n := range minutes {
		a.Minutes = append(a.Minutes, Minute{At: time.UnixMilli(at * 60000).UTC(), N: n})
	}
	slices.SortFunc(a.Minutes, func(a, b Minute) int { return a.At.Compare(b.At) })
	for g, sum := range groups {
		g.Sum = sum
		a.Groups = append(a.Groups, g)
	}
	slices.SortFunc(a.Groups, OutageGroup.order)
}

// order is the order of an account's groups.
func (g OutageGroup) order(other OutageGroup) int {
	return cmp.Or(other.Sum.N-g.Sum.N, cmp.Compare(g.Kind, other.Kind), cmp.Compare(g.Fate, other.Fate), cmp.Compare(g.Group, other.Group), cmp.Compare(g.By, other.By))
}
