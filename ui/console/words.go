package console

import (
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// The contract's words stay in code; this is where they become the screen's.

// became says how an operation left a list: what it is now, since when, by whom.
func became(r ledger.Row, o ledger.Operation, now time.Time, loc *time.Location) string {
	words := ticket.State(r.StateAt(now))
	switch {
	case r.Parked(now):
		words = "parked"
	case r.Conflict != ledger.NoConflict:
		words = strings.ToLower(ticket.Conflict(r.Conflict))
	case r.LaneAt(now) == ledger.LaneUnfetched:
		words = "send allowed"
	case r.LaneAt(now) == ledger.LaneReading:
		words = "checking"
	case r.LaneAt(now) == ledger.LaneDecide:
		words = "needs you"
	}
	if since := turned(r, now); since.After(o.UpdatedAt) {
		return words + " " + since.In(loc).Format("15:04") // a clock did it, nobody
	}
	return words + " " + o.UpdatedAt.In(loc).Format("15:04") + ", by " + safe.Of(ticket.Who(o.Actor)).String()
}

// turned is when a clock last put a row where it stands; zero when none did.
func turned(r ledger.Row, now time.Time) time.Time {
	switch {
	case r.State == ledger.Pending && r.StateAt(now) == ledger.Uncertain:
		return r.DeadlineAt
	case !r.ParkedUntil.IsZero() && !r.Parked(now):
		return r.ParkedUntil
	case r.LaneAt(now) == ledger.LaneDecide && !r.Pricing.DecideAt.After(now):
		return r.Pricing.DecideAt
	}
	return time.Time{}
}
