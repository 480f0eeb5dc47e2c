package detail

import (
	"strings"

	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

const (
	sideName = 13 // cells of the name of what the sides say
	sideLeft = 24 // the least a side needs to be read
)

// Conflict shows the sides of a conflict, of which one is marked, what it costs,
// what to do, and how it came so.
func Conflict(f *draw.Frame, b *feed.Brief, marked, w int) []string {
	p := newPage(f, b, w)
	o := &p.t.Record.Operation
	head := safe.Say(" ! %s   %s", p.t.Happened(), p.t.Title()).String()
	when := "found " + p.Moment(o.UpdatedAt)
	p.lines = append(p.lines, p.Bad.Render(draw.Left(head, w-draw.Width(when)-1))+p.Faint.Render(when), p.Faint.Render(draw.Rule(w)))
	if found := p.t.Sides(); len(found) >= 2 {
		p.besideEachOther(found, marked%len(found))
	} else {
		p.tell("RECEIPT", p.Text, "%s", ticket.List(o.Receipts))
		p.say("NOTE", p.Bad, safe.Of(o.ConflictNote).Or(safe.Say("what is recorded and what was found disagree")))
	}
	p.lines = append(p.lines, p.Faint.Render(draw.Rule(w)))
	p.tell("LOSS", p.Text, "%s", p.t.Loss())
	p.say("DO", p.Strong, p.t.PutRight())
	for i, e := range ticket.Unnamed(p.t.Timeline()) {
		name, by, paint := "", e.Who, p.Text
		if i == 0 {
			name = "WHY"
		}
		if e.Grave {
			paint = p.Bad
		}
		if !by.Empty() {
			by = safe.Say("%s ", by)
		}
		p.tell(name, paint, "%s %s%s", p.Moment(e.At), by, p.t.Says(e))
	}
	return p.lines
}

// besideEachOther lays the sides out in columns, as many as fit, the rest below.
// What differs is what a person must see, so nothing in a column is cut off.
func (p *page) besideEachOther(found []ticket.Side, chosen int) {
	many := max(min((p.w-sideName)/sideLeft, len(found)), 1)
	if many == 1 {
		many = min(2, len(found)) // narrow, but to be compared
	}
	col := max((p.w-sideName)/many, 8)
	for from := 0; from < len(found); from += many {
		some := found[from:min(from+many, len(found))]
		heads := ""
		for i, s := range some {
			head := s.Head.String()
			if from+i == chosen {
				head = "▌" + head
			}
			heads += draw.Left(head, col)
		}
		p.lines = append(p.lines, p.Strong.Render(draw.Spaces(sideName)+heads))
		names := ticket.Names(some)
		last := names[len(names)-1] // a reason, which needs none
		for _, k := range names {
			cells := make([][]string, len(some))
			high := 0
			for i, s := range some {
				if fact := s.Fact(k); !fact.Empty() || k != last {
					cells[i] = draw.Wrap(fact.Or(safe.Say("–")).String(), col-1)
				}
				high = max(high, len(cells[i]))
			}
			for n := range high {
				name, line := "", ""
				if n == 0 {
					name = strings.ReplaceAll(k.String(), "_", " ")
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
