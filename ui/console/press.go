package console

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"indoubt/ledger"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
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
	name := msg.String()
	m.capsHint(name)
	m.lastKey, m.lastName = m.at, name
	if name == "ctrl+z" {
		return tea.Suspend
	}
	if n := len(m.dialogs); n > 0 {
		d := m.dialogs[n-1]
		cmd, closes := d.press(msg, m.at)
		if closes {
			m.drop(d)
			if cmd == nil && d.closed != nil {
				cmd = d.closed()
			}
		}
		return cmd
	}
	if m.prompt != nil {
		return m.pressPrompt(msg)
	}
	if m.leaving.asked {
		return nil
	}
	if m.run != nil && name == "p" {
		m.run.paused = true
		m.show(m.pauseDialog("paused"))
		return nil
	}
	if m.toast.until.After(m.at) && name == "esc" {
		m.toast.until = m.at
	}
	return m.pressBinding(name)
}

func (m *Root) drop(d *dialog) {
	for i := range m.dialogs {
		if m.dialogs[i] == d {
			m.dialogs = append(m.dialogs[:i], m.dialogs[i+1:]...)
			return
		}
	}
}

// pressBinding does what a key does, or says why it does nothing.
func (m *Root) pressBinding(name string) tea.Cmd {
	k := m.byKey[name]
	if k == nil {
		if hint, ok := misses[name]; ok {
			m.say(hint, false)
		} else if len([]rune(name)) == 1 && name != " " {
			m.say(safe.Of(name).String()+" does nothing; ? lists the keys", false)
		}
		return nil
	}
	if k.do == nil {
		return nil
	}
	m.list.placed = true
	if m.screen == onHelp && (k.group == groupLook || k.group == groupAct) {
		m.say("esc leaves the help first", false)
		return nil
	}
	if k.acts {
		if m.at.Sub(m.swapped) < justMoved {
			m.say("another row has just come under the cursor: look, then press "+k.show+" again", true)
			return nil
		}
		if why := m.closedToActs(); why != "" {
			m.say(k.show+" is off: "+why, true)
			return nil
		}
		if m.run != nil {
			m.say(k.show+" is off: a bulk run is under way, p pauses it", true)
			return nil
		}
	}
	if k.off != nil {
		if why := k.off(m); why != "" {
			m.say(k.show+" is off: "+why, true)
			return nil
		}
	}
	return k.do(m)
}

// capsHint notices two capitals in a row that no one presses on purpose.
func (m *Root) capsHint(name string) {
	capital := func(s string) bool {
		r := []rune(s)
		return len(r) == 1 && unicode.IsUpper(r[0])
	}
	if !capital(name) || !capital(m.lastName) || m.at.Sub(m.lastKey) > 2*time.Second || name == "G" && m.lastName == "G" || m.prompt != nil {
		return
	}
	if n := len(m.dialogs); n > 0 {
		if d := m.dialogs[n-1]; d.focus < len(d.fields) && m.at.Sub(d.openedAt) > guard {
			return // typing a text
		}
		m.dialogs[n-1].fault = "two capitals in a row: is Caps Lock on?"
	}
	m.say("two capitals in a row: is Caps Lock on?", true)
}

// paste enters text where text is asked for. It never presses a key.
func (m *Root) paste(text string) {
	if n := len(m.dialogs); n > 0 {
		m.dialogs[n-1].paste(text)
		return
	}
	if m.prompt != nil {
		text = safe.Of(strings.Join(strings.Fields(text), " ")).String()
		p := m.prompt
		value, at := []rune(p.input.Value()), p.input.Position()
		p.input.SetValue(string(value[:at]) + text + string(value[at:]))
		p.input.SetCursor(at + len([]rune(text)))
		return
	}
	m.say("a paste presses nothing here", false)
}

func (m *Root) halfPage() int { return max(m.list.height/2, 1) }

func (m *Root) move(n int) tea.Cmd {
	switch m.screen {
	case onDetail, onHelp:
		m.scrolled = max(m.scrolled+n, 0)
		return nil
	}
	m.list.moveBy(n)
	return m.extend()
}

// extend reads the next page before the cursor comes to the end of this one.
func (m *Root) extend() tea.Cmd {
	l := &m.list
	if l.next == "" || m.extending || m.loading || l.at+2*max(l.height, 10) < len(l.items) {
		return nil
	}
	m.extending = true
	w := m.wanted()
	w.after, w.known, w.limit = l.next, nil, 500
	return m.load(w)
}

func (m *Root) open() tea.Cmd {
	if m.screen == onDetail {
		m.plainDetail = !m.plainDetail
		m.scrolled = 0
		return nil
	}
	if m.list.chosen() == nil {
		return nil
	}
	m.screen, m.scrolled, m.plainDetail = onDetail, 0, false
	return nil
}

func (m *Root) back() tea.Cmd {
	switch {
	case m.screen == onHelp:
		m.screen, m.scrolled = m.before, 0
	case m.screen == onDetail:
		m.screen, m.scrolled = onList, 0
	case m.list.anchor != "":
		m.list.anchor = ""
	case len(m.list.marks) > 0:
		m.list.marks = nil
	case m.filter.Text != "":
		return m.setFilter(ledger.Filter{})
	}
	return nil
}

func (m *Root) nextTab(n int) tea.Cmd {
	for i, t := range tabOrder {
		if t == m.tab {
			return m.goTab(tabOrder[(i+n+len(tabOrder))%len(tabOrder)])
		}
	}
	return nil
}

func (m *Root) goTab(t ledger.Tab) tea.Cmd {
	m.screen, m.scrolled = onList, 0
	if t == m.tab {
		return nil
	}
	m.keepPlace()
	m.tab = t
	m.list.marks = nil
	m.restart()
	return m.reload()
}

// keepPlace remembers where the cursor is in this list.
func (m *Root) keepPlace() {
	if s := m.list.chosen(); s != nil {
		m.kept[m.tab] = s.id
	}
}

func (m *Root) order() ledger.Order {
	if o, ok := m.orders[m.tab]; ok {
		return o
	}
	return defaultOrder(m.tab)
}

func (m *Root) setOrder(o ledger.Order) tea.Cmd {
	m.orders[m.tab] = o
	m.restart()
	m.say("sorted: "+orderWords(o), false)
	return m.reload()
}

func (m *Root) nextOrder() tea.Cmd {
	next := map[ledger.Order]ledger.Order{ledger.OrderLoss: ledger.OrderNewest, ledger.OrderNewest: ledger.OrderOldest, ledger.OrderOldest: ledger.OrderLoss}
	return m.setOrder(next[m.order()])
}

func (m *Root) sortNow() tea.Cmd {
	m.list.settle()
	return m.reload()
}

func (m *Root) toggleZoom() tea.Cmd {
	m.screen, m.scrolled = onList, 0
	m.zoom = !m.zoom
	return nil
}

// switchSide marks the next side of a conflict, or the one before.
func (m *Root) switchSide() tea.Cmd {
	n := len(sidesOf(m.chosenBrief(), func(time.Time) string { return "" }))
	step := 1
	if m.lastName == "[" {
		step = n - 1
	}
	m.side = (m.side%n + step) % n
	return nil
}

func (m *Root) mark() tea.Cmd {
	if m.list.anchor != "" {
		return m.rangeMark()
	}
	m.list.mark(m.list.chosen())
	if m.screen == onList {
		return m.move(1)
	}
	return nil
}

// rangeMark begins a range, or marks all from its beginning to the cursor.
func (m *Root) rangeMark() tea.Cmd {
	l := &m.list
	if l.anchor == "" {
		l.anchor = l.chosen().id
		return nil
	}
	from, to := l.between()
	if l.marks == nil {
		l.marks = map[string]int64{}
	}
	for i := from; i <= to; i++ {
		l.marks[l.items[i].id] = l.items[i].row.Version
	}
	l.anchor = ""
	return nil
}

func (m *Root) setTheme(name string) error {
	picked, err := pickTheme(name, m.background, noColour())
	if err != nil {
		return err
	}
	m.wish, m.th = name, newTheme(picked)
	return nil
}

// foundMsg is one operation that was asked for by its id.
type foundMsg struct {
	row shown
	err error
}

// find opens one operation, in whichever list it stands.
func (m *Root) find(id string) tea.Cmd {
	store, ctx := m.store, m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		rec, err := store.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return foundMsg{err: err}
		}
		return foundMsg{row: shown{id: rec.Operation.ID, row: safeRow(rec.Row())}}
	}
}

func (m *Root) foundIt(msg foundMsg) tea.Cmd {
	if msg.err != nil {
		var many *ledger.AmbiguousError
		if errors.As(msg.err, &many) {
			m.say(safe.Of("that could be "+strings.Join(many.IDs, ", ")).String(), true)
		} else {
			m.say(safe.Of(msg.err.Error()).String(), true)
		}
		return nil
	}
	i := m.list.find(msg.row.id)
	var cmd tea.Cmd
	if i < 0 {
		// It is not in this list: show it in the list where it stands, on top until that is sorted again.
		if t := msg.row.row.TabAt(m.at); t != m.tab || m.filter.Text != "" {
			m.tab, m.filter = t, ledger.Filter{}
			m.restart()
			m.pinned = msg.row
			cmd = m.reload()
		}
		m.list.items = append([]shown{msg.row}, m.list.items...)
		i = 0
	}
	m.list.at, m.list.placed = i, true
	m.list.scroll()
	m.screen, m.scrolled, m.plainDetail = onDetail, 0, false
	return cmd
}

// quit leaves at once, or when the last write has ended.
func (m *Root) quit() tea.Cmd {
	m.leaving.asked = true
	return m.leaveWhenIdle()
}

func (m *Root) leaveWhenIdle() tea.Cmd {
	busy := m.writing
	if m.o.Engine != nil {
		busy += m.o.Engine.Busy()
	}
	if m.run != nil && !m.run.paused {
		m.run.paused = true // no further item begins
	}
	if busy == 0 {
		m.leaving.ready = true
		return tea.Quit
	}
	m.toast = toast{text: "Waiting for " + plural(busy, "write", "writes") + " in flight: leaving now would leave the answer unknown. It ends by its deadline.", until: m.at.Add(time.Minute)}
	return m.after(100*time.Millisecond, waitMsg{})
}

func splitLines(s string) []string { return strings.Split(s, "\n") }
