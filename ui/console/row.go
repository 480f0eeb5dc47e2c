package console

import (
	"strings"
	"time"

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

// heads is the line over the list.
func (m *Root) heads(w int) string {
	c := columnsFor(w)
	var b strings.Builder
	b.WriteString("    AGE ")
	put := func(text string, room int) {
		if room > 0 {
			b.WriteString(left(text, room))
		}
	}
	put("KIND", c.kind)
	what := "WHAT"
	if n := m.list.top; n > 0 {
		what += "  ↑" + ticket.Grouped(float64(n), 0) + " above"
	}
	put(what, c.what)
	put("PIPELINE", c.pipe)
	if c.twice > 0 {
		b.WriteString(right("TWICE", c.twice))
	}
	if c.never > 0 {
		b.WriteString(right("NEVER", c.never))
	}
	put(" LANDED?", c.landed)
	put(" CLOCK", c.clock)
	put(" DO", c.do)
	return m.th.head.s(left(b.String(), w))
}

// row is one line of the list, exactly w cells.
func (m *Root) row(s *shown, w int, c columns, chosen, ranged bool) string {
	th := m.th
	t := m.ticket(s)
	r := &t.Row
	flag, mark := " ", " "
	if r.Conflict != ledger.NoConflict {
		flag = "!"
	}
	if _, on := m.list.marks[s.id]; on {
		mark = "*"
	}
	if ranged {
		mark = "+"
	}
	since := t.Age()
	if since < time.Minute {
		m.ticking = true
	}
	var out strings.Builder
	cell := func(p paint, text string) {
		if chosen || s.gone != "" {
			out.WriteString(text)
			return
		}
		out.WriteString(p.s(text))
	}
	if chosen {
		out.WriteString("▌")
	} else {
		out.WriteString(" ")
	}
	cell(th.bad, flag)
	cell(th.accent, mark)
	out.WriteString(right(ticket.Age(since), 4))
	out.WriteString(" ")
	if c.kind > 0 {
		cell(th.faint, left(r.Kind, c.kind-1)+" ")
	}
	if s.gone != "" {
		// The whole row is dim; how it left stands where the decision would have been made.
		rest := w - lead - c.kind
		how := min(width(s.gone), rest/2)
		out.WriteString(left(r.Title, rest-how-1) + " " + left(s.gone, how))
		text := left(out.String(), w)
		if chosen {
			return th.cursor.s(text)
		}
		return th.faint.s(text)
	}
	out.WriteString(left(r.Title, c.what-1) + " ")
	if c.pipe > 0 {
		cell(th.faint, left(r.Source.Pipeline, c.pipe-1)+" ")
	}
	if c.twice > 0 {
		out.WriteString(right(t.Twice(), c.twice))
	}
	if c.never > 0 {
		out.WriteString(right(t.Never(), c.never))
	}
	if c.landed > 0 {
		word := t.Landed(c.landed - 1)
		cell(m.landedPaint(r, word), left(" "+word, c.landed))
	}
	if c.clock > 0 {
		clock, ticks := t.Clock()
		if ticks {
			m.ticking = true
		}
		cell(th.text, left(" "+clock, c.clock))
	}
	if c.do > 0 {
		cell(th.text, left(" "+t.Do(c.do-1), c.do))
	}
	line := out.String()
	if chosen {
		return th.cursor.s(left(line, w))
	}
	return line
}

// ticket is a row with its details, where they belong to it and not to what the
// operation has become since. What no engine has priced yet is shown as the
// policy in force prices it.
func (m *Root) ticket(s *shown) ticket.Ticket {
	t := ticket.Ticket{Row: s.row, Now: m.at, Zone: m.loc}
	b := m.briefs[s.id]
	if b == nil || b.raw.Operation.Version > t.Row.Version {
		return t
	}
	t.Record, t.Facts = &b.rec, b.facts
	if t.Row.Pricing.Digest == "" && b.rec.Pricing.Digest != "" {
		t.Row.Pricing, t.Row.Title = b.rec.Pricing, b.rec.Operation.Title
	}
	return t
}

// ticketOf is the ticket of an operation whose details are read.
func (m *Root) ticketOf(b *brief) ticket.Ticket {
	return ticket.Ticket{Row: b.rec.Row(), Record: &b.rec, Facts: b.facts, Now: m.at, Zone: m.loc}
}

func (m *Root) landedPaint(r *ledger.Row, word string) paint {
	switch {
	case r.Conflict != ledger.NoConflict:
		return m.th.bad
	case word == "no" || word == "yes":
		return m.th.good
	case strings.Contains(word, "%") || word == "?":
		return m.th.warn
	}
	return m.th.text
}

// listLines draws the visible rows, exactly h lines of w cells.
func (m *Root) listLines(w, h int) []string {
	l := &m.list
	l.height = h
	l.scroll()
	out := make([]string, 0, h)
	c := columnsFor(w)
	from, to := l.between()
	for i, s := range l.visible() {
		n := l.top + i
		out = append(out, m.row(&s, w, c, n == l.at, n >= from && n <= to))
	}
	if len(l.items) == 0 {
		for _, line := range m.nothing(w) {
			if len(out) < h {
				out = append(out, line)
			}
		}
	}
	for len(out) < h {
		out = append(out, spaces(w))
	}
	return out
}
