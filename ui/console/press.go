package console

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// keyOf is the physical key of a name, shifted or not.
func keyOf(name string) string {
	if len([]rune(name)) == 1 {
		return strings.ToLower(name)
	}
	return name
}

// press gives a key to whatever is on top.
func (m *Root) press(msg tea.KeyPressMsg) tea.Cmd {
	if msg.Code == tea.KeyEscape {
		msg.Mod = 0 // two that follow at once arrive as alt+esc
	}
	name := msg.String()
	if m.Now.Sub(m.feed.LastKey) >= m.asking.hush {
		m.asking.hush = 0
	}
	m.feed.LastKey, m.lastName, m.table.ToEnd = m.Now, name, false
	if m.toast.key {
		m.toast.until = m.Now
	}
	switch {
	case name == "ctrl+z":
		return suspend(m)
	case m.dialogs.Top() != nil:
		return m.pressDialog(msg)
	case m.prompt != nil:
		action, closes := m.prompt.Press(msg)
		if closes {
			m.prompt, m.asking.hush = nil, pasted
		}
		return m.carry(action)
	case m.asking.due: // what is typed now is for the dialog that is to come
		if name == "esc" || name == "ctrl+c" {
			m.asking.gen++
			m.asking.due, m.asking.menu = false, false
		}
		return nil
	case m.asking.hush > 0, m.leaving.asked:
		return nil
	case name == "esc" && m.toast.until.After(m.Now):
		m.toast.until = m.Now
	}
	return pressed(m, name)
}

// pressed gives a key to the outage that is on the screen, else to its binding.
func pressed(m *Root, name string) tea.Cmd {
	if cmd, done := pressOutage(m, name); done {
		return cmd
	}
	return m.pressBinding(name)
}

// pasted is how quick keys follow one another that no hand presses: a terminal that
// knows no paste types a text, and its line breaks answer the dialog.
const pasted = 50 * time.Millisecond

// pressDialog gives a key to the top dialog. A form is kept until what it asked for
// is done: a refusal brings it back.
func (m *Root) pressDialog(msg tea.KeyPressMsg) tea.Cmd {
	d, n := m.dialogs.Top(), m.dialogs.Len()
	action := m.dialogs.Press(msg, m.Now)
	if len(d.Fields) > 0 && m.dialogs.Len() < n {
		m.asking.hush, m.asking.form = pasted, d
		defer func() { m.asking.form = nil }()
	}
	return m.carry(action)
}

// pressBinding does what a key does, or says why it does nothing.
func (m *Root) pressBinding(name string) tea.Cmd {
	k := m.byKey[name]
	if k == nil {
		if len([]rune(name)) == 1 && name != " " {
			m.say("%s does nothing; ? lists the keys", name)
		}
		return nil
	}
	if k.do == nil && k.opens == nil {
		return nil
	}
	m.table.Placed = true
	if k.verb != "" && m.table.Anchor != "" {
		m.table.MarkRange() // it shows as marked
	}
	c := m.desk()
	switch why := m.why(k, c); {
	case m.screen == onHelp && name != "/" && (k.group == groupLook || k.group == groupAct || name == "enter"):
		m.say("esc leaves the help first")
		return nil
	case k.acts && m.table.JustMoved(m.Now):
		refuse(m, "another row has just come under the cursor: look, then press %s again", k.show)
		return nil
	case !why.Empty():
		refuse(m, "%s is off: %s", k.show, why)
		return nil
	case k.acts && k.signs() && m.o.AskName:
		askName(m, k)
		return nil
	case k.verb != "" && c.Marks.N > 0:
		return m.freeze(k.verb, marked(m), nil, nil)
	case k.opens != nil:
		m.show(k.opens(c))
		return nil
	}
	return k.do(m)
}

// askName asks who decides, on an account that several people use.
func askName(m *Root, k *binding) {
	m.show(ask.Who(cmp.Or(m.actor.OSUser, m.actor.Name), k.keys[0]))
}

func (m *Root) move(n int) tea.Cmd {
	if m.screen != onList {
		m.scrolled = max(m.scrolled+n, 0)
		return nil
	}
	m.table.ToEnd = n == theLast
	m.table.MoveBy(n)
	return m.feed.More(m.table.More())
}

// theLast is as far down as the list goes.
const theLast = 1 << 30

// notch is how many lines one step of the wheel moves.
const notch = 3

// wheel scrolls what is on top.
func wheel(m *Root, button tea.MouseButton) tea.Cmd {
	n := map[tea.MouseButton]int{tea.MouseWheelUp: -notch, tea.MouseWheelDown: notch}[button]
	m.feed.LastKey = m.Now
	if d := m.dialogs.Top(); d != nil {
		d.Scroll(n)
		return nil
	}
	m.table.Placed = true
	return m.move(n)
}

func (m *Root) back() tea.Cmd {
	switch {
	case m.screen == onHelp && m.sought != "":
		m.sought, m.scrolled = "", 0
	case m.screen != onList:
		return ascend(m)
	case m.feed.Search.Running:
		return m.feed.Stop()
	case m.table.Anchor != "":
		m.table.Anchor = ""
	case len(m.table.Marks) > 0:
		m.table.Marks = nil
	case m.table.Filter.Text != m.own.Text:
		return m.setFilter(m.own)
	case len(m.trail) > 0:
		return ascend(m)
	}
	return nil
}

// open shows one operation on the whole screen, and there all that was seen of it or as
// much as leaves room for the advice.
func open(m *Root) {
	if m.screen == onDetail {
		m.full, m.scrolled = !m.full, 0
		return
	}
	descend(m, onDetail)
	m.full = false
}

// help shows the help, or what was shown before it.
func help(m *Root) tea.Cmd {
	if m.screen == onHelp {
		return ascend(m)
	}
	descend(m, onHelp)
	m.sought = ""
	return nil
}

// goTab shows another list. Lists are one level: only from a screen further in Esc
// leads back.
func (m *Root) goTab(t ledger.Tab) tea.Cmd {
	if m.screen == onHelp {
		ascend(m)
	}
	from := here(m)
	m.goTo(onList)
	other := m.table.GoTo(t)
	went(m, from)
	if !other {
		return nil
	}
	return m.feed.Restart()
}

// setFilter shows another selection, from its top.
func (m *Root) setFilter(f ledger.Filter) tea.Cmd {
	if !m.table.SetFilter(f) {
		return m.feed.GoOn()
	}
	return m.feed.Restart()
}

func (m *Root) setOrder(o ledger.Order) tea.Cmd {
	m.table.SetOrder(o)
	m.say("sorted: %s", table.OrderWords(o))
	return m.feed.Restart()
}

// mark marks the chosen row, or a range from where one was begun.
func (m *Root) mark(ranged bool) tea.Cmd {
	if ranged || m.table.Anchor != "" {
		m.table.MarkRange()
		return nil
	}
	m.table.Mark()
	if m.screen == onList {
		return m.move(1)
	}
	return nil
}

func (m *Root) takeAdvice() tea.Cmd {
	t := m.feed.Brief().At(m.Now, m.Zone)
	verb, why := t.Advice()
	keys := map[string]string{advice.Retry: "R", advice.Confirm: "C", advice.Abandon: "A", advice.Leave: "P"}
	if key := keys[verb]; key != "" {
		return m.pressBinding(key)
	}
	switch {
	case verb != advice.Look:
		m.say("%s%s", verb, ticket.Colon(why.String()))
		return nil
	case t.Row.Conflict != ledger.NoConflict:
		return m.pressBinding("D")
	case t.Facts.Link != "":
		return openLink(m)
	}
	m.say("look outside, then C with its receipt, or X with how you know")
	open(m)
	return nil
}

const menuKey = "a"

// choose presses a key of the menu, or the one that opens it again.
func choose(m *Root, key string) tea.Cmd {
	m.asking.menu = key != menuKey
	cmd := m.pressBinding(key)
	if !m.asking.due {
		m.asking.menu = false
	}
	return cmd
}

// menu lists each act, what it would do now, or why it is off.
func (m *Root) menu() tea.Cmd {
	c := m.desk()
	d := c.Menu()
	of := safe.Say("each of the %s marked, judged by itself", ledger.Count(c.Marks.N))
	for i := range m.keys {
		k := &m.keys[i]
		if k.would == nil {
			continue
		}
		name, _, _ := strings.Cut(k.short, ":")
		if name == "" {
			name, _, _ = strings.Cut(k.words, ":")
		}
		label := safe.Say("%s  %s", k.show, name)
		if why := m.why(k, c); !why.Empty() {
			d.Put(ticket.Fact{Label: label, Text: safe.Say("off: %s", why)})
			continue
		}
		would := k.would(c)
		if k.verb != "" && c.Marks.N > 0 {
			would = of
		}
		d.Put(ticket.Fact{Label: label, Text: would})
		d.Keys[k.keys[0]] = ask.Key(k.keys[0])
	}
	m.show(d)
	return nil
}

// foundMsg is one operation that was asked for by its id.
type foundMsg struct {
	row  feed.Row
	err  error
	over func(*Root) tea.Cmd // opens the dialog that it was asked for in
}

// find opens one operation, in whichever list it stands.
func find(ctx context.Context, store ledger.Reader, id string, over func(*Root) tea.Cmd) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, feed.Patience)
		defer cancel()
		rec, err := store.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return foundMsg{err: err}
		}
		return foundMsg{row: feed.NewRow(rec), over: over}
	}
}

func (m *Root) found(msg foundMsg) tea.Cmd {
	var many *ledger.AmbiguousError
	switch {
	case errors.As(msg.err, &many):
		m.warn("that could be %s", strings.Join(many.IDs, ", "))
		return nil
	case msg.err != nil:
		m.warn("%s", msg.err)
		return nil
	}
	from := here(m)
	from.over, m.full = msg.over, false
	m.goTo(onDetail)
	other := m.table.Show(msg.row, m.Now)
	went(m, from)
	if other {
		return m.feed.Restart()
	}
	return nil
}

func busy(m *Root) int {
	if m.o.Engine == nil {
		return m.writing
	}
	return m.writing + m.o.Engine.Busy()
}

// suspend stops this program, unless it would miss an answer, or its deadline.
func suspend(m *Root) tea.Cmd {
	switch n := busy(m); {
	case m.run != nil:
		refuse(m, "^z is off: a run is under way; p pauses it")
	case n > 0:
		refuse(m, "^z is off: %s in flight, and a program that stands still misses the answer", ticket.Plural(n, "write", "writes"))
	default:
		return tea.Suspend
	}
	return nil
}

// quit leaves at once, or when the last write has ended.
func (m *Root) quit() tea.Cmd {
	m.leaving.asked = true
	n := busy(m)
	if m.run != nil && !m.leaving.told { // no further item begins, and another console may go on
		m.leaving.told = true
		return tea.Batch(halt(m, m.run.Record, false), m.o.after(100*time.Millisecond, waitMsg{}))
	}
	if n == 0 {
		m.leaving.ready = true
		return tea.Quit
	}
	m.toast = toast{text: safe.Say("Waiting for %s in flight: leaving now would leave the answer unknown. It ends by its deadline.", ticket.Plural(n, "write", "writes")), until: m.Now.Add(time.Minute)}
	return m.o.after(100*time.Millisecond, waitMsg{})
}
