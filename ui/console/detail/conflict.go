package detail

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"indoubt/ledger"
)

const (
	sideName = 13 // cells of the name of what the sides say
	sideLeft = 24 // the least a side needs to be read
)

// Sides is how many sides a conflict sets against each other; fewer than two where
// there is nothing to compare.
func Sides(b *feed.Brief) int { return len(sidesOf(b, func(time.Time) string { return "" })) }

// Conflict shows the sides of a conflict, of which one is marked, what it costs,
// what to do, and how it came so.
func Conflict(f *draw.Frame, b *feed.Brief, marked, w int) []string {
	p := &page{Frame: f, Brief: b, w: w}
	o := &p.Rec.Operation
	head := " ! " + happened(o) + "   " + o.Title
	when := "found " + p.Moment(o.UpdatedAt)
	p.lines = append(p.lines, p.Bad.Render(draw.Left(head, w-draw.Width(when)-1))+p.Faint.Render(when), p.Faint.Render(draw.Rule(w)))
	found := sidesOf(p.Brief, p.Moment)
	if len(found) >= 2 {
		p.besideEachOther(found, marked%len(found))
	} else {
		if len(o.Receipts) > 0 {
			p.say("RECEIPT", p.Text, strings.Join(o.Receipts, ", "))
		}
		p.say("NOTE", p.Bad, cmp.Or(o.ConflictNote, "what is recorded and what was found disagree"))
	}
	p.lines = append(p.lines, p.Faint.Render(draw.Rule(w)))
	p.whatToDo()
	for i, e := range unnamed(timeline(p.Brief)) {
		k := ""
		if i == 0 {
			k = "WHY"
		}
		text := p.Moment(e.at) + " " + strings.TrimSpace(e.who+" "+e.text(p.Now, p.Zone))
		paint := p.Text
		if e.grave {
			paint = p.Bad
		}
		p.say(k, paint, text)
	}
	return p.lines
}

// happened is the conflict's headline, with how often where that is more than twice.
func happened(o *ledger.Operation) string {
	if o.Conflict == ledger.Duplicate && o.Effects > 2 {
		return fmt.Sprintf("HAPPENED %d TIMES", o.Effects)
	}
	return ticket.Conflict(o.Conflict)
}

// besideEachOther lays the sides out in columns, as many as fit, the rest below.
// What differs is what a person must see, so nothing in a column is cut off.
func (p *page) besideEachOther(found []side, chosen int) {
	many := max(min((p.w-sideName)/sideLeft, len(found)), 1)
	if many == 1 {
		many = min(2, len(found)) // narrow, but to be compared
	}
	col := max((p.w-sideName)/many, 8)
	for from := 0; from < len(found); from += many {
		some := found[from:min(from+many, len(found))]
		heads := ""
		for i, s := range some {
			head := s.head
			if from+i == chosen {
				head = "▌" + head
			}
			heads += draw.Left(head, col)
		}
		p.lines = append(p.lines, p.Strong.Render(draw.Spaces(sideName)+heads))
		for _, k := range names(some) {
			cells := make([][]string, len(some))
			high := 0
			for i, s := range some {
				if s.facts[k] != "" || k != "because" {
					cells[i] = draw.Wrap(cmp.Or(s.facts[k], "–"), col-1)
				}
				high = max(high, len(cells[i]))
			}
			for n := range high {
				name, line := "", ""
				if n == 0 {
					name = strings.ReplaceAll(k, "_", " ")
				}
				for i := range some {
					text := ""
					if n < len(cells[i]) {
						text = cells[i][n]
					}
					line += draw.Left(text, col)
				}
				p.lines = append(p.lines, p.Faint.Render(draw.Left(" "+name, sideName-1)+" ")+line)
			}
		}
	}
}

// whatToDo says what it costs and what to do, before why it came so.
func (p *page) whatToDo() {
	o, a := &p.Rec.Operation, p.Facts.Advice
	switch o.Conflict {
	case ledger.Duplicate:
		p.say("LOSS", p.Text, lossWords(o, a.Duplicate)+"; indoubt does not take it back")
		p.say("DO", p.Strong, "cancel "+surplus(o)+" outside, then D with its reference")
	case ledger.PossibleDuplicate:
		p.say("LOSS", p.Text, ticket.FullCost(a.Duplicate)+" if both landed; indoubt does not take it back")
		p.say("DO", p.Strong, "look outside for the other one. If it is there, take one back. Then D with its reference")
	case ledger.Contradiction:
		if o.State != ledger.Committed {
			p.say("LOSS", p.Text, ticket.FullCost(a.Duplicate)+" if it is sent again now and had landed")
		} else {
			p.say("LOSS", p.Text, ticket.FullCost(a.Miss)+" if it did not land and nobody sends it")
		}
		p.say("DO", p.Strong, "look at which side is right; U puts it in doubt again, D says it was dealt with outside")
	default:
		p.say("DO", p.Strong, "look at what was found; U puts it in doubt again, D says it was dealt with outside")
	}
}

// surplus is what is too many of an effect.
func surplus(o *ledger.Operation) string {
	if o.Effects > 2 {
		return fmt.Sprintf("%d of the %d", o.Effects-1, o.Effects)
	}
	return "one of them"
}

func lossWords(o *ledger.Operation, each ledger.Cost) string {
	if o.Effects > 2 {
		return ticket.FullCost(each) + fmt.Sprintf(" for each of %d too many, until it is taken back", o.Effects-1)
	}
	return ticket.FullCost(each) + " until one is taken back"
}

// indented lays JSON out; what is not JSON stays as it is.
func indented(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return raw
	}
	return b.Bytes()
}
