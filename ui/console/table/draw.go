package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	"indoubt/ledger"
)

// columns is how wide each column of the list is; zero leaves it out.
type columns struct{ kind, what, pipe, twice, never, landed, clock, do int }

// lead is cursor, flag, mark, age and a space.
const lead = 8

func columnsFor(w int) columns {
	c := columns{twice: 6, never: 7, landed: 8, clock: 11, do: 11}
	switch {
	case w >= 108:
		c.kind, c.pipe, c.never, c.landed, c.clock, c.do = 14, 9, 7, 14, 12, 18
		if w >= 140 {
			c.kind, c.pipe = 20, 14
		}
	case w >= 72:
	case w >= 56:
		c.twice, c.clock = 0, 0
	default:
		c.twice, c.never, c.clock = 0, 0, 0
		if w < 40 {
			c.landed = 0
		}
	}
	c.what = max(w-lead-c.kind-c.pipe-c.twice-c.never-c.landed-c.clock-c.do, 4)
	return c
}

// Heads is the line over the list.
func (l *Table) Heads(f *draw.Frame, w int) string {
	c := columnsFor(w)
	var b strings.Builder
	b.WriteString("    AGE ")
	put := func(text string, room int) {
		if room > 0 {
			b.WriteString(draw.Left(text, room))
		}
	}
	put("KIND", c.kind)
	what := "WHAT"
	if n := l.Top; n > 0 {
		what += "  ↑" + ticket.Grouped(float64(n), 0) + " above"
	}
	put(what, c.what)
	put("PIPELINE", c.pipe)
	if c.twice > 0 {
		b.WriteString(draw.Right("TWICE", c.twice))
	}
	if c.never > 0 {
		b.WriteString(draw.Right("NEVER", c.never))
	}
	put(" LANDED?", c.landed)
	put(" CLOCK", c.clock)
	put(" DO", c.do)
	return f.Head.Render(draw.Left(b.String(), w))
}

// row is one line of the list, exactly w cells.
func (l *Table) row(f *draw.Frame, s *feed.Row, t ticket.Ticket, w int, c columns, chosen, ranged bool) string {
	r := &t.Row
	flag, mark := " ", " "
	if r.Conflict != ledger.NoConflict {
		flag = "!"
	}
	if _, on := l.Marks[s.ID]; on {
		mark = "*"
	}
	if ranged {
		mark = "+"
	}
	since := t.Age()
	if since < time.Minute {
		f.Ticks = true
	}
	var out strings.Builder
	cell := func(p draw.Paint, text string) {
		if chosen || !s.Gone.Empty() {
			out.WriteString(text)
			return
		}
		out.WriteString(p.Render(text))
	}
	if chosen {
		out.WriteString("▌")
	} else {
		out.WriteString(" ")
	}
	cell(f.Bad, flag)
	cell(f.Accent, mark)
	out.WriteString(draw.Right(ticket.Age(since), 4))
	out.WriteString(" ")
	if c.kind > 0 {
		cell(f.Faint, draw.Left(t.Kind().String(), c.kind-1)+" ")
	}
	if !s.Gone.Empty() {
		// The whole row is dim; how it left stands where the decision would have been made.
		rest := w - lead - c.kind
		how := min(draw.Width(s.Gone.String()), rest/2)
		out.WriteString(draw.Left(t.Title().String(), rest-how-1) + " " + draw.Left(s.Gone.String(), how))
		text := draw.Left(out.String(), w)
		if chosen {
			return f.Cursor.Render(text)
		}
		return f.Faint.Render(text)
	}
	out.WriteString(draw.Left(t.Title().String(), c.what-1) + " ")
	if c.pipe > 0 {
		cell(f.Faint, draw.Left(safe.Of(r.Source.Pipeline).String(), c.pipe-1)+" ")
	}
	if c.twice > 0 {
		out.WriteString(draw.Right(t.Twice().String(), c.twice))
	}
	if c.never > 0 {
		out.WriteString(draw.Right(t.Never().String(), c.never))
	}
	if c.landed > 0 {
		word, tone := t.Landed(c.landed - 1)
		cell(f.Tone(tone), draw.Left(" "+word.String(), c.landed))
	}
	if c.clock > 0 {
		clock, ticks := t.Clock()
		if ticks {
			f.Ticks = true
		}
		cell(f.Text, draw.Left(" "+clock.String(), c.clock))
	}
	if c.do > 0 {
		cell(f.Text, draw.Left(" "+t.Do(c.do-1).String(), c.do))
	}
	line := out.String()
	if chosen {
		return f.Cursor.Render(draw.Left(line, w))
	}
	return line
}

// Lines draws the visible rows, exactly h lines of w cells; see is what is known
// of a row, and empty what an empty list says.
func (l *Table) Lines(f *draw.Frame, w, h int, see func(*feed.Row) ticket.Ticket, empty func(w int) []string) []string {
	l.Height = h
	l.Scroll()
	out := make([]string, 0, h)
	c := columnsFor(w)
	from, to := l.between()
	for i, s := range l.Visible() {
		n := l.Top + i
		out = append(out, l.row(f, &s, see(&s), w, c, n == l.At, n >= from && n <= to))
	}
	if len(l.Items) == 0 {
		all := empty(w)
		out = append(out, all[:min(len(all), h)]...)
	}
	for len(out) < h {
		out = append(out, draw.Spaces(w))
	}
	return out
}

type tab struct {
	tab              ledger.Tab
	key, name, short string
}

var tabs = []tab{
	{ledger.TabNeedsYou, "1", "Needs you", "Need"},
	{ledger.TabChecking, "2", "Checking", "Chk"},
	{ledger.TabInFlight, "3", "In flight", "Fly"},
	{ledger.TabSettled, "4", "Settled", "Set"},
	{ledger.TabParked, "5", "Parked", "Park"},
	{ledger.TabAll, "0", "All", "All"},
}

// TabWords is what a list is called.
func TabWords(t ledger.Tab) string {
	return tabs[slices.IndexFunc(tabs, func(x tab) bool { return x.tab == t })].name
}

// Keys are the keys of the lists.
func Keys() map[string]ledger.Tab {
	keys := map[string]ledger.Tab{}
	for _, t := range tabs {
		keys[t.key] = t.tab
	}
	return keys
}

// Tabs names the lists, with how many stand in each.
func (l *Table) Tabs(f *draw.Frame, c ledger.Counts, w int) string {
	counts := map[ledger.Tab]int{ledger.TabNeedsYou: c.NeedsYou, ledger.TabChecking: c.Checking, ledger.TabInFlight: c.InFlight, ledger.TabSettled: c.Settled,
		ledger.TabParked: c.Parked}
	named := func(short, counted bool, gap int) string {
		var b strings.Builder
		for i, t := range tabs {
			if t.tab == ledger.TabParked && c.Parked == 0 && l.Tab != t.tab {
				continue
			}
			name := t.name
			if short {
				name = t.short
			}
			text := t.key + " " + name
			if n, has := counts[t.tab]; has && (counted || i == 0 || t.tab == l.Tab) {
				text += " " + ticket.Grouped(float64(n), 0)
			}
			if i > 0 {
				b.WriteString(draw.Spaces(gap))
			}
			if t.tab == l.Tab {
				b.WriteString(f.Strong.Render("▌" + text))
			} else {
				b.WriteString(" " + f.Faint.Render(text))
			}
		}
		return b.String()
	}
	notes, need := l.notes(w), 0
	if len(notes) > 0 && l.News+len(l.Marks) > 0 {
		need = draw.Width(notes[0]) + 3
	}
	line := named(false, true, 2)
	for _, narrower := range []string{named(false, true, 0), named(true, true, 0), named(true, false, 0)} {
		if draw.Width(line)+need <= w {
			break
		}
		line = narrower
	}
	return withRight(f, line, notes, w)
}

// notes is what the list hides or waits with.
func (l *Table) notes(w int) []string {
	var notes []string
	if l.News > 0 {
		notes = append(notes, fmt.Sprintf("↑%d new", l.News))
	}
	if n := len(l.Marks); n > 0 {
		notes = append(notes, fmt.Sprintf("%d marked", n))
	}
	if l.Anchor != "" {
		notes = append(notes, "range")
	}
	if l.Filter.Text != "" {
		notes = append(notes, "/"+safe.Of(l.Filter.Text).String())
	}
	if w >= 100 {
		notes = append(notes, "sort: "+OrderWords(l.Order()))
	}
	return notes
}

// withRight puts notes at the right end of a line where they fit.
func withRight(f *draw.Frame, line string, notes []string, w int) string {
	used := draw.Width(line)
	for len(notes) > 0 {
		text := strings.Join(notes, "  ")
		if used+2+draw.Width(text) < w {
			return line + draw.Spaces(w-used-draw.Width(text)-1) + f.Accent.Render(text) + " "
		}
		if len(notes) == 1 {
			if room := w - used - 3; room > 6 {
				return line + "  " + f.Accent.Render(draw.Left(text, room)) + " "
			}
			break
		}
		notes = notes[:len(notes)-1]
	}
	return draw.Left(line, w)
}
