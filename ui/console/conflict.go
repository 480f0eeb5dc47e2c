package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
)

const (
	sideName = 13 // cells of the name of what the sides say
	sideLeft = 24 // the least a side needs to be read
)

// conflictLines shows the sides of a conflict, what it costs, what to do, and
// how it came so.
func (m *Root) conflictLines(b *brief, w int) []string {
	o := &b.rec.Operation
	p := &page{w: w, th: m.th}
	at := func(t time.Time) string { return ticket.Moment(t, m.at, m.loc) }
	head := " ! " + happened(o) + "   " + o.Title
	when := "found " + at(o.UpdatedAt)
	p.lines = append(p.lines, m.th.bad.s(left(head, w-width(when)-1))+m.th.faint.s(when), m.th.faint.s(rule(w)))
	found := sidesOf(b, at)
	if len(found) >= 2 {
		m.besideEachOther(p, found)
	} else {
		if len(o.Receipts) > 0 {
			p.say("RECEIPT", m.th.text, strings.Join(o.Receipts, ", "))
		}
		p.say("NOTE", m.th.bad, firstOf(o.ConflictNote, "what is recorded and what was found disagree"))
	}
	p.lines = append(p.lines, m.th.faint.s(rule(w)))
	m.conflictDo(p, b)
	for i, e := range unnamed(timeline(b)) {
		k := ""
		if i == 0 {
			k = "WHY"
		}
		text := at(e.at) + " " + strings.TrimSpace(e.who+" "+e.text(m.at, m.loc))
		paint := m.th.text
		if e.grave {
			paint = m.th.bad
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
func (m *Root) besideEachOther(p *page, found []side) {
	many := max(min((p.w-sideName)/sideLeft, len(found)), 1)
	if many == 1 {
		many = min(2, len(found)) // narrow, but to be compared
	}
	col := max((p.w-sideName)/many, 8)
	chosen := m.side % len(found)
	for from := 0; from < len(found); from += many {
		some := found[from:min(from+many, len(found))]
		heads := ""
		for i, s := range some {
			head := s.head
			if from+i == chosen {
				head = "▌" + head
			}
			heads += left(head, col)
		}
		p.lines = append(p.lines, m.th.strong.s(spaces(sideName)+heads))
		for _, k := range names(some) {
			cells := make([][]string, len(some))
			high := 0
			for i, s := range some {
				if s.facts[k] != "" || k != "because" {
					cells[i] = wrap(firstOf(s.facts[k], "–"), col-1)
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
					line += left(text, col)
				}
				p.lines = append(p.lines, m.th.faint.s(left(" "+name, sideName-1)+" ")+line)
			}
		}
	}
}

// conflictDo says what it costs and what to do, before why it came so.
func (m *Root) conflictDo(p *page, b *brief) {
	o, a := &b.rec.Operation, b.facts.Advice
	switch o.Conflict {
	case ledger.Duplicate:
		p.say("LOSS", m.th.text, lossWords(o, a.Duplicate)+"; indoubt does not take it back")
		p.say("DO", m.th.strong, "cancel "+surplus(o)+" outside, then D with its reference")
	case ledger.PossibleDuplicate:
		p.say("LOSS", m.th.text, ticket.FullCost(a.Duplicate)+" if both landed; indoubt does not take it back")
		p.say("DO", m.th.strong, "look outside for the other one. If it is there, take one back. Then D with its reference")
	case ledger.Contradiction:
		if o.State != ledger.Committed {
			p.say("LOSS", m.th.text, ticket.FullCost(a.Duplicate)+" if it is sent again now and had landed")
		} else {
			p.say("LOSS", m.th.text, ticket.FullCost(a.Miss)+" if it did not land and nobody sends it")
		}
		p.say("DO", m.th.strong, "look at which side is right; U puts it in doubt again, D says it was dealt with outside")
	default:
		p.say("DO", m.th.strong, "look at what was found; U puts it in doubt again, D says it was dealt with outside")
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
