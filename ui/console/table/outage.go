package table

import (
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// outage is the line of an outage, exactly w cells: what needs a person in it.
func outage(f *draw.Frame, s *feed.Row, w int, all []laid, chosen bool) string {
	o, paint, bar := s.Outage, &f.Paints, " "
	if chosen {
		paint, bar = &f.Cursor, "▌"
	}
	since := f.Now.Sub(o.FirstAt)
	if since < time.Minute {
		f.Ticks = true
	}
	if !s.Gone.Empty() {
		return paint.Faint.Render(left(bar+"+ "+draw.Right(ticket.Age(since), 4)+" ", safe.Say("%s %s", o.Where(), o.Span()), s.Gone, w))
	}
	needs := o.Needs()
	out := paint.Text.Render(bar) + paint.Strong.Render("+") + paint.Text.Render(" "+draw.Right(ticket.Age(since), 4)+" ")
	for _, c := range all {
		p, text := paint.Text, safe.Text{}
		switch c.name {
		case "kind":
			p, text = paint.Faint, safe.Of(first(o.Kinds))
		case what:
			where, failed := o.Where(), o.Failed()
			if needs.N > 0 {
				where, failed = safe.Say("%s × %s", ledger.Count(needs.N), where), safe.Say("%s × %s", ledger.Count(needs.N), failed)
			}
			with := func(what safe.Text) string { return safe.Say("%s %s", what, o.Span()).String() }
			p, text = paint.Strong, safe.Of(ticket.Fit(c.room-1, with(failed), failed.String(), with(where), where.String()))
		case "pipeline":
			p, text = paint.Faint, safe.Of(first(o.Pipelines))
		case "error":
			p, text = paint.Faint, o.Errors()
		case "twice":
			text = amount(needs.Twice, needs.TwiceWords, needs.Unpriced)
		case "never":
			text = amount(needs.Miss, needs.MissWords, needs.Unpriced)
		case "landed":
			text = safe.Of(ticket.Fit(c.room-1, o.Landed()...))
			if o.Sum().Doubled > 0 {
				p = paint.Bad
			}
		case "clock":
			text = o.Phase()
		case "do":
			if p, text = paint.Strong, safe.Say("open"); needs.N == 0 {
				p, text = paint.Text, safe.Say("wait")
			}
		}
		out += p.Render(c.cell(text.String()))
	}
	return out
}

// first is a name, with a sign that there are more.
func first(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return names[0] + ", …"
}

// amount is a sum as a cell: money, with a sign where it leaves some out, else that the costs
// are words. How many stands in WHAT, and a cell has no room for it.
func amount(money float64, words, unpriced int) safe.Text {
	switch {
	case money == 0 && unpriced > 0:
		return safe.Say("?")
	case words+unpriced > 0 && money > 0:
		return safe.Say("%s+", ticket.Cost(ledger.Cost{Value: money}))
	case money == 0 && words > 0:
		return safe.Say("words")
	case money == 0:
		return safe.Say("–")
	}
	return safe.Of(ticket.Cost(ledger.Cost{Value: money}))
}
