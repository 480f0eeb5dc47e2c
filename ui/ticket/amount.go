package ticket

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"indoubt/ledger"
)

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
