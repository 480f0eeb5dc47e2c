package ticket

import (
	"cmp"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
)

// Landed is the LANDED? column: facts are words, guesses are percentages.
func (t Ticket) Landed(room int) (safe.Text, Tone) {
	text, tone := cells{t}.landed(room)
	return safe.Of(text), tone
}

// cells are the words of a ticket in the columns of a list.
type cells struct{ Ticket }

func (c cells) landed(room int) (string, Tone) {
	switch c.Row.Conflict {
	case ledger.Duplicate:
		if n := effectsKnown(c.Record); n > 2 {
			return fmt.Sprintf("%d TIMES", n), Bad
		}
		return "TWICE", Bad
	case ledger.PossibleDuplicate:
		return "maybe 2", Bad
	case ledger.DifferentConflict:
		return "differs", Bad
	case ledger.Contradiction:
		return "WRONG?", Bad
	}
	switch state := c.State(); cmp.Or(c.Row.Fact, state) {
	case ledger.Committed:
		return "yes", Good
	case ledger.Failed:
		switch {
		case !c.Row.Doubted:
			return "no", Good
		case c.Row.Verdict == ledger.NotThere:
			return "no", Sure
		case c.Record == nil:
			return "…", Plain
		case !Proven(*c.Record):
			return "said no", Plain // on a person's word: not a fact
		}
		return "no", Sure
	case ledger.Abandoned: // and taken back
		return "undone", Plain
	case ledger.Pending:
		return "…", Plain
	case ledger.Uncertain:
		if state == ledger.Abandoned {
			return "unknown", Plain
		}
	}
	switch c.Row.Verdict {
	case ledger.Landed:
		return "seen", Plain
	case ledger.NotThere:
		return "not now", Plain
	}
	if c.Record == nil {
		return "…", Plain // a guess is not shown without what it rests on
	}
	if c.Facts.Basis == ledger.BasisNotSeen {
		return "not seen", Warn
	}
	return guess(c.Facts.Advice.Odds, room), Warn
}

// guess is a chance with the cases it rests on: those of its kind after n, and
// those of other kinds behind a plus. Without any it is no more than a question.
func guess(o policy.Odds, room int) string {
	if o.N == 0 {
		return "?"
	}
	own, others := count(o.Own()), ""
	if o.Others > 0 {
		others = "+" + count(o.Others)
	}
	short := ""
	if others != "" {
		short = "+"
	}
	p := Percent(o.P)
	return Fit(room, fmt.Sprintf("%s n%d%s", p, o.Own(), others), p+" n"+own+others, p+" n"+own+short, p+"n"+own+short)
}

// count is a number of cases in few cells: 208, 1k.
func count(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// effectsKnown is how many effects there are; 0 while only the row was read.
func effectsKnown(rec *ledger.Record) int {
	if rec == nil {
		return 0
	}
	return rec.Operation.Effects
}

// Do is the DO column: the advised act in few letters.
func (t Ticket) Do(room int) safe.Text {
	fit := func(texts ...safe.Text) safe.Text {
		for _, text := range texts[:len(texts)-1] {
			if Width(text.String()) <= room {
				return text
			}
		}
		return texts[len(texts)-1]
	}
	say := safe.Say
	switch n := effectsKnown(t.Record); {
	case t.Row.Conflict == ledger.Duplicate && n > 2:
		return fit(say("cancel %d of %d", n-1, n), say("cancel %d", n-1))
	case t.Row.Conflict == ledger.Duplicate:
		return fit(say("cancel one of two"), say("cancel one"))
	case t.Row.Conflict != ledger.NoConflict:
		return fit(say("look at both sides"), say("look"))
	}
	switch t.Lane() {
	case ledger.LaneInFlight:
		return fit(say("wait for its answer"), say("wait"))
	case ledger.LaneUnfetched:
		return fit(say("waits for %s", t.Pipeline()), say("fetch"))
	case ledger.LaneResolved:
		who := Who(t.Row.Actor)
		return fit(say("by %s", who), who)
	}
	if t.Record == nil {
		return say("…")
	}
	switch a := t.Facts.Advice; a.Verb {
	case policy.AdviseLook:
		if t.Facts.Link != "" {
			return fit(say("look outside"), say("look"))
		}
		return say("look")
	case policy.AdviseAbandon:
		if (later{t}).came() {
			return fit(say("abandon: overtaken"), say("abandon"))
		}
		return say("abandon")
	case policy.AdviseRetry:
		if a.Basis == ledger.BasisNotSeen {
			return fit(say("retry: not seen"), say("retry"))
		}
		if a.Basis == ledger.BasisProof || a.Basis == ledger.BasisKeySafe {
			return fit(say("retry: safe"), say("retry"))
		}
		return say("retry")
	case "":
		return say("–")
	default:
		return safe.Of(a.Verb)
	}
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
