// Package detail tells all that is known of one operation as lines of text: in
// full, in the few lines under a list, and the sides of a conflict.
package detail

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// label is the width of the left column of a detail.
const label = 9

// page collects the lines about one operation.
type page struct {
	*draw.Frame
	*feed.Brief
	w     int
	lines []string
}

func (p *page) gap() { p.lines = append(p.lines, "") }

// say adds a labelled text, wrapped under itself.
func (p *page) say(name string, paint draw.Paint, text string) {
	room := p.w - label - 1
	for i, line := range draw.Wrap(text, max(room, 8)) {
		head := draw.Spaces(label)
		if i == 0 {
			head = " " + draw.Left(name, label-1)
		}
		p.lines = append(p.lines, p.Faint.Render(head)+paint.Render(line))
	}
}

// pair adds one line with a second text at the right where it fits.
func (p *page) pair(name, text, second string) {
	if room := p.w - label - 2 - draw.Width(text); second != "" && draw.Width(second) < room {
		p.lines = append(p.lines, p.Faint.Render(" "+draw.Left(name, label-1))+text+draw.Spaces(room-draw.Width(second))+p.Faint.Render(second))
		return
	}
	p.say(name, p.Text, text)
	if second != "" {
		p.say("", p.Faint, second)
	}
}

// Lines is all that is known about one operation. Where there are only h lines,
// and h is not 0, what was seen is shortened so that the advice is among them.
func Lines(f *draw.Frame, b *feed.Brief, w, h int) []string {
	p := &page{Frame: f, Brief: b, w: w}
	o := &p.Rec.Operation
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
	p.gap()
	p.clocks()
	p.policy()
	p.gap()
	p.say("ID", p.Faint, o.ID+"  version "+fmt.Sprint(o.Version))
	p.say("KEY", p.Faint, cmp.Or(o.Key, "none"))
	token := cmp.Or(o.Token, "none")
	if o.Token != "" && !o.TokenSent {
		token += ", not known to have been sent: a check cannot find it"
	}
	p.say("TOKEN", p.Faint, token)
	if len(o.Receipts) > 0 {
		p.say("RECEIPT", p.Text, strings.Join(o.Receipts, ", "))
	}
	for i, line := range inputLines(p.Raw) {
		name := ""
		if i == 0 {
			name = "INPUT"
		}
		p.say(name, p.Faint, line)
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
	rest := append([]string{p.Faint.Render(fmt.Sprintf("%s… %d lines of what was seen, ↵ shows them", draw.Spaces(label), n))}, p.lines[at+n:]...)
	p.lines = append(p.lines[:at], rest...)
}

func (p *page) meant() {
	o := &p.Rec.Operation
	if h := p.Rec.HeldBy(); h != nil {
		p.say("HOLD", p.Bad, fmt.Sprintf("%s holds %s since %s: %s", ticket.Who(h.Actor.Name), feed.ScopeWords(h.Scope), p.Moment(h.CreatedAt), h.Reason))
	}
	if o.Conflict != ledger.NoConflict {
		p.say("!", p.Bad, ticket.Conflict(o.Conflict)+": "+o.ConflictNote)
	}
	from := cmp.Or(o.Source.Pipeline, "unknown pipeline")
	if o.Source.Run != "" {
		from += " " + o.Source.Run
	}
	if o.Source.Host != "" {
		from += " on " + o.Source.Host
	}
	p.pair("MEANT", o.Title, from)
	if o.Target != "" {
		p.say("", p.Text, "on "+o.Target)
	}
	if o.Session != "" {
		p.say("", p.Text, "session "+o.Session)
	}
	for i, r := range p.Rec.Related {
		if i == 3 {
			p.say("", p.Warn, fmt.Sprintf("and %d more", len(p.Rec.Related)-3))
			break
		}
		words := "twin: "
		if r.Overtook {
			words = "overtaken by: "
		}
		p.say("", p.Warn, fmt.Sprintf("%s%s, %s, %s %s", words, cmp.Or(r.Title, r.ID), ticket.State(r.State), cmp.Or(r.Source.Pipeline, "unknown"), p.Moment(r.CreatedAt)))
	}
}

func (p *page) seen() {
	entries := unnamed(timeline(p.Brief))
	for i, e := range entries {
		name := ""
		if i == 0 {
			name = "SEEN"
		}
		paint := p.Text
		if e.grave {
			paint = p.Bad
		}
		at := p.Moment(e.at)
		room := p.w - label - 1 - 10 - 11
		for j, line := range draw.Wrap(e.text(p.Now, p.Zone), max(room, 16)) {
			head, stamp, by := draw.Spaces(label), draw.Spaces(10), draw.Spaces(11)
			if j == 0 {
				head = " " + draw.Left(name, label-1)
				stamp, by = draw.Left(at, 10), draw.Left(e.who, 10)+" "
			}
			p.lines = append(p.lines, p.Faint.Render(head+stamp)+p.Accent.Render(by)+paint.Render(line))
		}
	}
	if len(entries) == 0 {
		p.say("SEEN", p.Faint, "nothing yet")
	}
}

// priceWords is the arithmetic of both mistakes, in w cells: where the amounts
// do not fit in full they are shortened, never cut off.
func (p *page) priceWords(w int) string {
	a := p.Facts.Advice
	odds := a.Odds.P
	if p.Rec.Operation.StateAt(p.Now) == ledger.Failed {
		if !ticket.Proven(p.Rec) && p.Facts.Basis != ledger.BasisKeySafe {
			return fmt.Sprintf("leave %s: it is never done  retry %s if it landed after all", ticket.Full(a.Miss.Value), ticket.Full(a.Duplicate.Value))
		}
		return fmt.Sprintf("leave %s: it is never done    sending again costs nothing twice", ticket.Full(a.Miss.Value))
	}
	words := func(gap string, given func(ledger.Cost) string, amount func(float64) string) string {
		return fmt.Sprintf("retry %.2f × %s = %s%sleave %.2f × %s = %s%slooking %s",
			odds, given(a.Duplicate), amount(a.RetryCost), gap, 1-odds, given(a.Miss), amount(a.LeaveCost), gap, amount(a.LookCost))
	}
	whole := func(v float64) string { return ticket.Full(Round(v)) }
	for _, text := range []string{words("    ", ticket.FullValue, whole), words("  ", ticket.FullValue, whole), words("  ", ticket.Cost, ticket.Money)} {
		if draw.Width(text) <= w {
			return text
		}
	}
	return fmt.Sprintf("retry %s  leave %s  looking %s", ticket.Money(a.RetryCost), ticket.Money(a.LeaveCost), ticket.Money(a.LookCost))
}

// Round leaves out decimals that say nothing beside so much money.
func Round(v float64) float64 {
	if v > 1000 {
		return math.Round(v)
	}
	return math.Round(v*100) / 100
}

func (p *page) known() {
	text, tone := p.Ticket(p.Now, p.Zone).Known()
	p.say("KNOWN", p.Tone(tone), text)
	switch p.Rec.Operation.StateAt(p.Now) {
	case ledger.Uncertain, ledger.Failed:
		p.say("PRICE", p.Text, p.priceWords(p.w-label-1))
	}
}

// Advice is the advised act and why.
func Advice(f *draw.Frame, b *feed.Brief) (verb, why string) {
	a := b.Facts.Advice
	if b.Rec.Operation.Conflict == ledger.Duplicate {
		n := max(b.Rec.Operation.Effects, 2)
		if n == 2 {
			return "LOOK", "two effects exist. Take one back outside, then D with its reference"
		}
		return "LOOK", fmt.Sprintf("%d effects exist. Take %d back outside, then D with a reference", n, n-1)
	}
	switch b.Rec.Operation.StateAt(f.Now) {
	case ledger.Committed, ledger.Abandoned:
		if b.Rec.Operation.Conflict == ledger.NoConflict {
			return "DONE", "nothing to do. U undoes it"
		}
	case ledger.Pending:
		return "WAIT", "its attempt ends by " + f.Moment(b.Rec.Operation.DeadlineAt)
	}
	return strings.ToUpper(cmp.Or(a.Verb, "look")), a.Reason
}

func (p *page) advice() {
	verb, why := Advice(p.Frame, p.Brief)
	p.say("→ "+verb, p.Strong, cmp.Or(why, "–"))
	o := &p.Rec.Operation
	switch verb {
	case "LOOK":
		if o.Conflict != ledger.NoConflict {
			break
		}
		p.say("", p.Text, p.lookWords())
		p.say("", p.Text, "one    C, paste its receipt")
		p.say("", p.Text, "none   X asks how you know; a look is no proof")
		p.say("", p.Text, "two    C, paste both: it becomes HAPPENED TWICE")
	case "RETRY":
		p.say("", p.Text, "R shows exactly what would be sent, and asks")
	case "CONFIRM":
		p.say("", p.Text, "C records that it landed; nothing is sent")
	case "ABANDON":
		p.say("", p.Text, "A records that it stays undone; nothing is sent")
	case "LEAVE":
		p.say("", p.Text, "sending costs more than leaving it. A ends it, P parks it")
	case "WAIT":
		switch {
		case o.StateAt(p.Now) == ledger.Pending:
		case p.Rec.OpenGrant() != nil:
			p.say("", p.Text, "it may send once when it asks next; whatever is written here before takes that back")
		default:
			p.say("", p.Text, "checks go on by themselves; deciding now would be a guess")
		}
	case "RAISE":
		p.say("", p.Text, "change the policy or ask somebody who knows; N leaves a note")
	}
}

// lookWords says where to look it up, what to search for and from which time on.
func (p *page) lookWords() string {
	w, o := p.Facts.Advice.Where, &p.Rec.Operation
	text := "Search " + cmp.Or(o.Title, o.Kind)
	if n := len(w.Search); n > 0 {
		text = "Search " + w.Search[0]
		if n > 1 {
			text += ", or " + w.Search[n-1]
		}
	}
	from := ticket.FirstTime(w.From, o.StartedAt)
	switch {
	case from.IsZero():
	case w.To.IsZero():
		text += ", since " + p.Moment(from)
	default:
		text += ", from " + p.Moment(from) + " to " + p.Moment(w.To)
	}
	if link := cmp.Or(w.Link, p.Facts.Link); link != "" {
		text = "o opens " + link + ". " + text
	}
	return text
}

func (p *page) clocks() {
	f, o := p.Facts, &p.Rec.Operation
	switch state := o.StateAt(p.Now); {
	case state == ledger.Committed || state == ledger.Abandoned:
		return // no clock runs
	case state == ledger.Pending:
		p.Ticks = true
		p.say("CLOCKS", p.Text, "its attempt ends by "+p.Moment(o.DeadlineAt)+", in "+ticket.Span(o.DeadlineAt.Sub(p.Now)))
		return
	}
	var parts []string
	in := func(at time.Time) string {
		d := at.Sub(p.Now)
		if d < 10*time.Minute {
			p.Ticks = true
		}
		return ticket.Span(d)
	}
	state := o.StateAt(p.Now)
	switch {
	case !f.SafeUntil.Before(ledger.Never):
		parts = append(parts, "key: repeatable, a second send cannot act twice")
	case f.SafeUntil.After(p.Now):
		parts = append(parts, fmt.Sprintf("key remembered until %s (%s): a second send cannot act twice", p.Moment(f.SafeUntil), in(f.SafeUntil)))
	case f.Remembers > 0:
		parts = append(parts, "key: no longer remembered")
	default:
		parts = append(parts, "key: never remembered")
	}
	if state == ledger.Uncertain {
		switch {
		case !f.HasRead:
			parts = append(parts, "proof: impossible, no check")
		case f.ProofPossible && f.ProofAt.After(p.Now):
			parts = append(parts, "proof in "+in(f.ProofAt))
		case f.ProofPossible:
			parts = append(parts, "proof: from the next check on")
		default:
			parts = append(parts, "proof: impossible, the policy states no times")
		}
		if d := p.Rec.Pricing.DecideAt; d.After(p.Now) && d.Before(ledger.Never) {
			parts = append(parts, "needs you in "+in(d))
		} else if d.Before(ledger.Never) && !o.DoubtedAt.IsZero() {
			since := ticket.FirstTime(d, o.DoubtedAt)
			parts = append(parts, "needs you for "+ticket.Age(p.Now.Sub(since)))
		}
		if r := p.Rec.Pricing.ReadAt; f.HasRead && r.Before(ledger.Never) && !r.IsZero() {
			if r.After(p.Now) {
				parts = append(parts, "next check in "+in(r))
			} else {
				parts = append(parts, "next check now")
			}
		}
	}
	if g := p.Rec.OpenGrant(); g != nil {
		parts = append(parts, fmt.Sprintf("one send allowed, waiting for %s, %s left", cmp.Or(o.Source.Pipeline, "its pipeline"), in(g.ExpiresAt)))
	}
	p.say("CLOCKS", p.Text, strings.Join(parts, " · "))
}

func (p *page) policy() {
	f := p.Facts
	where := "no entry, defaults apply"
	if f.Pattern != "" {
		where = fmt.Sprintf("%s, %s:%d", f.Pattern, filepath.Base(f.File), f.Line)
	}
	machine := "nothing"
	var may []string
	if f.HasRead {
		may = append(may, "checks")
		if f.AutoConfirm {
			may = append(may, "confirms")
		}
		if f.AutoDeny {
			may = append(may, "records what did not land")
		}
	}
	switch f.AutoRetry {
	case "absent":
		may = append(may, "sends again when proven")
	case "key_safe":
		may = append(may, "sends again while that cannot act twice")
	}
	if len(may) > 0 {
		machine = strings.Join(may, ", ")
	}
	sends := "sent by its pipeline"
	if f.Via != "" && f.Via != "pipeline" {
		sends = "sent by " + f.Via
	}
	if f.Recognises != "" {
		p.say("CHECK", p.Text, "recognises it by "+f.Recognises)
	}
	p.say("POLICY", p.Text, fmt.Sprintf("%s · retry max %d · %s · machine: %s", where, f.RetryMax, sends, machine))
}

// inputLines is the recorded input as text, shortened.
func inputLines(rec ledger.Record) []string {
	if len(rec.Operation.Input) == 0 {
		return nil
	}
	lines := strings.Split(safe.Lines(string(indented(rec.Operation.Input))), "\n")
	if len(lines) > 60 {
		lines = append(lines[:60], fmt.Sprintf("… %d more lines", len(lines)-60))
	}
	return lines
}
