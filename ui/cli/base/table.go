package base

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// column is one column of the list. WHAT takes what the others leave.
type column struct {
	head  string
	right bool
	from  int // least width of a terminal that shows it
	cell  func(v ticket.Ticket) safe.Text
}

const flexible = "WHAT"

// Whole is room for every text of a column.
const Whole = 1000

func columnsFor(f ledger.Filter) []column {
	all := []column{
		{head: "ID@VERSION", cell: nil}, // as short as the terminal needs it; see writeTable
		{head: "AGE", right: true, cell: func(v ticket.Ticket) safe.Text { return safe.Of(ticket.Age(v.Age())) }},
		{head: "STATE", from: 80, cell: func(v ticket.Ticket) safe.Text { return safe.Of(string(v.State())) }},
		{head: "KIND", from: 108, cell: ticket.Ticket.Kind},
		{head: flexible, cell: ticket.Ticket.Title},
		{head: "PIPELINE", from: 118, cell: func(v ticket.Ticket) safe.Text { return safe.Of(v.Row.Source.Pipeline) }},
		{head: "TWICE", right: true, from: 56, cell: ticket.Ticket.Twice},
		{head: "NEVER", right: true, from: 56, cell: ticket.Ticket.Never},
		{head: "LANDED?", cell: func(v ticket.Ticket) safe.Text { text, _ := v.Landed(); return text }},
		{head: "CLOCK", from: 92, cell: func(v ticket.Ticket) safe.Text { text, _ := v.Clock(); return text }},
		{head: "DO", from: 66, cell: ticket.Ticket.Do},
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

// WriteTable prints the views as an aligned table. Without a width (no
// terminal) nothing is cut and ids are whole, so that a pipe can use them.
func WriteTable(w *safe.Writer, all []ticket.Ticket, f ledger.Filter, width int) {
	if len(all) == 0 {
		return
	}
	ids, use := shortIDs(all, width > 0), slices.DeleteFunc(columnsFor(f), func(c column) bool { return width > 0 && width < c.from })
	g := grid{columns: use, cells: [][]string{make([]string, len(use))}, width: width, gap: 1}
	for i, c := range use {
		g.cells[0][i] = c.head
	}
	for n, v := range all {
		row := make([]string, len(use))
		for i, c := range use {
			if row[i] = ids[n]; c.cell != nil {
				row[i] = c.cell(v).Or(safe.Say("–")).String()
			}
		}
		g.cells = append(g.cells, row)
	}
	g.write(w)
}

// grid is a table to be printed, the heads first; every cell is harmless already.
type grid struct {
	cells   [][]string
	columns []column // how each is laid out; nil: to the left, and kept
	width   int      // of the terminal; 0: nothing is cut
	gap     int
}

// write prints the grid. All but the last column are as wide as their widest cell.
func (g grid) write(w *safe.Writer) {
	if g.columns == nil {
		g.columns = make([]column, len(g.cells[0]))
	}
	widths := make([]int, len(g.columns))
	for _, row := range g.cells {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	left := g.width - g.gap*(len(widths)-1)
	for _, w := range widths {
		left -= w
	}
	if i := slices.IndexFunc(g.columns, func(c column) bool { return c.head == flexible }); i >= 0 && left < 0 && g.width > 0 {
		widths[i] = max(8, widths[i]+left)
	}
	for _, row := range g.cells {
		var line strings.Builder
		for i, text := range row {
			if i > 0 {
				line.WriteString(strings.Repeat(" ", g.gap))
			}
			c := g.columns[i]
			if c.head == flexible && g.width > 0 {
				text = ansi.Truncate(text, widths[i], "…")
			}
			pad := strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(text)))
			if c.right {
				text, pad = pad, text
			}
			line.WriteString(text + pad)
		}
		text := strings.TrimRight(line.String(), " ")
		if g.width > 0 {
			text = ansi.Truncate(text, g.width, "…") // narrower than any table
		}
		fmt.Fprintln(w, text)
	}
}

// shortIDs are the ids with their versions, cut to what tells them apart. Ids
// begin with their time of making: thirteen characters are a millisecond.
func shortIDs(all []ticket.Ticket, cut bool) []string {
	n := 36
	if cut {
		for n = 13; n < 36; n++ {
			seen := map[string]bool{}
			for _, v := range all {
				seen[Prefix(v.Row.ID, n)] = true
			}
			if len(seen) == len(all) {
				break
			}
		}
	}
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = fmt.Sprintf("%s@%d", safe.Of(Prefix(v.Row.ID, n)).String(), v.Row.Version)
	}
	return out
}

// Prefix is the beginning of an id, without a dash at its end.
func Prefix(id string, n int) string {
	if len(id) < n {
		return id
	}
	return strings.TrimRight(id[:n], "-")
}

// WriteColumns prints an aligned table under a blank line, unless it is empty.
func WriteColumns(w *safe.Writer, head []string, n int, row func(i int) []string) {
	if n == 0 {
		return
	}
	g := grid{cells: [][]string{head}, gap: 2}
	for i := range n {
		cells := row(i)
		for j := range cells {
			cells[j] = safe.Of(cells[j]).String()
		}
		g.cells = append(g.cells, cells)
	}
	w.Println()
	g.write(w)
}

// See is the ticket of a record under a policy, as of the time it was read.
func See(p *policy.Policy, rec ledger.Record) ticket.Ticket {
	if rec.Now.IsZero() {
		rec.Now = time.Now()
	}
	return ticket.From(rec, ticket.ByPolicy(func() *policy.Policy { return p }), rec.Now, time.Local)
}

// Tickets reads the records behind rows, in the rows' order, without the evidence of
// their reads.
func Tickets(ctx context.Context, s ledger.Reader, p *policy.Policy, rows []ledger.Row) ([]ticket.Ticket, error) {
	records, err := s.Records(ctx, Each(rows, func(r ledger.Row) string { return r.ID }))
	return Each(records, func(rec ledger.Record) ticket.Ticket { return See(p, rec) }), err
}

// Placed lets the policy say where the kinds of a filter are sent.
func (a *App) Placed(f ledger.Filter) ledger.Filter {
	if p := a.PolicyToLookBy(); !p.Empty() {
		f.DownstreamOf = p.DownstreamOf
	}
	return f
}

// LeavesOut says what a filter does not answer for: fields that are known of open
// operations only.
func LeavesOut(f ledger.Filter) (notes []string) {
	if !f.By(func(string) string { return "" }).Settles() { // it asks for none of them
		return nil
	}
	for _, field := range f.OpenOnly() {
		notes = append(notes, map[string]string{"cost": "cost: settled operations may have none here, and count as 0 then",
			"downstream": "downstream: settled operations are left out, " +
				"for no policy here says where their kinds are sent: --policy"}[field])
	}
	return notes
}

// ReadRecord finds one operation by its id, as its writer wrote it, or the beginning of
// that. A copied ID@VERSION names the operation too.
func ReadRecord(ctx context.Context, a *App, s ledger.Reader, id string) (ledger.Record, error) {
	id = strings.TrimSpace(id)
	if id == "" {
		return ledger.Record{}, Usage("an id is empty", "`indoubt list` prints ids")
	}
	rec, err := s.Read(ctx, ledger.Locator{ID: id})
	if before, _, versioned := CutVersion(id); errors.Is(err, ledger.ErrNotFound) && versioned && before != "" {
		rec, err = s.Read(ctx, ledger.Locator{ID: before})
	}
	switch {
	case !errors.Is(err, ledger.ErrNotFound):
		return rec, err
	case len(id) < 4:
		return rec, Usage(fmt.Sprintf("%q is too short for the beginning of an id", id), "write at least 4 characters of it")
	}
	return rec, &Failure{Code: "not_found", Message: fmt.Sprintf("there is no operation %q", id),
		Hint: "see `indoubt list`, or check --ledger / INDOUBT_LEDGER", Cause: err}
}

// CutVersion takes ID@VERSION apart. An id may have an @ of its own.
func CutVersion(arg string) (id string, version int64, given bool) {
	if i := strings.LastIndexByte(arg, '@'); i >= 0 {
		if n, err := strconv.ParseInt(arg[i+1:], 10, 64); err == nil {
			return arg[:i], n, true
		}
	}
	return arg, 0, false
}

// ClockTime is a time in the reader's zone.
func ClockTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "–"
	case !t.Before(ledger.Never):
		return "for ever"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// Moved says what is left of an operation whose history was moved, and where the rest is.
func Moved(o ledger.Operation) string {
	if o.Receipt() != "" {
		return "receipt " + o.Receipt() + ", the rest in " + o.Moved
	}
	return "it is in " + o.Moved
}
