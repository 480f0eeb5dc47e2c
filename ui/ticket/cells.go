package ticket

import (
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
)

// Landed is the LANDED? column: facts are words, guesses are percentages.
func (t Ticket) Landed(room int) (safe.Text, Tone) {
	text, tone := t.landed(room)
	return safe.Of(text), tone
}

func (t Ticket) landed(room int) (string, Tone) {
	switch t.Row.Conflict {
	case ledger.Duplicate:
		if n := t.effects(); n > 2 {
			return fmt.Sprintf("%d TIMES", n), Bad
		}
		return "TWICE", Bad
	case ledger.PossibleDuplicate:
		return "maybe 2", Bad
	case ledger.MismatchConflict:
		return "differs", Bad
	case ledger.Contradiction:
		return "WRONG?", Bad
	}
	switch t.State() {
	case ledger.Committed:
		return "yes", Good
	case ledger.Failed:
		switch {
		case t.Row.Verdict == ledger.Absent || !t.Row.Doubted:
			return "no", Good
		case t.Record == nil:
			return "…", Plain
		case !Proven(*t.Record):
			return "said no", Plain // on a person's word: not a fact
		}
		return "no", Good
	case ledger.Abandoned:
		return "unknown", Plain
	case ledger.Pending:
		return "…", Plain
	}
	switch t.Row.Verdict {
	case ledger.Landed:
		return "seen", Plain
	case ledger.Absent:
		return "not now", Plain
	}
	if t.Record == nil {
		return "…", Plain // a guess is not shown without what it rests on
	}
	return guess(t.Facts.Advice.Odds, room), Warn
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

func (t Ticket) effects() int {
	if t.Record == nil {
		return 0
	}
	return t.Record.Operation.Effects
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
	switch n := t.effects(); {
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
		return fit(say("by %s", Who(t.Row.Actor)), Who(t.Row.Actor))
	}
	if t.Record == nil {
		return say("…")
	}
	switch a := t.Facts.Advice; a.Verb {
	case policy.AdviseLook:
		switch {
		case t.Row.Overtaken:
			return fit(say("look: overtaken"), say("look"))
		case len(t.Record.Related) > 0:
			return fit(say("look: same input"), say("look: same"), say("look"))
		case t.Facts.Link != "":
			return fit(say("look outside"), say("look"))
		}
		return say("look")
	case policy.AdviseRetry:
		if a.Basis == ledger.BasisAbsent || a.Basis == ledger.BasisKeySafe {
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
	text, ticks := t.clock()
	return safe.Of(text), ticks
}

func (t Ticket) clock() (string, bool) {
	if t.Row.Parked(t.Now) {
		return t.in("park", t.Row.ParkedUntil)
	}
	switch t.Lane() {
	case ledger.LaneConflict:
		return "–", false
	case ledger.LaneResolved:
		return t.at(t.Row.UpdatedAt), false
	case ledger.LaneInFlight:
		return t.in("ends", t.Row.DeadlineAt)
	case ledger.LaneUnfetched:
		return t.in("till", t.Row.GrantUntil)
	}
	switch {
	case t.Row.Overtaken:
		return "overtaken", false
	case t.Record == nil:
		return "", false
	}
	f, inDoubt := t.Facts, t.State() == ledger.Uncertain
	if at, what := t.next(); what != "" {
		return t.in(what, at)
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
func (t Ticket) next() (best time.Time, what string) {
	consider := func(at time.Time, word string) {
		if at.After(t.Now) && at.Before(ledger.Never) && (best.IsZero() || at.Before(best)) {
			best, what = at, word
		}
	}
	if t.State() == ledger.Uncertain {
		consider(t.Facts.ProofAt, "proof")
		if t.Lane() == ledger.LaneReading {
			consider(t.Row.Pricing.DecideAt, "you")
		}
	}
	consider(t.Facts.SafeUntil, "key")
	return best, what
}

// in is a countdown, and whether it changes every second.
func (t Ticket) in(what string, at time.Time) (string, bool) {
	d := at.Sub(t.Now)
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
