package console

import (
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// View returns the frame of the newest state. It runs for every message, so it
// draws only when something changed.
func (m *Root) View() tea.View {
	if m.dirty {
		m.dirty = false
		m.Ticks = m.feed.Lost != nil
		m.view = tea.NewView(strings.Join(m.draw(), "\n"))
		m.view.AltScreen = true
		if m.o.Mouse {
			m.view.MouseMode = tea.MouseModeCellMotion // for the wheel
		}
		m.view.WindowTitle = fmt.Sprintf("indoubt: %s need you", ledger.Count(m.feed.Counts.NeedsYou))
		if m.feed.Lost != nil {
			m.view.WindowTitle = "indoubt: STALE"
		}
		m.o.drawn()
	}
	return m.view
}

func (m *Root) draw() []string {
	if m.w <= 0 || m.h <= 0 {
		return nil
	}
	h := m.header()
	s := &sheet{Frame: &m.Frame, place: &m.place, shape: m.shape(m.w, m.h, len(m.table.Items)), w: m.w, h: m.h, brief: m.feed.Brief(), marks: m.table.Covers(m.Now).Words(), lines: h.Lines(m.w)}
	switch m.screen {
	case onHelp:
		s.add(m.Faint.Render(draw.Ruled("help", "/ search  esc back", m.w)))
		s.scrolling(m.helpLines(m.w))
	case onDetail:
		s.whole(m.table.Tab)
	case onOutage:
		if o := m.feed.Outage(m.outage.ID); o != nil {
			s.add(s.window(m.outage.Lines(&m.Frame, &m.feed.Snapshot, o, m.o.Policy().Currency(), m.w, s.room()), m.w, s.room(), 0)...)
		} else {
			s.add(s.window([]string{" reading…"}, m.w, s.room(), 0)...)
		}
	default:
		esc := safe.Format("esc stops")
		if m.prompt != nil { // there esc takes the filter back
			esc = "↵ keeps the filter"
		}
		s.list(m.table, m.feed, h, esc)
	}
	if s.foot > 0 {
		s.add(m.Faint.Render(draw.Ruled("", s.below, s.listW) + draw.Rule(m.w-s.listW)))
		s.add(m.foot(s.foot)...)
	}
	for len(s.lines) < m.h {
		s.add(draw.Spaces(m.w))
	}
	lines := s.lines[:m.h]
	if m.w < 60 {
		for i := range lines { // columns have a least width
			lines[i] = draw.Left(lines[i], m.w)
		}
	}
	return m.dialogs.Draw(&m.Frame, lines, m.w, m.h)
}

// foot is what can be pressed, or what just happened.
func (m *Root) foot(n int) []string {
	if m.prompt != nil {
		lines := m.prompt.Lines(&m.Frame, m.w)
		return lines[len(lines)-n:]
	}
	var news []string
	if m.run != nil { // what a key says stands beneath
		news = append(news, progress(m, m.w))
	}
	switch {
	case m.asking.due:
		news = wrapped(news, n, m.w, m.Strong, safe.Say("one moment: what it would do is being worked out, esc gives up"))
	case !m.toast.text.Empty() && m.toast.until.After(m.Now):
		m.Ticks = true
		p := m.Strong
		if m.toast.bad {
			p = m.Bad
		}
		news = wrapped(news, n, m.w, p, m.toast.text)
	case m.feed.Lost != nil: // who comes later must see why
		news = wrapped(news, n, m.w, m.Bad, safe.Of(m.feed.Lost.Error()))
	}
	if len(news) == 0 && len(m.feed.Runs) > 0 {
		news = []string{openRun(m, m.w)}
	}
	looks, acts := m.hints()
	if m.screen == onHelp {
		looks, acts = " j k ^d ^u scroll  / search  esc back", ""
	}
	if len(news) > 0 {
		return append(news, acts)[:n]
	}
	return []string{draw.Left(looks, m.w), draw.Left(acts, m.w)}[:n]
}

// wrapped adds a text to the lines at the bottom, of w cells, as far as n of them have room.
func wrapped(lines []string, n, w int, p draw.Paint, text safe.Text) []string {
	said := draw.Wrap(text.String(), max(w-2, 8))
	if room := max(n-len(lines), 1); len(said) > room {
		said = append(said[:room-1], strings.Join(said[room-1:], " "))
	}
	return append(lines, ledger.Each(said, func(line string) string { return p.Render(draw.Left(" "+line, w)) })...)
}

// hints are the bottom lines: keys that do something now.
func (m *Root) hints() (looks, acts string) {
	c := m.desk()
	line := func(used int, names ...string) string {
		var out strings.Builder
		for _, name := range names {
			k, short := m.byKey[name], m.byKey[name].short
			if name == "W" {
				short = takeWords(m)
			}
			if need := draw.Width(k.show) + 1 + draw.Width(short) + 2; m.why(k, c).Empty() && used+need <= m.w {
				used += need
				out.WriteString(" " + m.Accent.Render(k.show) + " " + m.Faint.Render(short) + " ")
			}
		}
		return out.String()
	}
	if o := outageAt(m); m.screen == onOutage && o != nil {
		if looks, acts = outageHints(m, o, c); c.Closed == "" {
			return looks, acts
		}
		return looks, m.Warn.Render(draw.Left(" "+c.Closed, m.w))
	}
	if m.screen == onDetail {
		looks = line(0, "esc", "a", "c", "T", "o", "y", ":", "q")
	} else {
		looks = line(0, "enter", "a", "c", "space", "/", "T", "o", "y", ":", "q")
	}
	if c.Closed != "" {
		return looks, m.Warn.Render(draw.Left(" "+c.Closed, m.w))
	}
	of := ""
	if c.Marks.N > 0 {
		of = fmt.Sprintf(" %s marked:", ledger.Count(c.Marks.N))
	}
	acts = m.Warn.Render(of) + line(draw.Width(of+" ? help "), "C", "X", "R", "D", "A", "P", "W", "N", "U") // the way to everything else is always there
	return looks, draw.Left(acts+" "+m.Accent.Render("?")+" "+m.Faint.Render("help"), m.w)
}
