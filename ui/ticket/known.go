package ticket

import (
	"cmp"
	"fmt"
	"strings"

	"indoubt/ledger"
)

// Tone is how a sentence sounds.
type Tone int

const (
	Plain Tone = iota
	Good       // a fact that asks for nothing
	Warn       // a guess, or a person's word
	Bad        // what must not be
)

// Known says in one sentence what is fact and what is guess.
func (t Ticket) Known() (string, Tone) {
	o, a := &t.Record.Operation, t.Facts.Advice
	if t.Now.Before(o.ParkedUntil) {
		return "parked until " + Moment(o.ParkedUntil, t.Now, t.Zone) + ": " + o.Reason, Plain
	}
	switch o.Conflict {
	case ledger.Contradiction, ledger.PossibleDuplicate, ledger.MismatchConflict:
		// What is recorded is just what is disputed.
		return cmp.Or(o.ConflictNote, strings.ToLower(Conflict(o.Conflict))), Bad
	}
	switch o.StateAt(t.Now) {
	case ledger.Committed:
		text := "it landed"
		if o.Effects > 1 {
			text = fmt.Sprintf("it happened %d times", o.Effects)
		}
		if len(o.Receipts) > 0 {
			text += ", receipt " + strings.Join(o.Receipts, ", ")
		}
		return text + " (" + Who(o.Actor) + Colon(o.Reason) + ")", Good
	case ledger.Failed:
		if !Proven(*t.Record) {
			return "it is said not to have landed, without proof (" + Who(o.Actor) + Colon(o.Reason) + ")", Warn
		}
		return "it did not land (" + Who(o.Actor) + Colon(o.Reason) + ")", Good
	case ledger.Abandoned:
		return "nothing; abandoned by " + Who(o.Actor) + Colon(o.Reason), Plain
	case ledger.Pending:
		return "an attempt is in flight; nothing to decide yet", Plain
	}
	switch o.Verdict {
	case ledger.Landed:
		return "a check found it; a person settles it", Good
	case ledger.Absent:
		return "a check found none now; a person settles it", Plain
	case ledger.Duplicated:
		return "a check found more than one", Bad
	case ledger.Mismatch:
		return "a check found one, but different", Bad
	}
	if a.Odds.N > 0 && a.Odds.Why != "" {
		return fmt.Sprintf("nothing. %s (%.0f–%.0f%%) is a guess: %s", Percent(a.Odds.P), a.Odds.Low*100, a.Odds.High*100, a.Odds.Why), Warn
	}
	if a.Odds.N == 0 {
		return fmt.Sprintf("nothing, and no earlier case to guess from (%s assumed)", Percent(a.Odds.P)), Warn
	}
	return fmt.Sprintf("nothing. %s is a guess from %s (%.0f–%.0f%%)", Percent(a.Odds.P), cases(a.Odds.N), a.Odds.Low*100, a.Odds.High*100), Warn
}

func cases(n int) string {
	if n == 1 {
		return "1 case"
	}
	return Grouped(float64(n), 0) + " cases"
}
