package console

import (
	"strings"
	"time"

	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// guard is how long a new dialog takes no key: the one that opened it may
// still be down, or the next may have been meant for the list.
const guard = 300 * time.Millisecond

// dialog asks before something is written. It decides nothing itself: it hands
// back what it was opened with, and the root does it.
type dialog struct {
	title, corner string // of the frame
	head, seen    string // first line: what, and as seen when
	facts         []fact
	more          []string // shown with ^b: the body, the list
	showMore      bool
	fields        []*field
	yes           string // one `y` does this; empty: fields and buttons
	do            string // the button; empty: there is nothing to do here
	check         func(d *dialog) string
	act           func(d *dialog) tea.Cmd
	closed        func() tea.Cmd
	keys          map[string]func(d *dialog) tea.Cmd // further keys of a dialog with one `y`

	id       string        // of the operation it is about
	version  int64         // as shown
	recheck  time.Duration // how long after a decision about it one more check is due
	opener   string        // the key that opened it, small
	openedAt time.Time
	itself   bool // nobody pressed a key for it: wait until the hands are still
	lastKey  time.Time
	focus    int // fields, then Cancel, then the button
	scroll   int
	fault    string
	stale    string    // it moved: why this cannot be done any more
	until    time.Time // what allows it runs out then; zero: it does not
	left     string    // how long that still is, or that it is over
	lapsed   bool
}

// fact is one labelled text of a dialog.
type fact struct {
	label, text string
	grave       bool
}

func (d *dialog) cancelAt() int { return len(d.fields) }
func (d *dialog) doAt() int     { return len(d.fields) + 1 }

// press gives a key to the dialog. close tells the root to take it down.
func (d *dialog) press(msg tea.KeyPressMsg, now time.Time) (cmd tea.Cmd, close bool) {
	name := msg.String()
	last := d.lastKey
	d.lastKey = now
	wait := now.Sub(d.openedAt) < guard
	// A key that is still held down repeats; it waits until it is let go.
	if !wait && d.opener != "" && strings.ToLower(name) == d.opener && !last.IsZero() && now.Sub(last) < guard && d.untouched() {
		wait = true
	}
	if wait {
		if d.itself {
			d.openedAt = now // until the hands are still
		}
		return nil, false
	}
	d.fault = ""
	switch name {
	case "esc", "ctrl+c":
		return nil, true
	case "ctrl+b":
		d.toggleMore()
		return nil, false
	case "pgdown", "ctrl+d":
		d.scroll += 5
		return nil, false
	case "pgup", "ctrl+u":
		if d.focus >= len(d.fields) || d.yes != "" || name == "pgup" {
			d.scroll = max(d.scroll-5, 0)
			return nil, false
		}
	}
	if d.yes != "" || d.do == "" {
		return d.pressPlain(name)
	}
	return d.pressForm(msg, name)
}

// count tells how long what allows it still holds, at now. It reports whether
// that changes every second.
func (d *dialog) count(now time.Time, loc *time.Location) (ticks bool) {
	if d.until.IsZero() {
		return false
	}
	d.lapsed = !now.Before(d.until)
	if d.lapsed {
		d.left = "over since " + ticket.Moment(d.until, now, loc) + ": what allowed it no longer holds"
		return false
	}
	d.left = ticket.Moment(d.until, now, loc) + ", " + ticket.Span(d.until.Sub(now)) + " left"
	return d.until.Sub(now) < 10*time.Minute
}

// untouched tells that nothing was entered yet.
func (d *dialog) untouched() bool {
	for _, f := range d.fields {
		if f.choices == nil && f.value() != "" {
			return false
		}
	}
	return d.focus == 0
}

func (d *dialog) pressPlain(name string) (tea.Cmd, bool) {
	switch {
	case name == "enter" || name == "q":
		return nil, true
	case d.keys[name] != nil && strings.ToLower(name) != d.opener:
		return d.keys[name](d), true
	case name == "b":
		d.toggleMore()
	case name == "down" || name == "j":
		d.scroll++
	case name == "up" || name == "k":
		d.scroll = max(d.scroll-1, 0)
	case name == "y" && d.yes != "":
		if d.opener == "y" {
			return nil, false
		}
		return d.submit()
	}
	return nil, false
}

func (d *dialog) pressForm(msg tea.KeyPressMsg, name string) (tea.Cmd, bool) {
	last := d.doAt()
	switch name {
	case "tab", "down":
		d.focus = (d.focus + 1) % (last + 1)
		return nil, false
	case "shift+tab", "up":
		d.focus = (d.focus + last) % (last + 1)
		return nil, false
	case "enter":
		switch {
		case d.focus == last:
			return d.submit()
		case d.focus == d.cancelAt():
			return nil, true
		}
		d.focus++ // the next field, and after the last one Cancel
		return nil, false
	}
	if d.focus < len(d.fields) {
		d.fields[d.focus].press(msg)
		return nil, false
	}
	switch name {
	case "left", "h":
		d.focus = d.cancelAt()
	case "right", "l":
		d.focus = last
	}
	return nil, false
}

// toggleMore shows what does not fit a first look, or hides it again.
func (d *dialog) toggleMore() {
	d.showMore, d.scroll = !d.showMore, 0
}

func (d *dialog) submit() (tea.Cmd, bool) {
	if d.stale != "" {
		d.fault = "it moved: " + d.stale
		return nil, false
	}
	if d.lapsed {
		d.fault = "what allowed it is over: nothing was done. Look again"
		return nil, false
	}
	if d.check != nil {
		if d.fault = d.check(d); d.fault != "" {
			return nil, false
		}
	}
	return d.act(d), true
}

func (d *dialog) paste(text string) {
	if d.yes == "" && d.do != "" && d.focus < len(d.fields) {
		if d.fields[d.focus].paste(text) {
			d.fault = "this is typed by hand, not pasted"
		}
	}
}

// lines draws the dialog in at most w by h cells.
func (d *dialog) lines(th *theme, w, h int) []string {
	inner := w - 4
	name := 17
	room := max(inner-name, 10)
	var top []string
	if d.head != "" {
		seen := d.seen
		if width(d.head)+width(seen)+2 > inner {
			seen = ""
		}
		top = append(top, th.strong.s(left(d.head, inner-width(seen)))+th.faint.s(seen))
		top = append(top, "")
	}
	if d.stale != "" {
		for _, l := range wrap("IT MOVED: "+d.stale, inner) {
			top = append(top, th.bad.s(l))
		}
	}
	for _, f := range append(d.facts[:len(d.facts):len(d.facts)], fact{"UNTIL", d.left, d.lapsed}) {
		p := th.text
		if f.text == "" && f.label == "UNTIL" {
			continue
		}
		if f.grave {
			p = th.bad
		}
		if f.label == "" && f.text == "" {
			top = append(top, "")
			continue
		}
		for i, l := range wrap(f.text, room) {
			head := spaces(name)
			if i == 0 {
				head = left(f.label, name-1) + " "
			}
			top = append(top, th.faint.s(head)+p.s(l))
		}
	}
	if d.showMore && len(d.more) > 0 {
		top = append([]string{th.faint.s("^b: back")}, d.more...)
	}
	bottom := d.foot(th, inner, name)
	// The end of a dialog, where it is answered, is never cut off: what is above scrolls.
	fits := h - 2 - len(bottom)
	d.scroll = min(d.scroll, max(len(top)-fits, 0))
	if len(top) > fits && fits > 1 {
		rest := len(top) - d.scroll - (fits - 1)
		if rest > 0 {
			top = append(append([]string{}, top[d.scroll:d.scroll+fits-1]...), th.faint.s(plural(rest, "more line", "more lines")+", PgDn"))
		} else {
			top = top[d.scroll:]
		}
	} else if fits <= 1 && len(top) > max(fits, 0) {
		top = top[:max(fits, 0)]
	}
	out := make([]string, 0, len(top)+len(bottom)+2)
	corner := d.corner
	if corner != "" {
		corner = " " + corner + " "
	}
	title := cut(" "+d.title+" ", w-4)
	if width(title)+width(corner) > w-4 {
		corner = ""
	}
	out = append(out, th.faint.s("┌")+th.strong.s(title)+th.faint.s(rule(w-3-width(title)-width(corner))+corner+"─┐"))
	for _, l := range append(top, bottom...) {
		out = append(out, th.faint.s("│ ")+fit(l, inner)+th.faint.s(" │"))
	}
	return append(out, th.faint.s("└"+rule(w-2)+"┘"))
}

// foot is the part that is answered.
func (d *dialog) foot(th *theme, w, name int) []string {
	var out []string
	if d.fault != "" {
		for _, l := range wrap(d.fault, w) {
			out = append(out, th.bad.s(l))
		}
	}
	ends := func(a, b string) string {
		return th.accent.s(a) + spaces(max(w-width(a)-width(b), 1)) + th.faint.s(b)
	}
	if d.do == "" && d.yes == "" {
		return append(out, "", ends("", "Enter, Esc: [Close]"))
	}
	if d.yes != "" {
		return append(out, "", ends(d.yes, "Enter, Esc: [Cancel]"))
	}
	out = append(out, "")
	for i, f := range d.fields {
		focused := d.focus == i
		head := th.faint.s(left(f.label, name-1) + " ")
		if focused {
			head = th.strong.s(left(f.label, name-1) + "▌")
		}
		out = append(out, head+f.line(th, w-name, focused))
	}
	button := func(text string, at int) string {
		if d.focus == at {
			return th.button.s("▌" + text)
		}
		return " " + text
	}
	line := button("[Cancel]", d.cancelAt()) + " " + button("["+d.do+"]", d.doAt())
	hint := "Enter: next field, then Cancel; Tab: " + d.do
	if room := w - visibleWidth(line); width(hint)+2 <= room {
		line += spaces(room-width(hint)) + th.faint.s(hint)
	}
	return append(out, line)
}

// over lays a box over the screen, in the middle.
func over(screen []string, box []string, w, h int) []string {
	bw := 0
	for _, l := range box {
		bw = max(bw, visibleWidth(l))
	}
	x, y := max((w-bw)/2, 0), max((h-len(box))/2, 0)
	for i, l := range box {
		if y+i >= len(screen) {
			break
		}
		base := screen[y+i]
		before := fit(ansi.Truncate(base, x, ""), x)
		after := ""
		if x < 6 {
			// Crumbs of rows beside a dialog only distract.
			before, after = spaces(x), spaces(w-x-bw)
		} else if x+bw < w {
			after = ansi.TruncateLeft(base, x+bw, "")
		}
		screen[y+i] = before + "\x1b[m" + fit(l, min(bw, w)) + "\x1b[m" + after
	}
	return screen
}
