package console

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// help shows every key, from the keymap, with why it is off now.
func (m *Root) help() tea.Cmd {
	if m.screen == onHelp {
		return m.back()
	}
	m.before, m.screen, m.scrolled = m.screen, onHelp, 0
	return nil
}

func (m *Root) helpLines(w int) []string {
	lines := []string{" " + m.th.strong.s("Small letters look, capitals act.") + " Nothing outward happens on one key."}
	closed := m.closedToActs()
	for _, group := range []string{groupMove, groupLook, groupAct, groupGo} {
		lines = append(lines, "", " "+m.th.strong.s(group))
		if group == groupAct && closed != "" {
			lines = append(lines, "   "+m.th.warn.s("all off: "+closed))
			continue
		}
		for _, k := range m.keys {
			if k.group != group || k.show == "" {
				continue
			}
			line := "   " + m.th.accent.s(left(k.show, 7)) + k.words
			if k.off != nil {
				if why := k.off(m); why != "" {
					line = "   " + m.th.faint.s(left(k.show, 7)+k.words+" (off: "+why+")")
				}
			}
			lines = append(lines, line)
		}
	}
	lines = append(lines, "", " "+m.th.strong.s("Columns"),
		"   TWICE    what it costs if it happened and is sent again",
		"   NEVER    what it costs if it did not happen and nobody acts",
		"   LANDED?  yes, no and TWICE are facts; a percentage is a guess, n its cases",
		"            said no is somebody's word, without proof",
		"   CLOCK    the moment that changes the advice next",
		"   DO       what is advised; → in the detail says why",
		"", " "+m.th.strong.s("Commands"))
	for _, c := range commands() {
		lines = append(lines, "   "+m.th.accent.s(left(strings.TrimSpace(":"+c.name+" "+c.args), 30))+c.words)
	}
	for i := range lines {
		lines[i] = fit(lines[i], w)
	}
	return lines
}
