package ticket

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/advice"
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
	p := advice.Rounded(a.Odds.P)
	words := func(gap string, given func(ledger.Cost) string, amount func(float64) string) safe.Text {
		return safe.Say("retry %s × %s = %s%sleave %s × %s = %s%slooking %s",
			advice.Share(p), given(a.Duplicate), amount(a.RetryCost), gap, advice.Share(1-p), given(a.Miss), amount(a.LeaveCost), gap, amount(a.LookCost))
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

// Money is an amount of zero or more in at most six cells: 4.20, 420, 5,800,
// 62.2k, 1.30M, 20.0G, 3e18. An amount that is cut off would read as a smaller one.
func Money(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return "?"
	case a >= 999.95e12:
		return strings.Replace(strconv.FormatFloat(v, 'e', 0, 64), "e+", "e", 1)
	case a >= 999.95e9:
		return short(v/1e12, "T")
	case a >= 999.95e6:
		return short(v/1e9, "G")
	case a >= 9_999_500:
		return short(v/1e6, "M")
	case a >= 999_950:
		return strconv.FormatFloat(v/1e6, 'f', 2, 64) + "M"
	case a >= 9_999.5:
		return short(v/1e3, "k")
	case a >= 999.995 || v == math.Trunc(v):
		return Grouped(v, 0)
	case a < 0.005:
		return "<0.01"
	}
	return Grouped(v, 2)
}

func short(v float64, unit string) string {
	return strconv.FormatFloat(v, 'f', 1, 64) + unit
}

// rough is money without its decimals, which is a cell or two shorter.
func rough(v float64) string {
	text := Money(v)
	if i := strings.IndexByte(text, '.'); i > 0 && text[0] != '<' {
		end := strings.TrimLeft(text[i+1:], "0123456789")
		if end == "" {
			return Grouped(v, 0)
		}
		whole := map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[end]
		return strconv.FormatFloat(v/whole, 'f', 0, 64) + end
	}
	return text
}

// Full is an amount with every digit: 24,000 or 1,234.50.
func Full(v float64) string {
	if v >= 0.005 && v < 1e15 {
		v = math.Round(v*100) / 100
	}
	if v == math.Trunc(v) {
		return Grouped(v, 0)
	}
	if v > 0 && v < 0.005 {
		return "<0.01"
	}
	return Grouped(v, 2)
}

// Grouped is a number with its thousands set apart.
func Grouped(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest := s, ""
	if i := strings.IndexByte(s, '.'); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	return ledger.Thousands(whole) + rest
}

// Cost is a price as a column shows it: a word stays a word, a built-in guess
// carries a tilde.
func Cost(c ledger.Cost) string {
	switch {
	case c.Guess && len(Money(c.Value)) > 5:
		return "~" + rough(c.Value)
	case c.Guess:
		return "~" + Money(c.Value)
	case c.Word == "medium":
		return "med"
	case c.Word != "":
		return c.Word
	}
	return Money(c.Value)
}

// FullCost is a price as a sentence says it.
func FullCost(c ledger.Cost) string {
	switch {
	case c.Guess:
		return "~" + Full(c.Value) + " (a guess: the policy gives none)"
	case c.Word != "":
		return c.Word + " (" + Full(c.Value) + ")"
	}
	return Full(c.Value)
}

func FullValue(c ledger.Cost) string {
	if c.Guess {
		return "~" + Full(c.Value)
	}
	return Full(c.Value)
}

func Percent(p float64) string { return fmt.Sprintf("%.0f%%", p*100) }
