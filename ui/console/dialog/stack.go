package dialog

import (
	"slices"
	"strings"
	"time"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Stack is the open dialogs. The top one takes the keys.
type Stack struct{ open []*Dialog }

// Open puts a dialog on top. The key that opened it never answers it; lastKey is when the
// newest one was pressed.
func (s *Stack) Open(d *Dialog, opener string, now, lastKey time.Time) {
	d.hands, d.focus = hands{openedAt: now, lastKey: lastKey}, d.first()
	if !d.Itself {
		d.opener = opener
	}
	s.open = append(s.open, d)
}

// Top is the dialog that takes the keys, or nil.
func (s *Stack) Top() *Dialog {
	if len(s.open) == 0 {
		return nil
	}
	return s.open[len(s.open)-1]
}

// Press gives a key to the top dialog, and closes it where that ends it.
func (s *Stack) Press(msg tea.KeyPressMsg, now time.Time) Action {
	d := s.Top()
	action, closes := d.Press(msg, now)
	if n, leads := action.(next); leads {
		s.Open(n.Dialog, strings.ToLower(msg.String()), now, now)
		n.over = true
		return nil
	}
	return s.end(d, action, closes, now)
}

// Answered takes the answer that was held, unless another key followed it or the dialog
// asks something else now.
func (s *Stack) Answered(h Held, now time.Time) Action {
	d := s.Top()
	if d == nil || d.held == "" || h != (Held{d.openedAt, d.presses}) {
		return nil
	}
	action, closes := d.answered(now)
	return s.end(d, action, closes, now)
}

// end closes a dialog, and with its answer the questions that led to it.
func (s *Stack) end(d *Dialog, action Action, closes bool, now time.Time) Action {
	for closes {
		s.open = s.open[:len(s.open)-1]
		if closes = d.over && d.done; closes {
			d = s.Top()
			d.done = true
		} else if d.over { // it is asked once more
			s.Top().hands = hands{openedAt: now, lastKey: now}
		}
	}
	return action
}

// Renew puts a dialog as it would be asked now in the place of the one that is open. Where
// y does something else now, it waits until the hands are still.
func (s *Stack) Renew(d *Dialog, now time.Time) {
	for i, old := range s.open {
		if old.Renew != d.Renew {
			continue
		}
		d.hands, d.scroll, d.showMore, d.fault = old.hands, old.scroll, old.showMore, old.fault
		if old.Yes != d.Yes {
			d.openedAt, d.spent, d.held, d.fault = now, false, "", ""
		}
		if old.focus < len(old.Picks) {
			d.focus = max(slices.IndexFunc(d.Picks, func(p Pick) bool { return p.Action == old.Picks[old.focus].Action }), 0)
		}
		s.open[i] = d
	}
}

func (s *Stack) Len() int { return len(s.open) }

// Clear closes all of them: what they are about is gone.
func (s *Stack) Clear() { s.open = nil }

// Moved tells the dialogs about an operation that it is not as they show it; how
// says what it is now.
func (s *Stack) Moved(how func(id string, version int64) safe.Text) {
	for _, d := range s.open {
		if d.Version != 0 && d.stale.Empty() {
			d.stale = how(d.ID, d.Version)
		}
	}
}

// Draw lays the dialogs over a screen of w by h cells.
func (s *Stack) Draw(f *draw.Frame, screen []string, w, h int) []string {
	for _, d := range s.open {
		d.count(f)
		room := min(w-4, 78)
		if w < 60 {
			room = w
		}
		if d.cramped = room <= 8 || h <= 4; d.cramped {
			continue
		}
		box := d.Draw(f, room, h)
		d.cramped = len(box) > h
		screen = over(screen, box, w, h)
	}
	return screen
}

// over lays a box over the screen, in the middle.
func over(screen []string, box []string, w, h int) []string {
	bw := 0
	for _, l := range box {
		bw = max(bw, draw.Width(l))
	}
	x, y := max((w-bw)/2, 0), max((h-len(box))/2, 0)
	for i, l := range box {
		if y+i >= len(screen) {
			break
		}
		base := screen[y+i]
		before := draw.Left(ansi.Truncate(base, x, ""), x)
		after := ""
		if x < 6 {
			// Crumbs of rows beside a dialog only distract.
			before, after = draw.Spaces(x), draw.Spaces(w-x-bw)
		} else if x+bw < w {
			after = ansi.TruncateLeft(base, x+bw, "")
		}
		screen[y+i] = before + "\x1b[m" + draw.Left(l, min(bw, w)) + "\x1b[m" + after
	}
	return screen
}
