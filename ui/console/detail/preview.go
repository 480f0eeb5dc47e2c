package detail

import (
	"cmp"
	"strings"

	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"indoubt/ledger"
)

// part is one labelled text of a preview, and how many lines it was given.
type part struct {
	name  string
	paint draw.Paint
	text  []string
	lines int
}

// Preview is the detail in h lines, for a screen without room for more. What
// is left over is shared by what decides: the advice first, then what is known.
func Preview(f *draw.Frame, b *feed.Brief, w, h int) []string {
	p := &page{Frame: f, Brief: b, w: w}
	o := &p.Rec.Operation
	head := []string{o.Kind}
	if c := ticket.ErrorClass(o.ErrorClass); c != "" {
		head = append(head, c)
	}
	if !o.StartedAt.IsZero() {
		head = append(head, p.Moment(o.StartedAt))
	}
	head = append(head, cmp.Or(o.Source.Pipeline, "unknown pipeline"))
	line := " " + strings.Join(head, " · ")
	out := []string{p.Strong.Render(draw.Cut(" "+o.Title, max(w-draw.Width(line)-1, w/2))) + p.Faint.Render(" ·"+line)}

	room := max(w-label-1, 8)
	seen := part{name: "SEEN", paint: p.Text, text: draw.Wrap(p.lastSeen(), room)}
	text, tone := p.Ticket(p.Now, p.Zone).Known()
	known := part{name: "KNOWN", paint: p.Tone(tone), text: draw.Wrap(text, room)}
	price := part{name: "PRICE", paint: p.Text}
	if o.StateAt(p.Now) == ledger.Uncertain {
		price.text = []string{p.priceWords(room)}
	}
	verb, why := Advice(p.Frame, p.Brief)
	advice := part{paint: p.Strong, text: draw.Wrap("→ "+verb+": "+why, max(w-4, 8))}
	spare := h - len(out)
	for _, p := range []*part{&advice, &known, &advice, &seen, &price, &known, &seen, &advice, &known, &seen} {
		if spare > 0 && p.lines < len(p.text) {
			p.lines++
			spare--
		}
	}
	for _, q := range []part{seen, known, price, advice} {
		for i := range q.lines {
			text, name, at := q.text[i], "", label
			if i == q.lines-1 && i < len(q.text)-1 {
				text += " " + q.text[i+1] // cut where it ends
			}
			if i == 0 {
				name = q.name
			}
			if q.name == "" {
				at = 1
				if i > 0 {
					at = 3
				}
			}
			if name == "" {
				out = append(out, draw.Spaces(at)+q.paint.Render(draw.Cut(text, w-at-1)))
			} else {
				out = append(out, p.Faint.Render(" "+draw.Left(name, at-1))+q.paint.Render(draw.Cut(text, w-at-1)))
			}
		}
	}
	for i := range out {
		out[i] = draw.Left(out[i], w)
	}
	for len(out) < h {
		out = append(out, draw.Spaces(w))
	}
	return out[:h]
}

// lastSeen is the newest thing that tells something of the operation itself.
func (p *page) lastSeen() string {
	all := timeline(p.Brief)
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		if e.control && i > 0 {
			continue
		}
		name := e.who
		if strings.HasPrefix(name, "attempt ") && i > 0 && all[i-1].who == name {
			name += ":"
		}
		return strings.TrimSpace(p.Moment(e.at) + " " + name + " " + e.text(p.Now, p.Zone))
	}
	return "nothing yet"
}
