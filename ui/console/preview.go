package console

import (
	"strings"

	"indoubt/ui/ticket"

	"indoubt/ledger"
)

// part is one labelled text of a preview, and how many lines it was given.
type part struct {
	name  string
	paint paint
	text  []string
	lines int
}

// preview is the detail in h lines, for a screen without room for more. What
// is left over is shared by what decides: the advice first, then what is known.
func (m *Root) preview(b *brief, w, h int) []string {
	o := &b.rec.Operation
	head := []string{o.Kind}
	if c := ticket.ErrorClass(o.ErrorClass); c != "" {
		head = append(head, c)
	}
	if !o.StartedAt.IsZero() {
		head = append(head, ticket.Moment(o.StartedAt, m.at, m.loc))
	}
	head = append(head, firstOf(o.Source.Pipeline, "unknown pipeline"))
	line := " " + strings.Join(head, " · ")
	out := []string{m.th.strong.s(cut(" "+o.Title, max(w-width(line)-1, w/2))) + m.th.faint.s(" ·"+line)}

	room := max(w-label-1, 8)
	seen := part{name: "SEEN", paint: m.th.text, text: wrap(m.lastSeen(b), room)}
	text, tone := m.ticketOf(b).Known()
	known := part{name: "KNOWN", paint: m.th.tone(tone), text: wrap(text, room)}
	price := part{name: "PRICE", paint: m.th.text}
	if o.StateAt(m.at) == ledger.Uncertain {
		price.text = []string{m.priceWords(b, room)}
	}
	verb, why := m.adviceWords(b)
	advice := part{paint: m.th.strong, text: wrap("→ "+verb+": "+why, max(w-4, 8))}
	spare := h - len(out)
	for _, p := range []*part{&advice, &known, &advice, &seen, &price, &known, &seen, &advice, &known, &seen} {
		if spare > 0 && p.lines < len(p.text) {
			p.lines++
			spare--
		}
	}
	for _, p := range []part{seen, known, price, advice} {
		for i := range p.lines {
			text, name, at := p.text[i], "", label
			if i == p.lines-1 && i < len(p.text)-1 {
				text += " " + p.text[i+1] // cut where it ends
			}
			if i == 0 {
				name = p.name
			}
			if p.name == "" {
				at = 1
				if i > 0 {
					at = 3
				}
			}
			if name == "" {
				out = append(out, spaces(at)+p.paint.s(cut(text, w-at-1)))
			} else {
				out = append(out, m.th.faint.s(" "+left(name, at-1))+p.paint.s(cut(text, w-at-1)))
			}
		}
	}
	for i := range out {
		out[i] = fit(out[i], w)
	}
	for len(out) < h {
		out = append(out, spaces(w))
	}
	return out[:h]
}

// lastSeen is the newest thing that tells something of the operation itself.
func (m *Root) lastSeen(b *brief) string {
	all := timeline(b)
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		if e.control && i > 0 {
			continue
		}
		name := e.who
		if strings.HasPrefix(name, "attempt ") && i > 0 && all[i-1].who == name {
			name += ":"
		}
		return strings.TrimSpace(ticket.Moment(e.at, m.at, m.loc) + " " + name + " " + e.text(m.at, m.loc))
	}
	return "nothing yet"
}
