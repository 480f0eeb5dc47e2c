// Package ticket is what a person or a script is told about one operation: the
// same words, the same figures and the same rules on the screen, in lists, in
// details and in what is printed.
package ticket

import (
	"cmp"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Ticket is one operation at one moment.
type Ticket struct {
	Row    ledger.Row
	Record *ledger.Record // nil while only its row was read
	Facts  Facts          // of the record
	Now    time.Time
	Zone   *time.Location
}

// From is the ticket of a whole record under the policy that the judge asks.
func From(rec ledger.Record, judge Judge, zone *time.Location) Ticket {
	return Ticket{Row: rec.Row(), Record: &rec, Facts: judge(rec, rec.Now), Now: rec.Now, Zone: zone}
}

// Landed is the LANDED? column: facts are words, guesses are percentages.
func (t Ticket) Landed(room int) string {
	switch t.Row.Conflict {
	case ledger.Duplicate:
		if t.Record != nil && t.Record.Operation.Effects > 2 {
			return fmt.Sprintf("%d TIMES", t.Record.Operation.Effects)
		}
		return "TWICE"
	case ledger.PossibleDuplicate:
		return "maybe 2"
	case ledger.MismatchConflict:
		return "differs"
	case ledger.Contradiction:
		return "WRONG?"
	}
	switch t.Row.StateAt(t.Now) {
	case ledger.Committed:
		return "yes"
	case ledger.Failed:
		switch {
		case t.Row.Verdict == ledger.Absent || !t.Row.Doubted:
			return "no"
		case t.Record == nil:
			return "…"
		case !Proven(*t.Record):
			return "said no" // on a person's word: not a fact
		}
		return "no"
	case ledger.Abandoned:
		return "unknown"
	case ledger.Pending:
		return "…"
	}
	switch t.Row.Verdict {
	case ledger.Landed:
		return "seen"
	case ledger.Absent:
		return "not now"
	}
	if t.Record == nil {
		return "…" // a guess is not shown without what it rests on
	}
	o := t.Facts.Advice.Odds
	if o.N == 0 {
		return "?"
	}
	n := fmt.Sprint(o.N)
	if o.N >= 1000 {
		n = fmt.Sprintf("%dk", o.N/1000)
	}
	return Fit(room, fmt.Sprintf("%s n%d", Percent(o.P), o.N), fmt.Sprintf("%s n%s", Percent(o.P), n), Percent(o.P)+"n"+n)
}

// Do is the DO column: the advised act in few letters.
func (t Ticket) Do(room int) string {
	switch {
	case t.Row.Conflict == ledger.Duplicate && t.Record != nil && t.Record.Operation.Effects > 2:
		return Fit(room, fmt.Sprintf("cancel %d of %d", t.Record.Operation.Effects-1, t.Record.Operation.Effects), fmt.Sprintf("cancel %d", t.Record.Operation.Effects-1))
	case t.Row.Conflict == ledger.Duplicate:
		return Fit(room, "cancel one of two", "cancel one")
	case t.Row.Conflict != ledger.NoConflict:
		return Fit(room, "look at both sides", "look")
	}
	switch t.Row.LaneAt(t.Now) {
	case ledger.LaneInFlight:
		return Fit(room, "wait for its answer", "wait")
	case ledger.LaneUnfetched:
		return Fit(room, "waits for "+cmp.Or(t.Row.Source.Pipeline, "its pipeline"), "fetch")
	case ledger.LaneResolved:
		return Fit(room, "by "+Who(t.Row.Actor), Who(t.Row.Actor))
	}
	if t.Record == nil {
		return "…"
	}
	switch a := t.Facts.Advice; a.Verb {
	case "look":
		if t.Row.Overtaken {
			return Fit(room, "look: overtaken", "look")
		}
		if len(t.Record.Related) > 0 {
			return Fit(room, "look: twin", "look")
		}
		if t.Facts.Link != "" {
			return Fit(room, "look outside", "look")
		}
		return "look"
	case "retry":
		if a.Basis == ledger.BasisAbsent || a.Basis == ledger.BasisKeySafe {
			return Fit(room, "retry: safe", "retry")
		}
		return "retry"
	case "":
		return "–"
	default:
		return safe.Of(a.Verb).String()
	}
}

// Clock is the CLOCK column: the moment that changes the advice next. It reports
// whether the text changes every second.
func (t Ticket) Clock() (string, bool) {
	in := func(what string, at time.Time) (string, bool) {
		d := at.Sub(t.Now)
		if d < 100*time.Second {
			return fmt.Sprintf("%s %ds", what, int(max(d, 0).Round(time.Second).Seconds())), true
		}
		if d < time.Hour {
			return fmt.Sprintf("%s %dm", what, int((d + time.Minute - 1).Minutes())), d < 2*time.Minute
		}
		return what + " " + Span(d), false
	}
	if t.Row.Parked(t.Now) {
		return in("parked", t.Row.ParkedUntil)
	}
	switch t.Row.LaneAt(t.Now) {
	case ledger.LaneConflict:
		return "–", false
	case ledger.LaneResolved:
		return Moment(t.Row.UpdatedAt, t.Now, t.Zone), false
	case ledger.LaneInFlight:
		return in("ends", t.Row.DeadlineAt)
	case ledger.LaneUnfetched:
		return in("till", t.Row.GrantUntil)
	}
	if t.Row.Overtaken {
		return "overtaken", false
	}
	if t.Record == nil {
		return "", false
	}
	f := t.Facts
	best, what := time.Time{}, ""
	consider := func(at time.Time, word string) {
		if at.After(t.Now) && at.Before(ledger.Never) && (best.IsZero() || at.Before(best)) {
			best, what = at, word
		}
	}
	if t.Row.StateAt(t.Now) == ledger.Uncertain {
		consider(f.ProofAt, "proof")
		if t.Row.LaneAt(t.Now) == ledger.LaneReading {
			consider(t.Row.Pricing.DecideAt, "you")
		}
	}
	consider(f.SafeUntil, "key")
	switch {
	case what != "":
		return in(what, best)
	case f.SafeUntil.Equal(ledger.Never):
		return "repeatable", false
	case t.Row.StateAt(t.Now) == ledger.Uncertain && !f.HasRead:
		return "no check", false
	case !f.SafeUntil.IsZero():
		return "key over", false
	}
	return "–", false
}

// Twice and Never are the columns of what a duplicate and a miss cost. They say
// nothing of what has no price: 0 would say that it costs nothing.
func (t Ticket) Twice() string { return t.cost(t.Row.Pricing.Duplicate) }
func (t Ticket) Never() string { return t.cost(t.Row.Pricing.Miss) }

func (t Ticket) cost(c ledger.Cost) string {
	if t.Row.Pricing.Digest == "" {
		return "…"
	}
	return Cost(c)
}

// Age is the AGE column: since it was first in doubt, else since it began.
func (t Ticket) Age() time.Duration {
	return t.Now.Sub(cmp.Or(t.Row.DoubtedAt, t.Row.CreatedAt))
}
