// Package dialog asks before something is done. A dialog is {ID, Press → Action,
// Draw}, on a stack: what a key asks for comes back as a value, which the caller
// carries out. A dialog writes nothing, and holds nothing of the one who opened it.
package dialog

import (
	"slices"
	"strings"
	"time"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// Guard is how long a new dialog takes no key: the one that opened it may
// still be down, or the next may have been meant for the list.
const Guard = 300 * time.Millisecond

// Action is what a key in a dialog asks for; nil is nothing.
type Action any

// Dialog is one question, with what must be known to answer it.
type Dialog struct {
	ID      string // of the operation it is about
	Version int64  // as shown

	Title  safe.Text // of the frame, on the left and on the right
	Corner safe.Text
	Head   safe.Text // first line: what, and as seen when
	Seen   safe.Text
	Facts  []ticket.Fact
	More   []safe.Text // shown with ^b: the body, the list
	Fields []*Field
	Yes    string // one `y` does this; empty: fields and buttons
	Do     string // the button; empty: there is nothing to do here
	// Submit is what was answered, or why it cannot be taken so.
	Submit func(now time.Time) (action Action, fault string)
	Closed Action            // when it is left without an answer
	Keys   map[string]Action // further keys of a dialog without fields
	Picks  []Pick            // of a dialog without fields: Enter takes the one under the cursor
	Renew  Action            // asks it anew; nil: it is not followed
	Itself bool              // it opened by itself: it waits until the hands are still
	Quick  bool              // Enter in its last field answers: nothing is sent or decided by it
	Sends  bool              // its answer cannot be taken back: it is the loud part
	Risk   bool              // and without proof: so is its frame
	Until  time.Time         // what allows it runs out then; zero: it does not

	hands
	focus    int // fields, then Cancel, then the button; of picks, which
	scroll   int
	showMore bool
	fault    string
	stale    safe.Text // it moved: why this cannot be done any more
	left     string    // how long what allows it still holds, or that it is over
	lapsed   bool
	cramped  bool // its answer does not fit the screen
}

// hands are the keys that were pressed since a dialog opened.
type hands struct {
	opener   string // the key that opened it, small
	openedAt time.Time
	lastKey  time.Time
}

// Pick is a line that can be chosen.
type Pick struct {
	ticket.Fact
	Action Action
}

// Add adds a fact, and Warn a grave one.
func (d *Dialog) Add(label, format safe.Format, args ...any) {
	d.Put(ticket.Tell(label, format, args...))
}

func (d *Dialog) Warn(label, format safe.Format, args ...any) {
	d.Put(ticket.Caution(label, format, args...))
}

// Put adds facts that are known elsewhere.
func (d *Dialog) Put(facts ...ticket.Fact) { d.Facts = append(d.Facts, facts...) }

// Moved tells that its operation is not as it was shown any more.
func (d *Dialog) Moved(how safe.Text) {
	if d.stale.Empty() {
		d.stale = how
	}
}

// Hint shows a text where faults stand, unless a text is being typed.
func (d *Dialog) Hint(text string, now time.Time) (shown bool) {
	if d.focus < len(d.Fields) && now.Sub(d.openedAt) > Guard {
		return false
	}
	d.fault = text
	return true
}

func (d *Dialog) cancelAt() int { return len(d.Fields) }
func (d *Dialog) doAt() int     { return len(d.Fields) + 1 }

// Press gives a key to the dialog: what it asks for, and whether that ends it.
func (d *Dialog) Press(msg tea.KeyPressMsg, now time.Time) (action Action, closes bool) {
	name := msg.String()
	last := d.lastKey
	d.lastKey = now
	wait := now.Sub(d.openedAt) < Guard
	// A key that is still held down repeats; it waits until it is let go.
	if !wait && d.opener != "" && strings.ToLower(name) == d.opener && !last.IsZero() && now.Sub(last) < Guard && d.untouched() {
		wait = true
	}
	if wait {
		if d.Itself {
			d.openedAt = now // until the hands are still
		}
		return nil, false
	}
	d.fault = ""
	switch name {
	case "esc", "ctrl+c":
		return d.Closed, true
	case "ctrl+b":
		d.toggleMore()
		return nil, false
	case "pgdown", "ctrl+d":
		d.Scroll(5)
		return nil, false
	case "pgup", "ctrl+u":
		if d.focus >= len(d.Fields) || d.Yes != "" || name == "pgup" {
			d.Scroll(-5)
			return nil, false
		}
	}
	if d.Yes != "" || d.Do == "" {
		return d.pressPlain(name, now)
	}
	return d.pressForm(msg, name, now)
}

// count says how long what allows it still holds.
func (d *Dialog) count(f *draw.Frame) {
	if d.Until.IsZero() {
		return
	}
	left := d.Until.Sub(f.Now)
	if d.lapsed = left <= 0; d.lapsed {
		d.left = "over since " + f.Moment(d.Until) + ": what allowed it no longer holds"
		return
	}
	d.left = f.Moment(d.Until) + ", " + ticket.Span(left) + " left"
	f.Ticks = f.Ticks || left < 10*time.Minute
}

// untouched reports that nothing was entered yet.
func (d *Dialog) untouched() bool {
	for _, f := range d.Fields {
		if f.choices == nil && f.Value() != f.was {
			return false
		}
	}
	return d.focus == d.first()
}

// first is the field that is asked for first.
func (d *Dialog) first() int {
	return max(slices.IndexFunc(d.Fields, func(f *Field) bool { return !f.filled }), 0)
}

func (d *Dialog) pressPlain(name string, now time.Time) (Action, bool) {
	switch {
	case name == "enter" && len(d.Picks) > 0:
		return d.Picks[d.focus].Action, true
	case name == "enter" || name == "q":
		return d.Closed, true
	case d.Keys[name] != nil && strings.ToLower(name) != d.opener:
		return d.Keys[name], true
	case name == "b":
		d.toggleMore()
	case name == "down" || name == "j":
		d.Scroll(1)
	case name == "up" || name == "k":
		d.Scroll(-1)
	case name == "y" && d.Yes != "":
		if d.opener == "y" {
			return nil, false
		}
		return d.submit(now)
	}
	return nil, false
}

func (d *Dialog) pressForm(msg tea.KeyPressMsg, name string, now time.Time) (Action, bool) {
	last := d.doAt()
	switch name {
	case "tab": // after the last field comes the button: only Enter goes by way of Cancel
		switch {
		case d.focus == last:
			d.focus = 0
		case d.focus+1 < len(d.Fields):
			d.focus++
		default:
			d.focus = last
		}
		return nil, false
	case "down":
		d.focus = (d.focus + 1) % (last + 1)
		return nil, false
	case "shift+tab", "up":
		d.focus = (d.focus + last) % (last + 1)
		return nil, false
	case "enter":
		switch {
		case d.focus == last:
			return d.submit(now)
		case d.focus == d.cancelAt():
			return d.Closed, true
		case d.Quick && d.focus == len(d.Fields)-1:
			return d.submit(now)
		}
		d.focus++ // the next field, and after the last one Cancel
		return nil, false
	}
	if d.focus < len(d.Fields) {
		d.Fields[d.focus].press(msg)
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

// Scroll moves what stands over the answer by n lines, or goes to another pick.
func (d *Dialog) Scroll(n int) {
	if len(d.Picks) > 0 && !d.showMore {
		d.focus = min(max(d.focus+n, 0), len(d.Picks)-1)
		return
	}
	d.scroll = max(d.scroll+n, 0)
}

// toggleMore shows what does not fit a first look, or hides it again.
func (d *Dialog) toggleMore() {
	d.showMore, d.scroll = !d.showMore, 0
}

func (d *Dialog) submit(now time.Time) (Action, bool) {
	if d.cramped {
		d.fault = "the screen was too small to show this: nothing was done"
		return nil, false
	}
	if !d.stale.Empty() {
		d.fault = safe.Say("it moved: %s", d.stale).String()
		return nil, false
	}
	if d.lapsed {
		d.fault = "what allowed it is over: nothing was done. Look again"
		return nil, false
	}
	action, fault := d.Submit(now)
	if d.fault = fault; fault != "" {
		return nil, false
	}
	return action, true
}

// Again has it asked once more, from its first field, with what was typed.
func (d *Dialog) Again() { d.focus, d.fault = 0, "" }

// Paste enters text where a text is asked for. It never presses a key.
func (d *Dialog) Paste(text string) {
	if d.Yes == "" && d.Do != "" && d.focus < len(d.Fields) {
		if d.Fields[d.focus].paste(text) {
			d.fault = "this is typed by hand, not pasted"
		}
	}
}

// Draw is the dialog in at most w by h cells.
func (d *Dialog) Draw(f *draw.Frame, w, h int) []string {
	th := f.Theme
	d.count(f)
	inner := w - 4
	name := d.labels(inner)
	room := max(inner-name, 10)
	var top []string
	if head, seen := d.Head.String(), d.Seen.String(); head != "" {
		if draw.Width(head)+draw.Width(seen)+2 > inner {
			seen = ""
		}
		top = append(top, th.Strong.Render(draw.Left(head, inner-draw.Width(seen)))+th.Faint.Render(seen))
		top = append(top, "")
	}
	if !d.stale.Empty() {
		for _, l := range draw.Wrap(safe.Say("IT MOVED: %s", d.stale).String(), inner) {
			top = append(top, th.Bad.Render(l))
		}
	}
	facts := d.Facts
	if d.left != "" {
		facts = append(facts[:len(facts):len(facts)], ticket.Fact{Label: safe.Say("UNTIL"), Text: safe.Of(d.left), Grave: d.lapsed})
	}
	for _, f := range facts {
		label, p := th.Faint, th.Text
		if f.Grave {
			label, p = th.Bad, th.Bad
		}
		for i, l := range draw.Wrap(f.Text.String(), room) {
			head := draw.Spaces(name)
			if i == 0 {
				head = draw.Left(f.Label.String(), name-1) + " "
			}
			top = append(top, label.Render(head)+p.Render(l))
		}
	}
	picks, chosen := d.picks(th, inner)
	chosen += len(top)
	top = append(top, picks...)
	if d.showMore && len(d.More) > 0 {
		top = []string{th.Faint.Render("^b: back")}
		for _, line := range d.More {
			top = append(top, line.String())
		}
	}
	bottom := d.foot(th, inner, name)
	fits := h - 2 - len(bottom)
	if len(d.Picks) > 0 && !d.showMore {
		d.scroll = max(0, chosen-fits+2)
	}
	top = d.fit(th, top, fits)
	out := make([]string, 0, len(top)+len(bottom)+2)
	corner := d.Corner.String()
	if corner != "" {
		corner = " " + corner + " "
	}
	title := draw.Cut(" "+d.Title.String()+" ", w-4)
	if draw.Width(title)+draw.Width(corner) > w-4 {
		corner = ""
	}
	frame, strong := th.Faint, th.Strong
	if d.Risk {
		frame, strong = th.Bad, th.Bad
	}
	out = append(out, frame.Render("┌")+strong.Render(title)+frame.Render(draw.Rule(w-3-draw.Width(title)-draw.Width(corner))+corner+"─┐"))
	for _, l := range append(top, bottom...) {
		out = append(out, frame.Render("│ ")+draw.Left(l, inner)+frame.Render(" │"))
	}
	return append(out, frame.Render("└"+draw.Rule(w-2)+"┘"))
}

// labels is how wide the column of the labels is: on a small screen no wider than they are.
func (d *Dialog) labels(w int) int {
	const most = 17
	if w >= 3*most {
		return most
	}
	longest := len("UNTIL")
	for _, f := range d.Facts {
		longest = max(longest, draw.Width(f.Label.String()))
	}
	for _, f := range d.Fields {
		longest = max(longest, draw.Width(f.Label))
	}
	return min(longest+1, most)
}

// picks are the lines that can be chosen, and where the chosen one ends.
func (d *Dialog) picks(th *draw.Theme, w int) (out []string, chosen int) {
	for i, p := range d.Picks {
		mark, style := " ", th.Text
		if p.Grave {
			style = th.Bad
		}
		if i == d.focus {
			mark, style = "▌", th.Strong
		}
		for _, line := range draw.Wrap(p.Text.String(), w-1) {
			out = append(out, style.Render(mark+draw.Left(line, w-1)))
		}
		if i == d.focus {
			chosen = len(out) - 1
		}
	}
	return out, chosen
}

// fit cuts what stands above the end of a dialog: that, where it is answered, is never
// cut off, and what is above scrolls.
func (d *Dialog) fit(th *draw.Theme, top []string, fits int) []string {
	d.scroll = min(d.scroll, max(len(top)-fits, 0))
	switch {
	case len(top) <= fits:
		return top
	case fits <= 1:
		return top[:max(fits, 0)]
	}
	if rest := len(top) - d.scroll - (fits - 1); rest > 0 {
		return append(append([]string{}, top[d.scroll:d.scroll+fits-1]...), th.Faint.Render(draw.Plural(rest, "more line", "more lines")+", PgDn"))
	}
	return top[d.scroll:]
}

// foot is the part that is answered.
func (d *Dialog) foot(th *draw.Theme, w, name int) []string {
	var out []string
	if d.fault != "" {
		for _, l := range draw.Wrap(d.fault, w) {
			out = append(out, th.Bad.Render(l))
		}
	}
	act, pressed := th.Accent, th.Button
	if d.Sends {
		act, pressed = th.Bad, th.Danger
	}
	ends := func(a, b string) string {
		return act.Render(a) + draw.Spaces(max(w-draw.Width(a)-draw.Width(b), 1)) + th.Faint.Render(b)
	}
	leave := []string{"Enter, Esc: [Close]", "Esc: [Close]", "Esc"}
	switch {
	case len(d.Picks) > 0:
		leave = []string{"↵ opens the row   Esc: [Close]", "↵ row  Esc: [Close]", "↵ row  Esc"}
	case d.Yes != "":
		leave = []string{"Enter, Esc: [Cancel]", "Esc: [Cancel]", "Esc"}
	}
	if d.Do == "" || d.Yes != "" {
		return append(out, "", ends(d.Yes, ticket.Fit(w-draw.Width(d.Yes)-1, leave...)))
	}
	out = append(out, "")
	for i, f := range d.Fields {
		focused := d.focus == i
		head := th.Faint.Render(draw.Left(f.Label, name-1) + " ")
		if focused {
			head = th.Strong.Render(draw.Left(f.Label, name-1) + "▌")
		}
		out = append(out, head+f.line(th, w-name, focused))
	}
	button := func(text string, at int, calm, pressed draw.Paint) string {
		if d.focus == at {
			return pressed.Render("▌" + text)
		}
		return calm.Render(" " + text)
	}
	line := button("[Cancel]", d.cancelAt(), th.Text, th.Button) + " " + button("["+d.Do+"]", d.doAt(), act, pressed)
	hint := "Enter: next field, then Cancel; Tab: " + d.Do
	if d.Quick {
		hint = "Enter: next field, then " + d.Do
		if len(d.Fields) == 1 {
			hint = "Enter: " + d.Do
		}
	}
	if room := w - draw.Width(line); draw.Width(hint)+2 <= room {
		line += draw.Spaces(room-draw.Width(hint)) + th.Faint.Render(hint)
	}
	return append(out, line)
}
