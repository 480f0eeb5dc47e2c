package console

import (
	"time"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// tour leads a newcomer through the outage of the demonstration. Each of its steps
// says one thing to do, and is over when that is done.
type tour struct {
	greeted bool
	leaves  bool     // the greeting goes with the next key
	step    int      // from 1; 0: not under way
	run     *act.Run // the newest that was driven meanwhile
}

// steps are what a step says, and when the next one comes.
var steps = []struct {
	text string
	done func(m *Root) bool
}{
	{"The row that begins with + is the whole outage. j and k move, ↵ opens it", func(m *Root) bool { return m.screen == onIncident }},
	{"Above: what became of every error. W says that you are on it", func(m *Root) bool { o := outageAt(m); return m.screen == onIncident && o != nil && mine(m, o) }},
	{"What did not land, proven, can be sent again: k to that line, then R", func(m *Root) bool { return asksRun(m) || m.run != nil }},
	{"Type the number that it names, then Tab and ↵. Esc takes it back", func(m *Root) bool { return m.run != nil }},
	{"Three go first. Once they have landed, G sends the rest; p pauses it", func(m *Root) bool { return m.run == nil && m.tour.run.Record.State == ledger.RunDone }},
	{"Sent. The page says what became of each. Esc: the list says → what is next", func(m *Root) bool { return m.screen == onList }},
}

// asksRun reports whether a dialog asks for the words of a bulk run, not who is there.
func asksRun(m *Root) bool {
	d := m.dialogs.Top()
	return d != nil && len(d.Fields) > 0 && !m.o.AskName
}

// greet says what happened in the demonstration, and which key to press.
func greet(m *Root) {
	if m.o.Banner == "" || m.tour.greeted || len(m.feed.Outages) == 0 {
		return
	}
	m.tour.greeted, m.tour.leaves = true, true
	o := &m.feed.Outages[0]
	m.toast = toast{text: safe.Say("%s: %s in row +: j moves, ↵ opens, ? then t tours, q quits", o.Where(), draw.Plural(o.IncidentAccount.Errors(), "lost answer", "lost answers")),
		until: m.Now.Add(time.Minute)}
}

// begin begins the tour, with the list, or ends it.
func (t *tour) begin(m *Root) tea.Cmd {
	if t.step > 0 {
		t.step = 0
		m.say("the tour is over; ? then t begins it again")
		return ascend(m)
	}
	t.step = 1
	return m.goTab(ledger.TabNeedsYou)
}

// follow goes on where a step is done.
func (t *tour) follow(m *Root) {
	if m.run != nil {
		t.run = m.run
	}
	switch {
	case t.step == 0:
	case t.step == 4 && m.run == nil && !asksRun(m) && !m.asking.due && m.dialogs.Top() == nil:
		t.step = 3
	case steps[t.step-1].done(m):
		if t.step++; t.step > len(steps) {
			t.step = 0
			m.say("That was the tour. a lists what can be done with a row, ? explains every word")
		}
	}
}

// line is what the step says, or nothing.
func (t *tour) line(f *draw.Frame, w int) []string {
	if t.step == 0 {
		return nil
	}
	text := safe.Say("%d/%d  %s", t.step, len(steps), steps[t.step-1].text).String()
	return []string{f.Accent.Render(draw.Left(" "+text, w))}
}
