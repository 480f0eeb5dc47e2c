package console

import (
	"indoubt/ledger"
	"indoubt/ui/console/detail"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/header"
	"indoubt/ui/console/outage"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// place is what is on the screen, and the way to it.
type place struct {
	spot
	trail []stop // from the first list to here
}

// spot is one screen, and how far it is scrolled.
type spot struct {
	screen   screen
	scrolled int
	sought   string        // in the help
	full     bool          // the record with all that was seen
	own      ledger.Filter // the list was opened with it; Esc goes back to it first
	typed    bool          // the list was opened by typing a filter
	outage   outage.View
}

func (p *spot) goTo(s screen) { p.screen, p.scrolled = s, 0 }

// shape is how the screen is divided.
type shape struct {
	foot    int  // lines at the bottom
	heads   bool // over the columns, where a row has room beneath
	rows    int  // of the list
	detail  int  // lines of detail under the list, with its rule
	beside  int  // width of detail beside the list
	listW   int
	preview bool
}

func (p *place) shape(w, h, items int) shape {
	s := shape{foot: 2, listW: w}
	switch {
	case h < 8:
		s.foot = 0
	case h < 12:
		s.foot = 1
	}
	body := h - 4 - s.foot // two head lines, tabs, rule
	if s.foot > 0 {
		body-- // the rule over the foot
	}
	if s.heads = body > 1; s.heads {
		body--
	}
	body = max(body, 0)
	switch {
	case h < 18:
		s.rows = body
	case w >= 200: // as wide a list as a narrower screen has, and the detail beside it
		s.listW = w * 3 / 5
		s.beside = w - s.listW - 1
		s.rows = body
	case h >= 34:
		s.rows = min(max(items+1, 6), body*2/5)
		s.detail = body - s.rows
	default:
		s.preview = true
		s.detail = 6
		s.rows = body - s.detail
	}
	return s
}

// sheet is one frame while it is drawn, from its top down.
type sheet struct {
	*draw.Frame
	*place
	shape
	w, h  int
	brief *feed.Brief // of the row under the cursor
	marks safe.Text   // which the keys act on instead, where some are marked
	lines []string
	below string // in the rule over the foot: rows that the list has out of sight
}

// told is what is known of the row under the cursor at this moment.
func (s *sheet) told() ticket.Ticket { return s.brief.At(s.Now, s.Zone) }

func (s *sheet) add(lines ...string) { s.lines = append(s.lines, lines...) }

// list draws the list, with the detail of its row where there is room; esc is what Esc
// does to a search.
func (s *sheet) list(t *table.Table, f *feed.Feed, h *header.Header, esc safe.Format) {
	s.add(t.Tabs(s.Frame, f.Counts, s.w), s.Faint.Render(draw.Rule(s.w)))
	if s.rows <= 0 {
		return
	}
	heads := t.Heads(s.Frame, s.listW)
	search := h.Searching(s.listW, esc)
	rows := t.Lines(s.Frame, s.listW, s.rows-len(search), f.Ticket, func(w int) []string { return h.Nothing(t.Tab, t.Filter.Text, w) })
	rows = append(rows, search...)
	beyond := t.Beyond(f.Total(t.Tab, t.Filter, t.Items), s.listW-10)
	if s.beside > 0 {
		s.below = beyond
		side := s.window(s.besideList(t.Chosen()), s.beside, s.rows+1, 0)
		bar := s.Faint.Render("│")
		s.add(heads + bar + side[0])
		for i, r := range rows {
			s.add(r + bar + side[i+1])
		}
		return
	}
	if s.heads {
		s.add(heads)
	}
	s.add(rows...)
	if s.detail <= 1 {
		s.below = beyond
		return
	}
	h1, title := s.detail-1, ""
	if c := t.Chosen(); c != nil && c.Outage != nil {
		s.add(s.rule("", beyond))
		s.add(account(s.Frame, c.Outage, s.w, h1)...)
		return
	}
	if s.brief != nil && !s.preview {
		title = s.brief.Title().String()
	}
	s.add(s.rule(title, beyond))
	switch {
	case s.brief == nil:
		s.add(s.window(nil, s.w, h1, 0)...)
	case s.preview:
		s.add(detail.Preview(s.Frame, s.told(), s.w, h1)...)
	default:
		s.add(s.window(detail.Pane(s.Frame, s.told(), s.w, h1), s.w, h1, 0)...)
	}
}

// rule is the line over a detail. Where rows are marked, keys act on those and not on
// what is below it.
func (s *sheet) rule(title, corner string) string {
	paint := s.Faint
	if !s.marks.Empty() {
		paint, title = s.Warn, "keys act on "+s.marks.String()
	}
	if corner != "" { // it is never left out for a title
		title = draw.Cut(title, max(s.w-draw.Width(corner)-13, 0))
	}
	return paint.Render(draw.Ruled(title, corner, s.w))
}

func (s *sheet) besideList(c *feed.Row) []string {
	if c != nil && c.Outage != nil {
		return account(s.Frame, c.Outage, s.beside, s.rows+1)
	}
	if s.brief == nil {
		return nil
	}
	title := s.Strong.Render(" " + draw.Cut(s.brief.Title().String(), s.beside-2))
	return append([]string{title, s.Warn.Render(draw.Cut(s.marks.String(), s.beside-1))}, detail.Pane(s.Frame, s.told(), s.beside, s.rows-1)...)
}

// whole draws one operation on the whole screen.
func (s *sheet) whole(t ledger.Tab) {
	if s.brief == nil {
		s.add(s.rule("", ""))
		s.scrolling([]string{" reading…"})
		return
	}
	title, kind := table.TabWords(t)+" › "+s.brief.Title().String(), s.brief.Kind().String()
	if draw.Width(title)+draw.Width(kind)+13 > s.w {
		kind = ""
	}
	s.add(s.rule(title, kind))
	h := s.room()
	if s.full {
		h = 0 // all of it
	}
	s.scrolling(detail.Lines(s.Frame, s.told(), s.w, h))
}

// scrolling adds a text that may be longer than the screen.
func (s *sheet) scrolling(text []string) {
	s.scrolled = min(s.scrolled, max(len(text)-s.room(), 0))
	s.add(s.window(text, s.w, s.room(), s.scrolled)...)
}

// room is how many lines are left over the foot and its rule.
func (s *sheet) room() int { return max(s.h-len(s.lines)-s.foot-min(s.foot, 1), 0) }

// window is h lines of a text, each exactly w cells, and says when there is more.
func (s *sheet) window(text []string, w, h, from int) []string {
	hint := "j scrolls"
	if s.screen == onList {
		hint = "↵ opens all"
	}
	return draw.Window(s.Frame, text, w, h, from, hint)
}
