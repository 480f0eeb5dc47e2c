// Package detail tells all that is known of one operation as lines of text: in
// full, and in the few lines under a list.
package detail

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// label is the width of the left column of a detail.
const label = 9

type page struct {
	*draw.Frame
	t     ticket.Ticket
	w     int
	lines []string
}

func (p *page) gap() { p.lines = append(p.lines, "") }

// say adds a labelled text, wrapped under itself.
func (p *page) say(name string, paint draw.Paint, text safe.Text) {
	room := p.w - label - 1
	for i, line := range draw.Wrap(text.String(), max(room, 8)) {
		head := draw.Spaces(label)
		if i == 0 {
			head = " " + draw.Left(name, label-1)
			if draw.Width(name) >= label-1 { // room left a cell for it
				head += " "
			}
		}
		p.lines = append(p.lines, p.Faint.Render(head)+paint.Render(line))
	}
}

// tell is say, and leaves out what is empty.
func (p *page) tell(name string, paint draw.Paint, format safe.Format, args ...any) {
	if text := safe.Say(format, args...); !text.Empty() {
		p.say(name, paint, text)
	}
}

// Pane is what decides about one operation, beside or under the list. Where it has more
// than h lines, and h is not 0, what was seen is shortened so that the advice is among
// them.
func Pane(f *draw.Frame, t ticket.Ticket, w, h int) []string { return decides(f, t, w, h).lines }

func decides(f *draw.Frame, t ticket.Ticket, w, h int) *page {
	p := &page{Frame: f, t: t, w: w}
	p.meant()
	p.gap()
	from := len(p.lines)
	p.seen()
	to := len(p.lines)
	p.gap()
	p.known()
	p.gap()
	p.advice()
	if h > 0 {
		p.shorten(from, to, len(p.lines)-(h-1))
	}
	return p
}

// Lines is all that is known about one operation: what decides, then what it is made of.
func Lines(f *draw.Frame, t ticket.Ticket, w, h int) []string {
	p := decides(f, t, w, h)
	o := &p.t.Record.Operation
	p.gap()
	clocks, ticks := p.t.Clocks()
	p.Ticks = p.Ticks || ticks
	p.tell("CLOCKS", p.Text, "%s", safe.Join(clocks, " · "))
	if p.t.Facts.Recognises != "" {
		p.tell("CHECK", p.Text, "recognises it by %s", p.t.Facts.Recognises)
	}
	p.say("POLICY", p.Text, p.t.Policy())
	p.gap()
	p.tell("ID", p.Faint, "%s@%d", o.ID, o.Version)
	p.tell("KEY", p.Faint, "%s", cmp.Or(o.KeyToSend(), "none"))
	token := safe.Of(cmp.Or(o.Token, "none"))
	if o.Token != "" && !o.TokenSent {
		token = safe.Say("%s, not known to have been sent: a check cannot find it", token)
	}
	p.say("TOKEN", p.Faint, token)
	if known, _ := p.t.Known(); !strings.Contains(known.String(), ticket.List(o.Receipts).String()) {
		p.tell("RECEIPT", p.Text, "%s", ticket.List(o.Receipts))
	}
	p.tell("LINK", p.Faint, "%s", p.t.Facts.Link)
	if o.Command != nil {
		p.tell("COMMAND", p.Faint, "%s", strings.Join(o.Command.Argv, " "))
	}
	for i, line := range inputLines(o.Input) {
		name := ""
		if i == 0 {
			name = "INPUT"
		}
		p.say(name, p.Faint, line)
	}
	if o.Redacted {
		p.say("", p.Warn, safe.Say("parts of it are kept as digests only: it cannot be sent from here"))
	}
	return p.lines
}

// shorten takes n lines out of the middle of those from one to another: how it
// began and what came last stay.
func (p *page) shorten(from, to, n int) {
	n = min(n+1, to-from-3) // one line says so
	if n < 2 {
		return
	}
	at := from + 1
	says := ticket.Fit(p.w-label, fmt.Sprintf("… %d lines of what was seen, ↵ shows them", n), fmt.Sprintf("… %d more, ↵ shows them", n))
	rest := append([]string{p.Faint.Render(draw.Spaces(label) + says)}, p.lines[at+n:]...)
	p.lines = append(p.lines[:at], rest...)
}

func (p *page) meant() {
	o := &p.t.Record.Operation
	if h := p.t.Record.HeldBy(); h != nil {
		p.tell("HOLD", p.Bad, "%s holds %s since %s: %s", ticket.Who(h.Actor.Name), ticket.Scope(h.Scope), p.Moment(h.CreatedAt), h.Reason)
	}
	if o.Conflict != ledger.NoConflict {
		p.say("!", p.Bad, p.t.Happened())
	}
	if !o.RedactedAt.IsZero() {
		p.tell("GONE", p.Warn, "redacted by %s at %s: what it said is not kept", ticket.Who(o.RedactedBy), p.Moment(o.RedactedAt))
	}
	if o.Moved != "" {
		p.tell("MOVED", p.Warn, "its history is in %s", o.Moved)
	}
	p.tell("MEANT", p.Text, "%s · %s", p.t.Title(), ticket.Source(o.Source))
	if target := p.t.Target(); !target.Empty() {
		p.tell("", p.Text, "on %s", target)
	}
	if o.Session != "" {
		p.tell("", p.Text, "session %s", o.Session)
	}
	for i, r := range p.t.Record.Related {
		if i == 3 {
			p.tell("", p.Warn, "and %d more", len(p.t.Record.Related)-3)
			break
		}
		paint, words := p.Text, "same target"
		if r.Overtook {
			paint, words = p.Warn, "overtaken by"
		}
		p.tell("", paint, "%s: %s", words, p.t.Other(r))
	}
}

func (p *page) seen() {
	entries := ticket.Unnamed(p.t.Timeline())
	for i, e := range entries {
		name := ""
		if i == 0 {
			name = "SEEN"
		}
		paint := p.Text
		if e.Grave {
			paint = p.Bad
		}
		at := p.Moment(e.At)
		room := p.w - label - 1 - 10 - 11
		for j, line := range draw.Wrap(p.t.Says(e).String(), max(room, 16)) {
			head, stamp, by := draw.Spaces(label), draw.Spaces(10), draw.Spaces(11)
			if j == 0 {
				head = " " + draw.Left(name, label-1)
				stamp, by = draw.Left(at, 10), draw.Left(e.Who.String(), 10)+" "
			}
			p.lines = append(p.lines, p.Faint.Render(head+stamp)+p.Accent.Render(by)+paint.Render(line))
		}
	}
	if len(entries) == 0 {
		p.tell("SEEN", p.Faint, "nothing yet")
	}
}

func (p *page) known() {
	text, tone := p.t.Known()
	p.say("KNOWN", p.Tone(tone), text)
	p.tell("LOSS", p.Text, "%s", p.t.Loss())
	p.tell("PRICE", p.Text, "%s", p.t.Price(p.w-label-1))
}

func (p *page) advice() {
	verb, why := p.t.Advice()
	name, why := "→ "+strings.ToUpper(verb), why.Or(safe.Say("–"))
	if draw.Width(name) >= label { // what is advised is never cut
		name, why = "→", safe.Say("%s: %s", strings.ToUpper(verb), why)
	}
	p.say(name, p.Strong, why)
	for _, text := range p.t.HowTo() {
		p.say("", p.Text, text)
	}
}

func inputLines(input json.RawMessage) []safe.Text {
	lines := ticket.Input(input)
	if len(lines) > 60 {
		lines = append(lines[:60], safe.Say("… %d more lines", len(lines)-60))
	}
	return lines
}

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
