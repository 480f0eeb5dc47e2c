package detail

import (
	"cmp"
	"strings"

	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
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
func Preview(f *draw.Frame, t ticket.Ticket, w, h int) []string {
	p := &page{Frame: f, t: t, w: w}
	o := &p.t.Record.Operation
	head := []safe.Text{p.t.Kind()}
	if c := ticket.ErrorClass(o.ErrorClass); c != "" {
		head = append(head, safe.Of(c))
	}
	if !o.StartedAt.IsZero() {
		head = append(head, safe.Of(p.Moment(o.StartedAt)))
	}
	head = append(head, safe.Of(cmp.Or(o.Source.Pipeline, "unknown pipeline")))
	line := " " + safe.Join(head, " · ").String()
	out := []string{p.Strong.Render(draw.Cut(" "+p.t.Title().String(), max(w-draw.Width(line)-1, w/2))) + p.Faint.Render(" ·"+line)}

	room := max(w-label-1, 8)
	seen := part{name: "SEEN", paint: p.Text, text: draw.Wrap(p.t.LastSeen().String(), room)}
	text, tone := p.t.Known()
	known := part{name: "KNOWN", paint: p.Tone(tone), text: draw.Wrap(text.String(), room)}
	price := part{name: "PRICE", paint: p.Text}
	if text := p.t.Price(room); !text.Empty() {
		price.text = []string{text.String()}
	}
	verb, why := p.t.Advice()
	advice := part{paint: p.Strong, text: draw.Wrap(safe.Say("→ %s: %s", strings.ToUpper(verb), why).String(), max(w-4, 8))}
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
