package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// column is one column of the list. A narrow terminal drops columns with the
// highest drop number first; WHAT takes what is left.
type column struct {
	head  string
	right bool
	drop  int
	cell  func(v ticket.Ticket) safe.Text
}

const flexible = "WHAT"

// whole is room for every text of a column.
const whole = 1000

// columnsFor are the columns at a width; 0 is no terminal. What has a short form
// takes it where the console does.
func columnsFor(width int, f ledger.Filter) []column {
	landed, do := whole, whole
	switch {
	case width >= 108:
		landed, do = 13, 17
	case width > 0:
		landed, do = 7, 10
	}
	all := []column{
		{head: "ID@VERSION", cell: nil}, // as short as the terminal needs it; see writeTable
		{head: "AGE", right: true, cell: func(v ticket.Ticket) safe.Text { return safe.Of(ticket.Age(v.Age())) }},
		{head: "STATE", drop: 3, cell: func(v ticket.Ticket) safe.Text { return safe.Of(string(v.State())) }},
		{head: "KIND", drop: 5, cell: ticket.Ticket.Kind},
		{head: flexible, cell: ticket.Ticket.Title},
		{head: "PIPELINE", drop: 6, cell: func(v ticket.Ticket) safe.Text { return safe.Of(v.Row.Source.Pipeline) }},
		{head: "TWICE", right: true, drop: 1, cell: ticket.Ticket.Twice},
		{head: "NEVER", right: true, drop: 1, cell: ticket.Ticket.Never},
		{head: "LANDED?", cell: func(v ticket.Ticket) safe.Text { text, _ := v.Landed(landed); return text }},
		{head: "CLOCK", drop: 4, cell: func(v ticket.Ticket) safe.Text { text, _ := v.Clock(); return text }},
		{head: "DO", drop: 2, cell: func(v ticket.Ticket) safe.Text { return v.Do(do) }},
	}
	if f.Has(func(t ledger.Term) bool { return t.Field == "since" }) {
		all = slices.Insert(all, 2, column{head: "NEW", cell: func(v ticket.Ticket) safe.Text {
			if f.New(v.Row, v.Now) {
				return safe.Say("•")
			}
			return safe.Text{}
		}})
	}
	return all
}

// writeTable prints the views as an aligned table. Without a width (no
// terminal) nothing is cut and ids are whole, so that a pipe can use them.
func writeTable(w *safe.Writer, all []ticket.Ticket, f ledger.Filter, width int) {
	if len(all) == 0 {
		return
	}
	ids := shortIDs(all, width > 0)
	use := columnsFor(width, f)
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
func cells(use []column, all []ticket.Ticket, ids []string) [][]string {
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
			row[i] = c.cell(v).Or(safe.Say("–")).String()
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
func shortIDs(all []ticket.Ticket, cut bool) []string {
	n := 36
	if cut {
		for n = 13; n < 36; n++ {
			seen := map[string]bool{}
			for _, v := range all {
				seen[prefix(v.Row.ID, n)] = true
			}
			if len(seen) == len(all) {
				break
			}
		}
	}
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = fmt.Sprintf("%s@%d", safe.Of(prefix(v.Row.ID, n)).String(), v.Row.Version)
	}
	return out
}

func prefix(id string, n int) string {
	if len(id) < n {
		return id
	}
	return strings.TrimRight(id[:n], "-")
}
