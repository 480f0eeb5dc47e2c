package table

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// column is one column of the list. WHAT has no width: it
// takes what the others leave.
type column struct {
	name  string // in the configuration
	head  string
	from  int // least width of a list that shows it unasked
	cells int
	right bool
	faint bool
	text  func(t ticket.Ticket) (text safe.Text, tone ticket.Tone, ticks bool)
}

// How wide a list is that has room for whole words, and for all there is.
const (
	wide = 108
	full = 150
)

// lead is cursor, flag, mark, age and a space.
const lead = 8

func plain(text func(ticket.Ticket) safe.Text) func(ticket.Ticket) (safe.Text, ticket.Tone, bool) {
	return func(t ticket.Ticket) (safe.Text, ticket.Tone, bool) { return text(t), ticket.Plain, false }
}

var columns = []column{
	{name: "kind", head: "KIND", from: wide, cells: 16, faint: true, text: plain(ticket.Ticket.Kind)},
	{name: what, head: "WHAT", text: plain(ticket.Ticket.Title)},
	{name: "pipeline", head: "PIPELINE", from: wide, cells: 10, faint: true,
		text: plain(func(t ticket.Ticket) safe.Text { return safe.Of(t.Row.Source.Pipeline) })},
	{name: "error", head: "ERROR", from: full, cells: 18, faint: true,
		text: plain(func(t ticket.Ticket) safe.Text { return safe.Of(ticket.ErrorClass(t.Row.ErrorClass)) })},
	{name: "twice", head: "TWICE", from: 72, cells: 7, right: true, text: plain(ticket.Ticket.Twice)},
	{name: "never", head: "NEVER", from: 56, cells: 7, right: true, text: plain(ticket.Ticket.Never)},
	{name: "landed", head: " LANDED?", from: 40, cells: 9, text: func(t ticket.Ticket) (safe.Text, ticket.Tone, bool) {
		text, tone := t.Landed()
		return text, tone, false
	}},
	{name: "clock", head: " CLOCK", from: 72, cells: 12, text: func(t ticket.Ticket) (safe.Text, ticket.Tone, bool) {
		text, ticks := t.Clock()
		return text, ticket.Plain, ticks
	}},
	{name: "do", head: " DO", cells: 9, text: plain(ticket.Ticket.Do)},
}

const what = "what"

// laid is a column with the cells it has on this screen.
type laid struct {
	*column
	room int
}

func (c laid) cell(text string) string {
	switch {
	case c.right:
		return draw.Right(text, c.room)
	case strings.HasPrefix(c.head, " "):
		return draw.Left(" "+text, c.room)
	}
	return draw.Left(text, c.room-1) + " "
}

// layout is the columns that belong to a list of w cells.
func (l *Table) layout(w int) []laid {
	var out []laid
	left := w - lead
	for i := range columns {
		c := &columns[i]
		if c.name != what && w < c.from {
			continue
		}
		out = append(out, laid{c, c.cells})
		left -= c.cells
	}
	for i := range out {
		if out[i].name == what {
			out[i].room = max(left, 4)
		}
	}
	return out
}

func (l *Table) Heads(f *draw.Frame, w int) string {
	var b strings.Builder
	b.WriteString("    AGE ")
	for _, c := range l.layout(w) {
		b.WriteString(c.cell(strings.TrimPrefix(c.head, " ")))
	}
	return f.Head.Render(draw.Left(b.String(), w))
}

// Beyond counts the rows above and below the screen, in fewer words where there is little
// room; all is how many there are as far as is known, 0 where it is not.
func (l *Table) Beyond(all, room int) string {
	above, below := "", ""
	shown := l.Top + len(l.Visible())
	if l.Top > 0 {
		above = "↑" + ledger.Count(l.Top)
	}
	loaded := ledger.Count(len(l.Items)) + " loaded"
	switch {
	case l.Next != "" && all > len(l.Items):
		below = ledger.Count(all) + ", " + loaded + " ↓"
	case l.Next != "":
		below = loaded + ", more below ↓"
	case shown < len(l.Items):
		below = ledger.Count(len(l.Items)-shown) + " more below ↓"
	}
	both := func(above, below string) string {
		if above == "" || below == "" {
			return above + below
		}
		return above + "  " + below
	}
	long := above
	if above != "" {
		long += " above"
	}
	short := strings.Replace(below, " more below", "", 1)
	return ticket.Fit(room, both(long, below), both(above, below), both(above, short))
}

type look struct{ chosen, ranged bool }

// row is one line of the list, exactly w cells.
func (l *Table) row(f *draw.Frame, s *feed.Row, t ticket.Ticket, w int, all []laid, how look) string {
	paint, bar := &f.Paints, " "
	if how.chosen {
		paint, bar = &f.Cursor, "▌"
	}
	since := t.Age()
	if since < time.Minute {
		f.Ticks = true
	}
	flag, mark := l.signs(s, t, how)
	age := draw.Right(ticket.Age(since), 4) + " "
	if !s.Gone.Empty() {
		return paint.Faint.Render(left(bar+flag+mark+age, t.Title(), s.Gone, w))
	}
	var out strings.Builder
	out.WriteString(paint.Text.Render(bar) + paint.Bad.Render(flag) + paint.Accent.Render(mark) + paint.Text.Render(age))
	for _, c := range all {
		text, tone, ticks := c.text(t)
		f.Ticks = f.Ticks || ticks
		p := paint.Tone(tone)
		if c.faint {
			p = paint.Faint
		}
		out.WriteString(p.Render(c.cell(text.String())))
	}
	return out.String()
}

// left is a row that has left the list: dim, and how it left stands where the decision would
// have been made.
func left(lead string, title, gone safe.Text, w int) string {
	rest := w - draw.Width(lead)
	room := min(draw.Width(gone.String()), rest/2)
	return draw.Left(lead+draw.Left(title.String(), rest-room-1)+" "+draw.Left(gone.String(), room), w)
}

// signs are a row's flag and mark.
func (l *Table) signs(s *feed.Row, t ticket.Ticket, how look) (flag, mark string) {
	flag, mark = " ", " "
	if t.Row.Conflict != ledger.NoConflict {
		flag = "!"
	}
	if l.Filter.New(t.Row, t.Now) {
		mark = "•"
	}
	if _, on := l.Marks[s.ID]; on {
		mark = "*"
	}
	if how.ranged {
		mark = "+"
	}
	return flag, mark
}

// Lines draws the visible rows, exactly h lines of w cells; see is what is known
// of a row, and empty what an empty list says.
func (l *Table) Lines(f *draw.Frame, w, h int, see func(*feed.Row) ticket.Ticket, empty func(w int) []string) []string {
	l.Height = h
	l.Scroll()
	out := make([]string, 0, h)
	all := l.layout(w)
	from, to := l.between()
	for i, s := range l.Visible() {
		n := l.Top + i
		if !s.Operation() {
			out = append(out, outage(f, &s, w, all, n == l.At))
			continue
		}
		out = append(out, l.row(f, &s, see(&s), w, all, look{n == l.At, n >= from && n <= to}))
	}
	if len(l.Items) == 0 {
		said := empty(w)
		out = append(out, said[:min(len(said), h)]...)
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

func TabWords(t ledger.Tab) string {
	return tabs[slices.IndexFunc(tabs, func(x tab) bool { return x.tab == t })].name
}

func Keys() map[string]ledger.Tab {
	keys := map[string]ledger.Tab{}
	for _, t := range tabs {
		keys[t.key] = t.tab
	}
	return keys
}

// Tabs names the lists, with how many stand in each.
func (l *Table) Tabs(f *draw.Frame, c ledger.Counts, w int) string {
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
			if t.tab != ledger.TabAll && (counted || i == 0 || t.tab == l.Tab) {
				text += " " + ledger.Count(c.In(t.tab))
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
	notes, need := l.notes(f.Now, w), 0
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
func (l *Table) notes(now time.Time, w int) []string {
	var notes []string
	if l.News > 0 {
		notes = append(notes, fmt.Sprintf("↑%s new", ledger.Count(l.News)))
	}
	if c := l.Covers(now); c.N > 0 {
		note := fmt.Sprintf("%s marked", ledger.Count(c.N))
		if c.Unseen() {
			note += fmt.Sprintf(", %s unseen", ledger.Count(c.Hidden+c.Away))
		}
		notes = append(notes, note)
	}
	if l.Anchor != "" {
		notes = append(notes, "range")
	}
	if l.Filter.Text != "" {
		beside := ""
		if l.Tab == ledger.TabAll || l.Tab == ledger.TabSettled {
			beside = leftOut(l.filter())
		}
		notes = append(notes, "/"+safe.Of(l.Filter.Text).String()+beside)
	}
	if w >= 100 {
		notes = append(notes, "sort: "+OrderWords(l.Order()))
	}
	return notes
}

// leftOut is what a filter does not answer for on a list with settled operations.
func leftOut(f ledger.Filter) string {
	out := ledger.Each(f.OpenOnly(), func(field string) string { return field + ": open ones only" })
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
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
