package console

import (
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/console/detail"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

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
		m.view.WindowTitle = m.windowTitle()
	}
	return m.view
}

func (m *Root) windowTitle() string {
	if m.feed.Lost != nil {
		return "indoubt: STALE"
	}
	return fmt.Sprintf("indoubt: %d need you", m.feed.Counts.NeedsYou)
}

// shape is how the screen is divided.
type shape struct {
	foot    int // lines at the bottom
	rows    int // of the list
	detail  int // lines of detail under the list, with its rule
	beside  int // width of detail beside the list
	listW   int
	preview bool
}

func (m *Root) shape() shape {
	s := shape{foot: 2, listW: m.w}
	switch {
	case m.h < 8:
		s.foot = 0
	case m.h < 12:
		s.foot = 1
	}
	body := m.h - 4 - s.foot // two head lines, tabs, rule
	if s.foot > 0 {
		body-- // the rule over the foot
	}
	body-- // column heads
	if body < 0 {
		body = 0
	}
	switch {
	case m.zoom || m.h < 18:
		s.rows = body
	case m.w >= 150:
		s.listW = max(m.w*52/100, 82)
		s.beside = m.w - s.listW - 1
		s.rows = body
	case m.h >= 34:
		s.rows = min(max(len(m.table.Items)+1, 6), body*2/5)
		s.detail = body - s.rows
	default:
		s.preview = true
		s.detail = 6
		s.rows = body - s.detail
	}
	return s
}

func (m *Root) draw() []string {
	if m.w <= 0 || m.h <= 0 {
		return nil
	}
	lines := make([]string, 0, m.h)
	lines = append(lines, m.header().Lines(m.w)...)
	s := m.shape()
	switch m.screen {
	case onHelp:
		lines = append(lines, m.Faint.Render(draw.Ruled("help", "esc back", m.w)))
		lines = m.scrolling(lines, m.helpLines(m.w), s.foot)
	case onDetail:
		lines = m.drawDetail(lines, s)
	default:
		lines = m.drawList(lines, s)
	}
	if s.foot > 0 {
		lines = append(lines, m.Faint.Render(draw.Rule(m.w)))
		lines = append(lines, m.foot(s.foot)...)
	}
	for len(lines) < m.h {
		lines = append(lines, draw.Spaces(m.w))
	}
	lines = lines[:m.h]
	if m.w < 60 {
		for i := range lines { // columns have a least width
			lines[i] = draw.Left(lines[i], m.w)
		}
	}
	return m.dialogs.Draw(&m.Frame, lines, m.w, m.h)
}

func (m *Root) drawList(lines []string, s shape) []string {
	lines = append(lines, m.table.Tabs(&m.Frame, m.feed.Counts, m.w), m.Faint.Render(draw.Rule(m.w)))
	if s.rows <= 0 {
		return lines
	}
	heads := m.table.Heads(&m.Frame, s.listW)
	rows := m.table.Lines(&m.Frame, s.listW, s.rows, m.feed.Ticket, func(w int) []string { return m.header().Nothing(m.table.Tab, m.table.Filter.Text, w) })
	b := m.feed.Brief()
	if s.beside > 0 {
		side := m.sideLines(b, s.beside, s.rows+1)
		bar := m.Faint.Render("│")
		lines = append(lines, heads+bar+side[0])
		for i, r := range rows {
			lines = append(lines, r+bar+side[i+1])
		}
		return lines
	}
	lines = append(lines, heads)
	lines = append(lines, rows...)
	if s.detail > 1 {
		title := ""
		if b != nil && !s.preview && (b.Rec.Operation.Conflict == ledger.NoConflict || m.plain) {
			title = b.Rec.Operation.Title
		}
		lines = append(lines, m.Faint.Render(draw.Ruled(title, "", m.w)))
		switch {
		case b == nil:
			for range s.detail - 1 {
				lines = append(lines, draw.Spaces(m.w))
			}
		case s.preview:
			lines = append(lines, detail.Preview(&m.Frame, b, m.w, s.detail-1)...)
		default:
			lines = append(lines, m.window(m.detailOf(b, m.w, s.detail-1), m.w, s.detail-1, 0)...)
		}
	}
	return lines
}

// sideLines is the detail beside the list.
func (m *Root) sideLines(b *feed.Brief, w, h int) []string {
	if b == nil {
		return m.window(nil, w, h, 0)
	}
	text := append([]string{m.Strong.Render(" " + draw.Cut(b.Rec.Operation.Title, w-2)), ""}, m.detailOf(b, w, h-2)...)
	return m.window(text, w, h, 0)
}

// detailOf is the conflict's sides or the plain detail, for h lines.
func (m *Root) detailOf(b *feed.Brief, w, h int) []string {
	if b.Rec.Operation.Conflict != ledger.NoConflict && !m.plain {
		return detail.Conflict(&m.Frame, b, m.side, w)
	}
	return detail.Lines(&m.Frame, b, w, h)
}

// drawDetail is one operation on the whole screen.
func (m *Root) drawDetail(lines []string, s shape) []string {
	b := m.feed.Brief()
	if b == nil {
		lines = append(lines, m.Faint.Render(draw.Ruled("", "", m.w)))
		return m.scrolling(lines, []string{" reading…"}, s.foot)
	}
	lines = append(lines, m.Faint.Render(draw.Ruled(tabWords(m.table.Tab)+" › "+b.Rec.Operation.Title, b.Rec.Operation.Kind, m.w)))
	h := m.room(len(lines), s.foot)
	if m.plain {
		h = 0 // all of it
	}
	return m.scrolling(lines, m.detailOf(b, m.w, h), s.foot)
}

func tabWords(t ledger.Tab) string {
	switch t {
	case ledger.TabNeedsYou:
		return "Needs you"
	case ledger.TabChecking:
		return "Checking"
	case ledger.TabInFlight:
		return "In flight"
	case ledger.TabSettled:
		return "Settled"
	}
	return "All"
}

// scrolling adds a text that may be longer than the screen.
func (m *Root) scrolling(lines, text []string, foot int) []string {
	room := m.room(len(lines), foot)
	m.scrolled = min(m.scrolled, max(len(text)-room, 0))
	return append(lines, m.window(text, m.w, room, m.scrolled)...)
}

// room is how many lines are left between those drawn and the foot.
func (m *Root) room(drawn, foot int) int {
	if foot > 0 {
		foot++ // its rule
	}
	return max(m.h-drawn-foot, 0)
}

// window is h lines of a text, each exactly w cells, and says when there is more.
func (m *Root) window(text []string, w, h, from int) []string {
	hint := "j scrolls"
	if m.screen == onList {
		hint = "↵ opens all"
	}
	return draw.Window(&m.Frame, text, w, h, from, hint)
}

// foot is what can be pressed, or what just happened.
func (m *Root) foot(n int) []string {
	if m.prompt != nil {
		lines := m.prompt.Lines(&m.Frame, m.w)
		return lines[len(lines)-n:]
	}
	var news []string
	switch {
	case m.run != nil:
		news = []string{progress(&m.Frame, m.run, m.w)}
	case m.toast.text != "" && m.toast.until.After(m.Now):
		m.Ticks = true
		p := m.Strong
		if m.toast.bad {
			p = m.Bad
		}
		said := draw.Wrap(m.toast.text, max(m.w-2, 8))
		if len(said) > n { // as far as there is room
			said = append(said[:n-1], strings.Join(said[n-1:], " "))
		}
		for _, line := range said {
			news = append(news, p.Render(draw.Left(" "+line, m.w)))
		}
	}
	looks, acts := m.hints()
	if m.screen == onHelp {
		looks, acts = " j k ^d ^u scroll  esc back", ""
	}
	if len(news) > 0 {
		return append(news, acts)[:n]
	}
	return []string{draw.Left(looks, m.w), draw.Left(acts, m.w)}[:n]
}

// hints are the bottom lines: keys that do something now.
func (m *Root) hints() (looks, acts string) {
	c := m.desk()
	line := func(used int, names ...string) string {
		var out strings.Builder
		for _, name := range names {
			k := m.byKey[name]
			if need := draw.Width(k.show) + 1 + draw.Width(k.short) + 2; m.why(k, c) == "" && used+need <= m.w {
				used += need
				out.WriteString(" " + m.Accent.Render(k.show) + " " + m.Faint.Render(k.short) + " ")
			}
		}
		return out.String()
	}
	if m.screen == onDetail {
		looks = line(0, "esc", "a", "c", "T", "o", "y", ":", "q")
	} else {
		looks = line(0, "enter", "a", "c", "space", "/", "T", "o", "y", ":", "q")
	}
	if c.Closed != "" {
		return looks, m.Warn.Render(draw.Left(" "+c.Closed, m.w))
	}
	acts = line(draw.Width(" ? help "), "C", "X", "R", "D", "A", "P", "N", "U") // the way to everything else is always there
	return looks, draw.Left(acts+" "+m.Accent.Render("?")+" "+m.Faint.Render("help"), m.w)
}

// progress shows a run under way.
func progress(f *draw.Frame, r *act.Run, w int) string {
	n, done, room := len(r.Items), len(r.Results), 20
	full := room * done / max(n, 1)
	text := fmt.Sprintf(" %s%s %d/%d", strings.Repeat("█", full), strings.Repeat("░", room-full), done, n)
	if d := f.Now.Sub(r.Began()); done > 0 && d > time.Second && done < n && !r.Paused() {
		text += fmt.Sprintf("  %s left", ticket.Span(d/time.Duration(done)*time.Duration(n-done)))
	}
	text += "   " + r.Tally()
	if r.Paused() {
		text += "   paused"
	} else {
		text += "   p pause"
	}
	return f.Strong.Render(draw.Left(text, w))
}

func (m *Root) helpLines(w int) []string {
	c := m.desk()
	lines := []string{" " + m.Strong.Render("Small letters look, capitals act.") + " Nothing outward happens on one key."}
	for _, group := range []string{groupMove, groupLook, groupAct, groupGo} {
		lines = append(lines, "", " "+m.Strong.Render(group))
		if group == groupAct && c.Closed != "" {
			lines = append(lines, "   "+m.Warn.Render("all off: "+c.Closed))
			continue
		}
		for _, k := range m.keys {
			if k.group != group || k.show == "" {
				continue
			}
			line := "   " + m.Accent.Render(draw.Left(k.show, 7)) + k.words
			if why := m.why(&k, c); why != "" {
				line = "   " + m.Faint.Render(draw.Left(k.show, 7)+k.words+" (off: "+why+")")
			}
			lines = append(lines, line)
		}
	}
	lines = append(lines, "", " "+m.Strong.Render("Columns"),
		"   TWICE    what it costs if it happened and is sent again",
		"   NEVER    what it costs if it did not happen and nobody acts",
		"   LANDED?  yes, no and TWICE are facts; a percentage is a guess, n its cases",
		"            said no is somebody's word, without proof",
		"   CLOCK    the moment that changes the advice next",
		"   DO       what is advised; → in the detail says why",
		"", " "+m.Strong.Render("Commands"))
	for _, c := range commands() {
		lines = append(lines, "   "+m.Accent.Render(draw.Left(strings.TrimSpace(":"+c.Name+" "+c.Args), 30))+c.Words)
	}
	for i := range lines {
		lines[i] = draw.Left(lines[i], w)
	}
	return lines
}
