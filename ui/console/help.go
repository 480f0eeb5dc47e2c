package console

import (
	"slices"
	"strings"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type topic struct {
	name, text string
	off        bool
}

type chapter struct {
	title  string
	closed string // why all of it is off
	room   int    // cells of a name
	topics []topic
}

// chapters are the whole help: keys, words, commands.
func chapters(m *Root) []chapter {
	c := m.desk()
	var out []chapter
	for _, group := range []string{groupFirst, groupMove, groupLook, groupAct, groupGo} {
		ch := chapter{title: group, room: 7}
		if group == groupAct {
			ch.closed = c.Closed
		}
		for i := range m.keys {
			k := &m.keys[i]
			if k.show == "" || k.first != (group == groupFirst) || !k.first && k.group != group {
				continue
			}
			t := topic{name: k.show, text: k.words}
			if why := m.why(k, c).String(); why != "" && ch.closed == "" {
				t.text, t.off = k.words+" (off: "+why+")", true
			}
			ch.topics = append(ch.topics, t)
		}
		out = append(out, ch)
	}
	for line := range strings.Lines(ticket.Glossary) {
		word, means, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if title, begins := strings.CutPrefix(word, "# "); begins {
			out = append(out, chapter{title: title, room: 20})
			continue
		}
		last := &out[len(out)-1]
		last.topics = append(last.topics, topic{name: word, text: means})
	}
	ch := chapter{title: "Commands", room: 30}
	for _, c := range commands() {
		ch.topics = append(ch.topics, topic{name: strings.TrimSpace(":" + c.Name + " " + c.Args), text: c.Words})
	}
	return append(out, ch)
}

// helpLines is the help in w cells, or what is in it of the words looked for.
func (m *Root) helpLines(w int) []string {
	sought := strings.Fields(strings.ToLower(m.sought))
	fits := func(ch chapter, t topic) bool {
		text := strings.ToLower(ch.title + " " + t.name + " " + t.text)
		return !slices.ContainsFunc(sought, func(word string) bool { return !strings.Contains(text, word) })
	}
	lines := []string{" " + m.Strong.Render("Small letters look, capitals act.") + " Nothing outward happens on one key."}
	if len(sought) > 0 {
		lines = []string{" " + m.Strong.Render(safe.Say("/%s", m.sought).String()) + m.Faint.Render("  esc shows all of it")}
	}
	for _, ch := range chapters(m) {
		begun := false
		for _, t := range ch.topics {
			if !fits(ch, t) {
				continue
			}
			if !begun {
				begun = true
				lines = append(lines, "", " "+m.Strong.Render(ch.title)+m.Warn.Render(ticket.Colon(ch.closed).String()))
			}
			lines = append(lines, topicLines(&m.Frame, t, ch, w)...)
		}
	}
	if len(lines) == 1 {
		lines = append(lines, "", " nothing here says that")
	}
	for i := range lines {
		lines[i] = draw.Left(lines[i], w)
	}
	return lines
}

// topicLines are one topic, wrapped under itself.
func topicLines(f *draw.Frame, t topic, ch chapter, w int) []string {
	paint, text := f.Accent, f.Text
	if t.off || ch.closed != "" {
		paint, text = f.Faint, f.Faint
	}
	var out []string
	for i, line := range draw.Wrap(t.text, max(w-3-ch.room, 8)) {
		head := draw.Spaces(ch.room)
		if i == 0 {
			head = draw.Left(t.name, ch.room-1) + " "
		}
		out = append(out, "   "+paint.Render(head)+text.Render(line))
	}
	return out
}
