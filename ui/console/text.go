package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"

	"github.com/charmbracelet/x/ansi"
)

// width is how many cells a text without styles takes.
func width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// cut shortens a text without styles to w cells and ends it with an ellipsis.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if width(s) <= w {
		return s
	}
	return ansi.Truncate(s, w, "…")
}

// left pads or cuts a text to exactly w cells.
func left(s string, w int) string {
	s = cut(s, w)
	if n := w - width(s); n > 0 {
		return s + spaces(n)
	}
	return s
}

// right pads on the left.
func right(s string, w int) string {
	s = cut(s, w)
	if n := w - width(s); n > 0 {
		return spaces(n) + s
	}
	return s
}

const blank = "                                                                                                    "

func spaces(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blank) {
		return blank[:n]
	}
	return strings.Repeat(" ", n)
}

func rule(n int) string { return strings.Repeat("─", max(n, 0)) }

// fit pads or cuts a text that may hold styles to exactly w cells.
func fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	n := ansi.StringWidth(s)
	if n > w {
		return ansi.Truncate(s, w, "…")
	}
	return s + spaces(w-n)
}

// wrap breaks a text without styles into lines of at most w cells, at spaces
// where there are any.
func wrap(s string, w int) []string {
	if w <= 0 {
		return nil
	}
	var out []string
	for width(s) > w {
		line := ansi.Truncate(s, w, "")
		if line == "" {
			break
		}
		end := len(line)
		if s[end] != ' ' {
			if i := strings.LastIndexByte(line, ' '); i > w/3 {
				end = i
			}
		}
		out = append(out, strings.TrimRight(s[:end], " "))
		s = strings.TrimLeft(s[end:], " ")
	}
	return append(out, s)
}

// money is an amount of zero or more in at most six cells: 4.20, 420, 5,800,
// 62.2k, 1.30M, 20.0G, 3e18. An amount that is cut off would read as a smaller one.
func money(v float64) string {
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
		return grouped(v, 0)
	case a < 0.005:
		return "<0.01"
	}
	return grouped(v, 2)
}

func short(v float64, unit string) string {
	return strconv.FormatFloat(v, 'f', 1, 64) + unit
}

// rough is money without its decimals, which is a cell or two shorter.
func rough(v float64) string {
	text := money(v)
	if i := strings.IndexByte(text, '.'); i > 0 && text[0] != '<' {
		end := strings.TrimLeft(text[i+1:], "0123456789")
		if end == "" {
			return grouped(v, 0)
		}
		whole := map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[end]
		return strconv.FormatFloat(v/whole, 'f', 0, 64) + end
	}
	return text
}

// full is an amount with every digit: 24,000 or 1,234.50.
func full(v float64) string {
	if v == math.Trunc(v) {
		return grouped(v, 0)
	}
	if v > 0 && v < 0.005 {
		return "<0.01"
	}
	return grouped(v, 2)
}

// typed is an amount as a person types it.
func typed(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func grouped(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest := s, ""
	if i := strings.IndexByte(s, '.'); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole + rest
}

// cost is a price as a column shows it: a word stays a word, a built-in guess
// carries a tilde.
func cost(c ledger.Cost) string {
	switch {
	case c.Guess && width(money(c.Value)) > 5:
		return "~" + rough(c.Value)
	case c.Guess:
		return "~" + money(c.Value)
	case c.Word == "medium":
		return "med"
	case c.Word != "":
		return c.Word
	}
	return money(c.Value)
}

// fullCost is a price as a sentence says it.
func fullCost(c ledger.Cost) string {
	switch {
	case c.Guess:
		return "~" + full(c.Value) + " (a guess: the policy gives none)"
	case c.Word != "":
		return c.Word + " (" + full(c.Value) + ")"
	}
	return full(c.Value)
}

// age is a span in at most three cells where it can: 9s, 41m, 23h, 3d.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 1000*24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return fmt.Sprintf("%dy", int(d.Hours()/24/365))
}

// span is a countdown: 40s, 9m12s, 23h07m, 6d.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 72*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// moment is a time of day, with the weekday when it is not today's, and the
// date when it is not this week's.
func moment(t, now time.Time, loc *time.Location) string {
	t, now = t.In(loc), now.In(loc)
	layout := "15:04:05"
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "Mon 15:04"
		if d := now.Sub(t); d > 6*24*time.Hour || d < -6*24*time.Hour {
			layout = "2006-01-02 15:04"
		}
	}
	return t.Format(layout)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(float64(n), 0) + " " + many
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// visibleWidth is how many cells a text with styles takes.
func visibleWidth(s string) int { return ansi.StringWidth(s) }
