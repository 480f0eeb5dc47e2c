package console

import (
	"fmt"
	"strings"

	"indoubt/ledger"

	tea "charm.land/bubbletea/v2"
)

// View returns the frame of the newest state. It runs for every message, so it
// draws only when something changed.
func (m *Root) View() tea.View {
	if m.dirty {
		m.dirty = false
		m.ticking = m.lost != nil
		m.view = tea.NewView(strings.Join(m.draw(), "\n"))
		m.view.AltScreen = true
		m.view.WindowTitle = m.windowTitle()
	}
	return m.view
}

func (m *Root) windowTitle() string {
	if m.lost != nil {
		return "indoubt: STALE"
	}
	return fmt.Sprintf("indoubt: %d need you", m.counts.NeedsYou)
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
		s.rows = min(max(len(m.list.items)+1, 6), body*2/5)
		s.detail = body - s.rows
	default:
		s.preview = true
		s.detail = 6
		s.rows = body - s.detail
	}
	return s
}

// layout tells the list how many rows it has.
func (m *Root) layout() {
	m.list.height = m.shape().rows
	m.list.scroll()
}

func (m *Root) draw() []string {
	if m.w <= 0 || m.h <= 0 {
		return nil
	}
	lines := make([]string, 0, m.h)
	lines = append(lines, m.headLines(m.w)...)
	s := m.shape()
	switch m.screen {
	case onHelp:
		lines = append(lines, m.th.faint.s(m.ruled("help", "esc back", m.w)))
		lines = m.scrolling(lines, m.helpLines(m.w), s.foot)
	case onDetail:
		lines = m.drawDetail(lines, s)
	default:
		lines = m.drawList(lines, s)
	}
	if s.foot > 0 {
		lines = append(lines, m.th.faint.s(rule(m.w)))
		lines = append(lines, m.foot(s.foot)...)
	}
	for len(lines) < m.h {
		lines = append(lines, spaces(m.w))
	}
	lines = lines[:m.h]
	if m.w < 60 {
		for i := range lines { // columns have a least width
			lines[i] = fit(lines[i], m.w)
		}
	}
	for _, d := range m.dialogs {
		m.ticking = d.count(m.at, m.loc) || m.ticking
		w := min(m.w-4, 78)
		if m.w < 60 {
			w = m.w
		}
		if w > 8 && m.h > 4 {
			lines = over(lines, d.lines(m.th, w, m.h), m.w, m.h)
		}
	}
	return lines
}

func (m *Root) drawList(lines []string, s shape) []string {
	lines = append(lines, m.tabLine(m.w), m.th.faint.s(rule(m.w)))
	if s.rows <= 0 {
		return lines
	}
	heads := m.heads(s.listW)
	rows := m.listLines(s.listW, s.rows)
	b := m.chosenBrief()
	if s.beside > 0 {
		side := m.sideLines(b, s.beside, s.rows+1)
		bar := m.th.faint.s("│")
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
		if b != nil && !s.preview && (b.rec.Operation.Conflict == ledger.NoConflict || m.plainDetail) {
			title = b.rec.Operation.Title
		}
		lines = append(lines, m.th.faint.s(m.ruled(title, "", m.w)))
		switch {
		case b == nil:
			for range s.detail - 1 {
				lines = append(lines, spaces(m.w))
			}
		case s.preview:
			lines = append(lines, m.preview(b, m.w, s.detail-1)...)
		default:
			lines = append(lines, m.window(m.detailOf(b, m.w, s.detail-1), m.w, s.detail-1, 0)...)
		}
	}
	return lines
}

// sideLines is the detail beside the list.
func (m *Root) sideLines(b *brief, w, h int) []string {
	if b == nil {
		return m.window(nil, w, h, 0)
	}
	text := append([]string{m.th.strong.s(" " + cut(b.rec.Operation.Title, w-2)), ""}, m.detailOf(b, w, h-2)...)
	return m.window(text, w, h, 0)
}

// detailOf is the conflict's sides or the plain detail, for h lines.
func (m *Root) detailOf(b *brief, w, h int) []string {
	if b.rec.Operation.Conflict != ledger.NoConflict && !m.plainDetail {
		return m.conflictLines(b, w)
	}
	return m.detail(b, w, h)
}

// drawDetail is one operation on the whole screen.
func (m *Root) drawDetail(lines []string, s shape) []string {
	b := m.chosenBrief()
	if b == nil {
		lines = append(lines, m.th.faint.s(m.ruled("", "", m.w)))
		return m.scrolling(lines, []string{" reading…"}, s.foot)
	}
	lines = append(lines, m.th.faint.s(m.ruled(tabWords(m.tab)+" › "+b.rec.Operation.Title, b.rec.Operation.Kind, m.w)))
	h := m.room(len(lines), s.foot)
	if m.plainDetail {
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
	out := make([]string, 0, h)
	for i := from; i < len(text) && len(out) < h; i++ {
		out = append(out, fit(text[i], w))
	}
	if rest := len(text) - from - h; rest > 0 && h > 2 {
		out[h-1] = m.th.faint.s(left(fmt.Sprintf(" … %s, %s", plural(rest+1, "more line", "more lines"), m.moreHint()), w))
	}
	for len(out) < h {
		out = append(out, spaces(w))
	}
	return out
}

func (m *Root) moreHint() string {
	if m.screen == onList {
		return "↵ opens all"
	}
	return "j scrolls"
}

// ruled is a rule with a title in it.
func (m *Root) ruled(title, corner string, w int) string {
	if title == "" {
		return rule(w)
	}
	text := "── " + cut(title, w-8) + " "
	if corner != "" && width(text)+width(corner)+4 < w {
		return text + rule(w-width(text)-width(corner)-4) + " " + corner + " ──"
	}
	return text + rule(w-width(text))
}

// foot is what can be pressed, or what just happened.
func (m *Root) foot(n int) []string {
	if m.prompt != nil {
		lines := m.promptLines(m.w)
		return lines[len(lines)-n:]
	}
	var news []string
	switch {
	case m.run != nil:
		news = []string{m.progressLine(m.w)}
	case m.toast.text != "" && m.toast.until.After(m.at):
		m.ticking = true
		p := m.th.strong
		if m.toast.bad {
			p = m.th.bad
		}
		said := wrap(m.toast.text, max(m.w-2, 8))
		if len(said) > n { // as far as there is room
			said = append(said[:n-1], strings.Join(said[n-1:], " "))
		}
		for _, line := range said {
			news = append(news, p.s(left(" "+line, m.w)))
		}
	}
	looks, acts := m.hints()
	if m.screen == onHelp {
		looks, acts = " j k ^d ^u scroll  esc back", ""
	}
	if len(news) > 0 {
		return append(news, acts)[:n]
	}
	return []string{fit(looks, m.w), fit(acts, m.w)}[:n]
}

// hints are the bottom lines: keys that do something now.
func (m *Root) hints() (looks, acts string) {
	closed := m.closedToActs()
	var a, b strings.Builder
	usedA, usedB := 0, width(" ? help ") // the way to everything else is always there
	add := func(out *strings.Builder, used *int, k *binding) {
		need := width(k.show) + 1 + width(k.short) + 2
		if *used+need > m.w {
			return
		}
		*used += need
		out.WriteString(" " + m.th.accent.s(k.show) + " " + m.th.faint.s(k.short) + " ")
	}
	put := func(out *strings.Builder, used *int, names ...string) {
		for _, name := range names {
			if k := m.byKey[name]; (!k.acts || closed == "") && (k.off == nil || k.off(m) == "") {
				add(out, used, k)
			}
		}
	}
	if m.screen == onDetail {
		put(&a, &usedA, "esc", "a", "c", "T", "o", "y", ":", "q")
	} else {
		put(&a, &usedA, "enter", "a", "c", "space", "/", "T", "o", "y", ":", "q")
	}
	put(&b, &usedB, "C", "X", "R", "D", "A", "P", "N", "U")
	b.WriteString(" " + m.th.accent.s("?") + " " + m.th.faint.s("help"))
	if closed != "" {
		return a.String(), m.th.warn.s(left(" "+closed, m.w))
	}
	return a.String(), fit(b.String(), m.w)
}
