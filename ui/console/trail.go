package console

import (
	"slices"

	"indoubt/ledger"

	tea "charm.land/bubbletea/v2"
)

// stop is a place that Esc leads back to.
type stop struct {
	spot
	tab    ledger.Tab
	filter ledger.Filter
	row    string              // under the cursor
	over   func(*Root) tea.Cmd // opens the dialog that lay over it; nil: none
}

func here(m *Root) stop {
	s := stop{spot: m.spot, tab: m.table.Tab, filter: m.table.Filter}
	if row := m.table.Chosen(); row != nil {
		s.row = row.ID
	}
	return s
}

// is reports whether two stops show the same.
func (s stop) is(o stop) bool {
	switch {
	case s.screen != o.screen, s.screen == onDetail && s.row != o.row:
		return false
	case s.screen == onOutage:
		return s.outage.ID == o.outage.ID
	}
	return s.tab == o.tab && (s.filter.Text == o.filter.Text || s.screen == onList && s.filter.Text == o.own.Text)
}

// onTheWay is the id of the outage that is on the screen or that Esc leads back to, or "".
func onTheWay(m *Root) string {
	for _, s := range slices.Backward(append(slices.Clip(m.trail), stop{spot: m.spot})) {
		if s.screen == onOutage {
			return s.outage.ID
		}
	}
	return ""
}

// went notes where a step led from. A step to a place on the way here goes back to it;
// lists are beside one another.
func went(m *Root, from stop) {
	m.typed = false
	if from.screen != onList || m.screen != onList {
		m.trail, m.own = append(m.trail, from), m.table.Filter
	}
	if i := slices.IndexFunc(m.trail, here(m).is); i >= 0 {
		m.own, m.typed, m.trail = m.trail[i].own, m.trail[i].typed, m.trail[:i]
	}
}

func descend(m *Root, to screen) {
	from := here(m)
	m.goTo(to)
	went(m, from)
}

// ascend goes back to where the console came from.
func ascend(m *Root) tea.Cmd {
	if len(m.trail) == 0 {
		m.goTo(onList)
		return nil
	}
	s := m.trail[len(m.trail)-1]
	m.trail = m.trail[:len(m.trail)-1]
	m.spot = s.spot
	var cmd tea.Cmd
	if m.table.Return(s.tab, s.filter, s.row) {
		cmd = m.feed.Restart()
	}
	if s.over != nil {
		cmd = tea.Batch(cmd, s.over(m))
	}
	return cmd
}
