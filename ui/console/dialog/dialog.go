// Package dialog asks before something is done. A dialog is {ID, Press → Action,
// Draw}, on a stack: what a key asks for comes back as a value, which the caller
// carries out. A dialog writes nothing, and holds nothing of the one who opened it.
package dialog

import (
	"slices"
	"strings"
	"time"

	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// Guard is how long a new dialog takes no key: the one that opened it may
// still be down, or the next may have been meant for the list.
const Guard = 300 * time.Millisecond

// Typing is how quick keys follow one another while a text is typed. A key that answers a
// question counts only with so much quiet before it and after it: no word answers one.
const Typing = 500 * time.Millisecond

// Action is what a key in a dialog asks for; nil is nothing.
type Action any

type (
	// Held is an answer that counts once Typing has passed without another key.
	Held struct {
		openedAt time.Time
		presses  int
	}
	// Unanswered closes a question without an answer, and says why.
	Unanswered struct{ Why safe.Text }
	// next opens the question that a key of this one leads to.
	next struct{ *Dialog }
)

// Fault is why an answer cannot be taken, and the field that is wrong, if it is one.
type Fault struct {
	Why string
	At  *Field
}

// Dialog is one question, with what must be known to answer it.
type Dialog struct {
	ID      string // of the operation it is about
	Version int64  // as shown

	Title  safe.Text // of the frame, on the left and on the right
	Corner safe.Text
	Head   safe.Text // first line: what, and as seen when
	Seen   safe.Text
	Facts  []ticket.Fact
	Rest   []safe.Text // below the facts, whole: what goes out
	More   []safe.Text // shown with ^b: the list
	Fields []*Field
	Yes    string // its first word is the one key that does this; empty: fields and buttons
	Do     string // the button; empty: there is nothing to do here
	// Submit is what was answered, or why it cannot be taken so.
	Submit func(now time.Time) (action Action, fault Fault)
	Closed Action             // when it is left without an answer
	Keys   map[string]Action  // further keys of a dialog without fields
	Next   map[string]*Dialog // keys that lead to a further question; Esc there leads back
	Picks  []Pick             // of a dialog without fields: Enter takes the one under the cursor
	Renew  Action             // asks it anew; nil: it is not followed
	Itself bool               // it opened by itself: it waits until the hands are still
	Quick  bool               // Enter in its last field answers: nothing is sent or decided by it
	Sends  bool               // its answer cannot be taken back: it is the loud part
	Risk   bool               // and without proof: so is its frame
	Until  time.Time          // what allows it runs out then; zero: it does not

	hands
	drawn
	focus int // fields, then Cancel, then the button; of picks, which
	fault string
	stale safe.Text // it moved: why this cannot be done any more
	over  bool      // the question below leads to this one
	done  bool      // it was answered
}

// drawn is how a dialog lies on the screen.
type drawn struct {
	scroll   int
	page     int // lines that PgDn scrolls
	showMore bool
	left     string // how long what allows it still holds, or that it is over
	lapsed   bool
	cramped  bool // its answer does not fit the screen
}

// hands are the keys that were pressed since a dialog opened.
type hands struct {
	opener   string // the key that opened it, small
	openedAt time.Time
	lastKey  time.Time // before it opened, too
	presses  int
	spent    bool   // a first key was tried as its answer
	held     string // the key that answers it, unless another one follows
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

func (d *Dialog) Put(facts ...ticket.Fact) { d.Facts = append(d.Facts, facts...) }

func (d *Dialog) cancelAt() int { return len(d.Fields) }
func (d *Dialog) doAt() int     { return len(d.Fields) + 1 }

// Press gives a key to the dialog: what it asks for, and whether that ends it.
func (d *Dialog) Press(msg tea.KeyPressMsg, now time.Time) (action Action, closes bool) {
	name := msg.String()
	last := d.lastKey
	d.lastKey = now
	d.presses++
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
	if d.held != "" {
		return Unanswered{safe.Say("closed: `%s` came after `%s`, nothing was done", name, d.held)}, true
	}
	switch name {
	case "esc", "ctrl+c":
		if d.showMore { // a list in it is a level of its own
			d.toggleMore()
			return nil, false
		}
		return d.Closed, true
	case "ctrl+b":
		if len(d.More) > 0 {
			d.toggleMore()
		}
		return nil, false
	case "pgdown", "ctrl+d":
		d.Scroll(d.page)
		return nil, false
	case "pgup", "ctrl+u":
		if d.focus >= len(d.Fields) || d.Yes != "" || name == "pgup" {
			d.Scroll(-d.page)
			return nil, false
		}
	}
	if d.Yes != "" || d.Do == "" {
		return d.pressPlain(name, msg.Text != "", now.Sub(last) >= Typing)
	}
	return d.pressForm(msg, name, now)
}

func (d *Dialog) untouched() bool {
	return d.focus == d.first() && !slices.ContainsFunc(d.Fields, func(f *Field) bool { return f.choices == nil && f.Value() != f.was })
}

func (d *Dialog) first() int {
	return max(slices.IndexFunc(d.Fields, func(f *Field) bool { return !f.filled }), 0)
}

// pressPlain gives a key to a dialog without fields; text reports that it prints, and quiet
// that no other one was pressed just before it.
func (d *Dialog) pressPlain(name string, text, quiet bool) (Action, bool) {
	asks, opener := d.Yes != "", strings.ToLower(name) == d.opener
	switch {
	case name == "enter" && len(d.Picks) > 0:
		return d.Picks[d.focus].Action, true
	case name == "enter" || name == "q" && !asks:
		return d.Closed, true
	case d.Next[name] != nil:
		return next{d.Next[name]}, false
	case !asks && d.Keys[name] != nil && (quiet || !opener):
		return d.Keys[name], true
	case name == "down" || name == "j" && (!asks || len(d.Picks) > 0):
		d.Scroll(1)
	case name == "up" || name == "k" && (!asks || len(d.Picks) > 0):
		d.Scroll(-1)
	case asks && text:
		return d.answer(name, quiet && !opener)
	}
	return nil, false
}

// answer takes a key as the answer of a question. It is one only as the first that prints,
// with quiet around it; any other key closes the question.
func (d *Dialog) answer(name string, quiet bool) (Action, bool) {
	yes, _, _ := strings.Cut(d.Yes, " ")
	first := !d.spent
	d.spent = true
	switch {
	case name != yes && d.Keys[name] == nil:
		return Unanswered{safe.Say("closed: `%s` is no answer", name)}, true
	case !quiet || !first:
		return Unanswered{safe.Say("closed: `%s` came too soon after another key, nothing was done", name)}, true
	}
	d.held, d.fault = name, name+": in a moment; any other key stops it"
	return Held{d.openedAt, d.presses}, false
}

// answered takes the answer that was held.
func (d *Dialog) answered(now time.Time) (Action, bool) {
	key := d.held
	d.held, d.spent = "", false
	if a := d.Keys[key]; a != nil {
		return a, true
	}
	return d.submit(now)
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
	if d.fault = fault.Why; fault.Why != "" {
		if i := slices.Index(d.Fields, fault.At); i >= 0 {
			d.focus = i
		}
		return nil, false
	}
	d.done = true
	return action, true
}

// Again has it asked once more, from its first field, with what was typed.
func (d *Dialog) Again() { d.focus, d.fault, d.over, d.done = 0, "", false, false }

// Paste enters text where a text is asked for. It never presses a key.
func (d *Dialog) Paste(text string) {
	if d.Yes == "" && d.Do != "" && d.focus < len(d.Fields) {
		if d.Fields[d.focus].paste(text) {
			d.fault = "this is typed by hand, not pasted"
		}
	}
}
