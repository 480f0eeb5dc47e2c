package ticket

import (
	"cmp"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Landed is the LANDED? column: facts are words, guesses are percentages.
func (t Ticket) Landed() (safe.Text, Tone) {
	say := safe.Say
	switch t.Row.Conflict {
	case ledger.ConflictTwice:
		return say("TWICE"), Bad
	case ledger.ConflictMaybeTwice:
		return say("TWICE?"), Bad
	case ledger.ConflictDifferent:
		return say("OTHER"), Bad
	case ledger.ConflictDisputed:
		return say("DISPUTED"), Bad
	}
	switch state := t.State(); cmp.Or(t.Row.Fact, state) {
	case ledger.Committed:
		return say("yes"), Good
	case ledger.Failed:
		switch {
		case !t.Row.Doubted:
			return say("no"), Good
		case t.Row.Verdict != ledger.NotThere && t.Record == nil:
			return say("…"), Plain
		case t.Row.Verdict != ledger.NotThere && !Proven(*t.Record):
			return say("said no"), Plain // on a person's word: not a fact
		}
		return say("no"), Sure
	case ledger.Abandoned, ledger.Pending:
		return say("?"), Plain
	case ledger.Uncertain:
		if state == ledger.Abandoned || t.Row.Verdict == ledger.Landed || t.Row.Verdict == ledger.NotThere {
			return say("?"), Plain // KNOWN says what a check found
		}
	}
	switch odds := t.Facts.Advice.Odds; {
	case t.Record == nil:
		return say("…"), Plain // a guess is not shown without what it rests on
	case t.Facts.Basis == ledger.BasisNotSeen:
		return say("not seen"), Warn
	case odds.N == 0:
		return say("?"), Warn
	default:
		return safe.Of(Percent(odds.P)), Warn
	}
}

// cells are the words of a ticket in the columns of a list.
type cells struct{ Ticket }

// Do is the DO column: the advised act in one word.
func (t Ticket) Do() safe.Text {
	if t.Row.Conflict != ledger.NoConflict {
		return safe.Say("resolve")
	}
	switch t.Lane() {
	case ledger.LaneInFlight, ledger.LaneUnfetched:
		return safe.Say("wait")
	case ledger.LaneResolved:
		return safe.Say("nothing")
	}
	if t.Record == nil {
		return safe.Say("…")
	}
	return safe.Of(cmp.Or(t.Facts.Advice.Verb, "nothing"))
}

// Clock is the CLOCK column: the moment that changes the advice next. It reports
// whether the text changes every second.
func (t Ticket) Clock() (safe.Text, bool) {
	text, ticks := cells{t}.clock()
	return safe.Of(text), ticks
}

func (c cells) clock() (string, bool) {
	if c.Row.Parked(c.Now) {
		return c.in("park", c.Row.ParkedUntil)
	}
	switch c.Lane() {
	case ledger.LaneConflict:
		return "–", false
	case ledger.LaneResolved:
		return c.at(c.Row.UpdatedAt), false
	case ledger.LaneInFlight:
		return c.in("ends", c.Row.DeadlineAt)
	case ledger.LaneUnfetched:
		return c.in("till", c.Row.GrantUntil)
	}
	switch {
	case later(c).came():
		return "overtaken", false
	case c.Record == nil:
		return "", false
	}
	f, inDoubt := c.Facts, c.State() == ledger.Uncertain
	if at, what := c.next(); what != "" {
		return c.in(what, at)
	}
	switch {
	case f.SafeUntil.Equal(ledger.Never):
		return "repeatable", false
	case inDoubt && !f.HasRead:
		return "no check", false
	case !f.SafeUntil.IsZero():
		return "key over", false
	}
	return "–", false
}

// next is the first moment to come that changes what is advised, and its name.
func (c cells) next() (best time.Time, what string) {
	consider := func(at time.Time, word string) {
		if at.After(c.Now) && at.Before(ledger.Never) && (best.IsZero() || at.Before(best)) {
			best, what = at, word
		}
	}
	if c.State() == ledger.Uncertain {
		consider(c.Facts.ProofAt, "proof")
		if c.Lane() == ledger.LaneReading {
			consider(c.Row.Pricing.DecideAt, "you")
		}
	}
	consider(c.Facts.SafeUntil, "key")
	return best, what
}

// in is a countdown, and whether it changes every second.
func (c cells) in(what string, at time.Time) (string, bool) {
	d := at.Sub(c.Now)
	if d < 100*time.Second {
		return fmt.Sprintf("%s %ds", what, int(max(d, 0).Round(time.Second).Seconds())), true
	}
	if d < time.Hour {
		return fmt.Sprintf("%s %dm", what, int((d + time.Minute - 1).Minutes())), d < 2*time.Minute
	}
	return what + " " + Span(d), false
}

// Twice and Never are the columns of what a duplicate and a miss cost. They say
// nothing of what has no price: 0 would say that it costs nothing.
func (t Ticket) Twice() safe.Text { return t.cost(t.Row.Pricing.Duplicate) }
func (t Ticket) Never() safe.Text { return t.cost(t.Row.Pricing.Miss) }

func (t Ticket) cost(c ledger.Cost) safe.Text {
	if t.Row.Pricing.Digest == "" && t.Record == nil {
		return safe.Say("…")
	}
	return safe.Of(Cost(c))
}
