package dialog

import (
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

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
		top = append(top, ledger.Each(draw.Wrap(safe.Say("IT MOVED: %s", d.stale).String(), inner), th.Bad.Render)...)
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
	for _, text := range d.Rest {
		top = append(top, ledger.Each(strings.Split(ansi.Hardwrap(text.String(), inner, true), "\n"), th.Text.Render)...)
	}
	picks, chosen, begins := d.picks(th, inner, len(top))
	top = append(top, picks...)
	if d.showMore && len(d.More) > 0 {
		top = []string{th.Faint.Render("^b, Esc: back")}
		for _, line := range d.More {
			top = append(top, strings.Split(ansi.Hardwrap(line.String(), inner, true), "\n")...)
		}
	}
	bottom := d.foot(th, inner, name)
	fits := h - 2 - len(bottom)
	if len(d.Picks) > 0 && !d.showMore {
		d.scroll = max(0, chosen-fits+3) // a line above and one below count what is out of sight
	}
	if d.showMore {
		begins = nil
	}
	top = d.fit(th, top, fits, begins)
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

// picks are the lines that can be chosen, below so many others: where the chosen one ends,
// and where each begins.
func (d *Dialog) picks(th *draw.Theme, w, at int) (out []string, chosen int, begins []int) {
	for i, p := range d.Picks {
		mark, style := " ", th.Text
		if p.Grave {
			style = th.Bad
		}
		if i == d.focus {
			mark, style = "▌", th.Strong
		}
		begins = append(begins, at+len(out))
		for _, line := range draw.Wrap(p.Text.String(), w-1) {
			out = append(out, style.Render(mark+draw.Left(line, w-1)))
		}
		if i == d.focus {
			chosen = at + len(out) - 1
		}
	}
	return out, chosen, begins
}

// fit cuts what stands above the end of a dialog: that, where it is answered, is never
// cut off, and what is above scrolls. What is out of sight is counted: picks by where each
// begins, else lines.
func (d *Dialog) fit(th *draw.Theme, top []string, fits int, begins []int) []string {
	d.page = max(fits-2, 1)
	if len(top) <= fits || fits <= 0 {
		d.scroll = 0
		return top[:max(min(fits, len(top)), 0)]
	}
	d.scroll = min(d.scroll, len(top)-fits+1)
	from, out := d.scroll, []string{}
	if fits > 3 && from > 0 {
		out = append(out, th.Faint.Render("↑"+ledger.Count(from)+" above"))
	} else {
		from = min(from, len(top)-fits)
	}
	room := fits - len(out)
	if len(top)-from <= room || fits == 1 {
		return append(out, top[from:min(from+room, len(top))]...)
	}
	to := from + room - 1
	below := len(top) - to
	if first := slices.IndexFunc(begins, func(at int) bool { return at >= to }); first >= 0 {
		below = len(begins) - first
	}
	return append(append(out, top[from:to]...), th.Faint.Render(ledger.Count(below)+" more below ↓, PgDn"))
}

// foot is the part that is answered.
func (d *Dialog) foot(th *draw.Theme, w, name int) []string {
	var out []string
	if d.fault != "" {
		out = append(out, ledger.Each(draw.Wrap(d.fault, w), th.Bad.Render)...)
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
