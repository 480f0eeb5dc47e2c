package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// column is one column of the list. A narrow terminal drops columns with the
// highest drop number first; WHAT takes what is left.
type column struct {
	head  string
	right bool
	drop  int
	cell  func(v view) string
}

const flexible = "WHAT"

var columns = []column{
	{head: "ID@VERSION", cell: nil}, // as short as the terminal needs it; see writeTable
	{head: "AGE", right: true, cell: func(v view) string { return age(v.now.Sub(v.rec.Operation.CreatedAt)) }},
	{head: "STATE", drop: 3, cell: func(v view) string { return string(v.state) }},
	{head: "KIND", drop: 5, cell: func(v view) string { return v.rec.Operation.Kind }},
	{head: flexible, cell: view.title},
	{head: "PIPELINE", drop: 6, cell: func(v view) string { return v.rec.Operation.Source.Pipeline }},
	{head: "TWICE", right: true, drop: 1, cell: func(v view) string { return price(v.rec.Pricing.Duplicate) }},
	{head: "NEVER", right: true, drop: 1, cell: func(v view) string { return price(v.rec.Pricing.Miss) }},
	{head: "LANDED?", cell: landed},
	{head: "CLOCK", drop: 4, cell: clock},
	{head: "DO", drop: 2, cell: do},
}

// writeTable prints the views as an aligned table. Without a width (no
// terminal) nothing is cut and ids are whole, so that a pipe can use them.
func writeTable(w *safe.Writer, all []view, width int) {
	if len(all) == 0 {
		return
	}
	ids := shortIDs(all, width > 0)
	use := columns
	rows := cells(use, all, ids)
	for drop := 6; width > 0 && drop > 0 && needed(use, rows, 16) > width; drop-- {
		kept := make([]column, 0, len(use))
		for _, c := range use {
			if c.drop != drop {
				kept = append(kept, c)
			}
		}
		use = kept
		rows = cells(use, all, ids)
	}
	widths := widest(rows)
	if width > 0 {
		for i, c := range use {
			if c.head == flexible {
				widths[i] = max(8, min(widths[i], width-needed(use, rows, 0)))
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range use {
			if i > 0 {
				line.WriteByte(' ')
			}
			text := row[i]
			if c.head == flexible && width > 0 {
				text = ansi.Truncate(text, widths[i], "…")
			}
			pad := strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(text)))
			if c.right {
				line.WriteString(pad + text)
			} else {
				line.WriteString(text + pad)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if width > 0 {
			text = ansi.Truncate(text, width, "…") // narrower than any table
		}
		fmt.Fprintln(w, text)
	}
}

// cells renders every cell, the heads first, everything visible-safe.
func cells(use []column, all []view, ids []string) [][]string {
	rows := [][]string{make([]string, len(use))}
	for i, c := range use {
		rows[0][i] = c.head
	}
	for n, v := range all {
		row := make([]string, len(use))
		for i, c := range use {
			if c.cell == nil {
				row[i] = ids[n]
				continue
			}
			row[i] = safe.Text(c.cell(v))
			if row[i] == "" {
				row[i] = "–"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func widest(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	return widths
}

// needed is the width of the table with that much room for the flexible column.
func needed(use []column, rows [][]string, room int) int {
	total := len(use) - 1
	for i, w := range widest(rows) {
		if use[i].head == flexible {
			w = room
		}
		total += w
	}
	return total
}

// shortIDs are the ids with their versions, cut to what tells them apart. Ids
// begin with their time of making: thirteen characters are a millisecond.
func shortIDs(all []view, cut bool) []string {
	n := 36
	if cut {
		for n = 13; n < 36; n++ {
			seen := map[string]bool{}
			for _, v := range all {
				seen[prefix(v.rec.Operation.ID, n)] = true
			}
			if len(seen) == len(all) {
				break
			}
		}
	}
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = fmt.Sprintf("%s@%d", safe.Text(prefix(v.rec.Operation.ID, n)), v.rec.Operation.Version)
	}
	return out
}

func prefix(id string, n int) string {
	if len(id) < n {
		return id
	}
	return strings.TrimRight(id[:n], "-")
}

// price is a cost as a person reads it: an amount, a word, or ~ for a default.
func price(c ledger.Cost) string {
	switch {
	case c.Guess:
		return "~" + amount(c.Value)
	case c.Word != "":
		return c.Word
	}
	return amount(c.Value)
}

// amount writes money with thousands separated, cents only where they matter.
func amount(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) || math.Abs(f) >= 1e15 {
		return strconv.FormatFloat(f, 'g', 4, 64)
	}
	s := strconv.FormatFloat(math.Abs(f), 'f', 2, 64)
	whole, cents, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if cents != "00" {
		whole += "." + cents
	}
	if f < 0 {
		whole = "-" + whole
	}
	return whole
}

// landed says what is known: facts are words, guesses are percentages.
func landed(v view) string {
	switch v.rec.Operation.Conflict {
	case ledger.Duplicate:
		return "TWICE"
	case ledger.MismatchConflict:
		return "differs"
	case ledger.Contradiction:
		return "disputed"
	case ledger.PossibleDuplicate:
		return "twice?"
	}
	switch v.state {
	case ledger.Committed:
		return "yes"
	case ledger.Failed:
		return "no"
	case ledger.Pending:
		return "in flight"
	case ledger.Abandoned:
		return "unknown"
	}
	return guess(v)
}

func guess(v view) string {
	return fmt.Sprintf("%.0f%% n%d", 100*v.odds.P, v.odds.N)
}

// clock is the moment that changes the advice next.
func clock(v view) string {
	o := v.rec.Operation
	switch {
	case v.now.Before(o.ParkedUntil):
		return "parked " + age(o.ParkedUntil.Sub(v.now))
	case v.state == ledger.Pending:
		return "answer " + age(o.DeadlineAt.Sub(v.now))
	case v.row.Overtaken:
		return "overtaken"
	case v.state == ledger.Uncertain && v.advice.ProofAt.After(v.now) && v.advice.ProofAt.Before(ledger.Never):
		return "proof in " + age(v.advice.ProofAt.Sub(v.now))
	case v.advice.SafeUntil.Equal(ledger.Never):
		return "repeatable"
	case v.advice.SafeUntil.After(v.now):
		return "key " + age(v.advice.SafeUntil.Sub(v.now))
	case v.state == ledger.Uncertain && v.kind.Read == nil:
		return "no check"
	}
	return ""
}

func do(v view) string {
	switch {
	case v.lane == ledger.LaneUnfetched:
		return "waits for " + v.rec.Operation.Source.Pipeline
	case v.advice.Verb == "raise":
		return "raise attempts"
	}
	return v.advice.Verb
}
