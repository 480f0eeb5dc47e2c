package ticket

import (
	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
)

// Price is the arithmetic of both mistakes in so many cells: amounts that do not
// fit in full are shortened, never cut off. It is empty where no one gambles: what is
// not there, not seen or remembered is not gambled with, and what another one replaced is not sent.
func (t Ticket) Price(room int) safe.Text {
	a := t.Facts.Advice
	switch state := t.State(); {
	case t.Row.Conflict != ledger.NoConflict, Enough(t.Facts.Basis), later{t}.came():
		return safe.Text{}
	case state == ledger.Failed && !Proven(*t.Record):
		return safe.Say("leave %s: it is never done  retry %s if it landed after all", Full(a.Miss.Value), Full(a.Duplicate.Value))
	case state != ledger.Uncertain:
		return safe.Text{}
	}
	p := policy.Rounded(a.Odds.P)
	words := func(gap string, given func(ledger.Cost) string, amount func(float64) string) safe.Text {
		return safe.Say("retry %s × %s = %s%sleave %s × %s = %s%slooking %s",
			policy.Share(p), given(a.Duplicate), amount(a.RetryCost), gap, policy.Share(1-p), given(a.Miss), amount(a.LeaveCost), gap, amount(a.LookCost))
	}
	for _, text := range []safe.Text{words("    ", FullValue, Full), words("  ", FullValue, Full), words("  ", Cost, Money)} {
		if Width(text.String()) <= room {
			return text
		}
	}
	return safe.Say("retry %s  leave %s  looking %s", Money(a.RetryCost), Money(a.LeaveCost), Money(a.LookCost))
}

// OnAverage compares what sending costs with what leaving costs.
func (t Ticket) OnAverage() safe.Text {
	a := t.Facts.Advice
	worse := "the same"
	if diff := a.RetryCost - a.LeaveCost; diff > 0 {
		worse = Full(diff) + " WORSE"
	} else if diff < 0 {
		worse = Full(-diff) + " better"
	}
	return safe.Say("send %s, leave %s: sending is %s", Full(a.RetryCost), Full(a.LeaveCost), worse)
}

// Loss is what a conflict costs until it is dealt with; empty where that is not
// known.
func (t Ticket) Loss() safe.Text {
	o, a := &t.Record.Operation, t.Facts.Advice
	switch {
	case o.Conflict == ledger.ConflictTwice && o.Effects > 2:
		return safe.Say("%s for each of %d too many, until it is taken back; indoubt does not take it back", FullCost(a.Duplicate), o.Effects-1)
	case o.Conflict == ledger.ConflictTwice:
		return safe.Say("%s until one is taken back; indoubt does not take it back", FullCost(a.Duplicate))
	case o.Conflict == ledger.ConflictMaybeTwice:
		return safe.Say("%s if both landed; indoubt does not take it back", FullCost(a.Duplicate))
	case o.Conflict == ledger.ConflictDisputed && t.State() != ledger.Committed:
		return safe.Say("%s if it is sent again now and had landed", FullCost(a.Duplicate))
	case o.Conflict == ledger.ConflictDisputed:
		return safe.Say("%s if it did not land and is never sent", FullCost(a.Miss))
	}
	return safe.Text{}
}

func (t Ticket) putRight() safe.Text {
	o := &t.Record.Operation
	switch o.Conflict {
	case ledger.ConflictTwice:
		if n := o.Effects; n > 2 {
			return safe.Say("%d effects exist. Take %d back outside, then D with a reference", n, n-1)
		}
		return safe.Say("two effects exist. Take one back outside, then D with its reference")
	case ledger.ConflictMaybeTwice:
		return safe.Say("look outside for the other one. If it is there, take one back. Then D says what is true")
	case ledger.ConflictDisputed:
		return safe.Say("look at which side is right, then D says what is true")
	}
	return safe.Say("look at what was found, then D says what is true")
}

// Happened is the headline of a conflict, with how often where that is more than
// twice.
func (t Ticket) Happened() safe.Text {
	if o := &t.Record.Operation; o.Conflict == ledger.ConflictTwice && o.Effects > 2 {
		return safe.Say("HAPPENED %d TIMES", o.Effects)
	}
	return safe.Of(Conflict(t.Row.Conflict))
}
