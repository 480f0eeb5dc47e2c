package console

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// label is the width of the left column of a detail.
const label = 9

// page collects the lines of a detail.
type page struct {
	w     int
	th    *theme
	lines []string
}

func (p *page) gap() { p.lines = append(p.lines, "") }

// say adds a labelled text, wrapped under itself.
func (p *page) say(name string, paint paint, text string) {
	room := p.w - label - 1
	for i, line := range wrap(text, max(room, 8)) {
		head := spaces(label)
		if i == 0 {
			head = " " + left(name, label-1)
		}
		p.lines = append(p.lines, p.th.faint.s(head)+paint.s(line))
	}
}

// pair adds one line with a second text at the right where it fits.
func (p *page) pair(name, text, second string) {
	if room := p.w - label - 2 - width(text); second != "" && width(second) < room {
		p.lines = append(p.lines, p.th.faint.s(" "+left(name, label-1))+text+spaces(room-width(second))+p.th.faint.s(second))
		return
	}
	p.say(name, p.th.text, text)
	if second != "" {
		p.say("", p.th.faint, second)
	}
}

// detail is all that is known about one operation. Where there are only h lines,
// and h is not 0, what was seen is shortened so that the advice is among them.
func (m *Root) detail(b *brief, w, h int) []string {
	p := &page{w: w, th: m.th}
	o := &b.rec.Operation
	m.detailMeant(p, b)
	p.gap()
	from := len(p.lines)
	m.detailSeen(p, b)
	to := len(p.lines)
	p.gap()
	m.detailKnown(p, b)
	p.gap()
	m.detailAdvice(p, b)
	if h > 0 {
		m.shorten(p, from, to, len(p.lines)-(h-1))
	}
	p.gap()
	m.detailClocks(p, b)
	m.detailPolicy(p, b)
	p.gap()
	p.say("ID", m.th.faint, o.ID+"  version "+fmt.Sprint(o.Version))
	p.say("KEY", m.th.faint, firstOf(o.Key, "none"))
	token := firstOf(o.Token, "none")
	if o.Token != "" && !o.TokenSent {
		token += ", not known to have been sent: a check cannot find it"
	}
	p.say("TOKEN", m.th.faint, token)
	if len(o.Receipts) > 0 {
		p.say("RECEIPT", m.th.text, strings.Join(o.Receipts, ", "))
	}
	for i, line := range inputLines(b.raw) {
		name := ""
		if i == 0 {
			name = "INPUT"
		}
		p.say(name, m.th.faint, line)
	}
	return p.lines
}

// shorten takes n lines out of the middle of those from one to another: how it
// began and what came last stay.
func (m *Root) shorten(p *page, from, to, n int) {
	n = min(n+1, to-from-3) // one line says so
	if n < 2 {
		return
	}
	at := from + 1
	rest := append([]string{m.th.faint.s(fmt.Sprintf("%s… %d lines of what was seen, ↵ shows them", spaces(label), n))}, p.lines[at+n:]...)
	p.lines = append(p.lines[:at], rest...)
}

func (m *Root) detailMeant(p *page, b *brief) {
	o := &b.rec.Operation
	if h := b.rec.HeldBy(); h != nil {
		p.say("HOLD", m.th.bad, fmt.Sprintf("%s holds %s since %s: %s", ticket.Who(h.Actor.Name), holdWords(h.Scope), ticket.Moment(h.CreatedAt, m.at, m.loc), h.Reason))
	}
	if o.Conflict != ledger.NoConflict {
		p.say("!", m.th.bad, ticket.Conflict(o.Conflict)+": "+o.ConflictNote)
	}
	from := firstOf(o.Source.Pipeline, "unknown pipeline")
	if o.Source.Run != "" {
		from += " " + o.Source.Run
	}
	if o.Source.Host != "" {
		from += " on " + o.Source.Host
	}
	p.pair("MEANT", o.Title, from)
	if o.Target != "" {
		p.say("", m.th.text, "on "+o.Target)
	}
	if o.Session != "" {
		p.say("", m.th.text, "session "+o.Session)
	}
	for i, r := range b.rec.Related {
		if i == 3 {
			p.say("", m.th.warn, fmt.Sprintf("and %d more", len(b.rec.Related)-3))
			break
		}
		words := "twin: "
		if r.Overtook {
			words = "overtaken by: "
		}
		p.say("", m.th.warn, fmt.Sprintf("%s%s, %s, %s %s", words, firstOf(r.Title, r.ID), ticket.State(r.State), firstOf(r.Source.Pipeline, "unknown"), ticket.Moment(r.CreatedAt, m.at, m.loc)))
	}
}

func (m *Root) detailSeen(p *page, b *brief) {
	entries := unnamed(timeline(b))
	for i, e := range entries {
		name := ""
		if i == 0 {
			name = "SEEN"
		}
		paint := m.th.text
		if e.grave {
			paint = m.th.bad
		}
		at := ticket.Moment(e.at, m.at, m.loc)
		room := p.w - label - 1 - 10 - 11
		for j, line := range wrap(e.text(m.at, m.loc), max(room, 16)) {
			head, stamp, by := spaces(label), spaces(10), spaces(11)
			if j == 0 {
				head = " " + left(name, label-1)
				stamp, by = left(at, 10), left(e.who, 10)+" "
			}
			p.lines = append(p.lines, p.th.faint.s(head+stamp)+m.th.accent.s(by)+paint.s(line))
		}
	}
	if len(entries) == 0 {
		p.say("SEEN", m.th.faint, "nothing yet")
	}
}

// priceWords is the arithmetic of both mistakes, in w cells: where the amounts
// do not fit in full they are shortened, never cut off.
func (m *Root) priceWords(b *brief, w int) string {
	a := b.facts.Advice
	p := a.Odds.P
	if b.rec.Operation.StateAt(m.at) == ledger.Failed {
		if !ticket.Proven(b.rec) && b.facts.Basis != ledger.BasisKeySafe {
			return fmt.Sprintf("leave %s: it is never done  retry %s if it landed after all", ticket.Full(a.Miss.Value), ticket.Full(a.Duplicate.Value))
		}
		return fmt.Sprintf("leave %s: it is never done    sending again costs nothing twice", ticket.Full(a.Miss.Value))
	}
	words := func(gap string, given func(ledger.Cost) string, amount func(float64) string) string {
		return fmt.Sprintf("retry %.2f × %s = %s%sleave %.2f × %s = %s%slooking %s",
			p, given(a.Duplicate), amount(a.RetryCost), gap, 1-p, given(a.Miss), amount(a.LeaveCost), gap, amount(a.LookCost))
	}
	whole := func(v float64) string { return ticket.Full(round2(v)) }
	for _, text := range []string{words("    ", ticket.FullValue, whole), words("  ", ticket.FullValue, whole), words("  ", ticket.Cost, ticket.Money)} {
		if width(text) <= w {
			return text
		}
	}
	return fmt.Sprintf("retry %s  leave %s  looking %s", ticket.Money(a.RetryCost), ticket.Money(a.LeaveCost), ticket.Money(a.LookCost))
}

func round2(v float64) float64 {
	if v > 1000 {
		return math.Round(v)
	}
	return math.Round(v*100) / 100
}

func (m *Root) detailKnown(p *page, b *brief) {
	text, tone := m.ticketOf(b).Known()
	p.say("KNOWN", m.th.tone(tone), text)
	switch b.rec.Operation.StateAt(m.at) {
	case ledger.Uncertain, ledger.Failed:
		p.say("PRICE", m.th.text, m.priceWords(b, p.w-label-1))
	}
}

// adviceWords is the advised act and why.
func (m *Root) adviceWords(b *brief) (verb, why string) {
	a := b.facts.Advice
	if b.rec.Operation.Conflict == ledger.Duplicate {
		n := max(b.rec.Operation.Effects, 2)
		if n == 2 {
			return "LOOK", "two effects exist. Take one back outside, then D with its reference"
		}
		return "LOOK", fmt.Sprintf("%d effects exist. Take %d back outside, then D with a reference", n, n-1)
	}
	switch b.rec.Operation.StateAt(m.at) {
	case ledger.Committed, ledger.Abandoned:
		if b.rec.Operation.Conflict == ledger.NoConflict {
			return "DONE", "nothing to do. U undoes it"
		}
	case ledger.Pending:
		return "WAIT", "its attempt ends by " + ticket.Moment(b.rec.Operation.DeadlineAt, m.at, m.loc)
	}
	return strings.ToUpper(firstOf(a.Verb, "look")), a.Reason
}

func (m *Root) detailAdvice(p *page, b *brief) {
	verb, why := m.adviceWords(b)
	p.say("→ "+verb, m.th.strong, firstOf(why, "–"))
	o := &b.rec.Operation
	switch verb {
	case "LOOK":
		if o.Conflict != ledger.NoConflict {
			break
		}
		p.say("", m.th.text, m.lookWords(b))
		p.say("", m.th.text, "one    C, paste its receipt")
		p.say("", m.th.text, "none   X asks how you know; a look is no proof")
		p.say("", m.th.text, "two    C, paste both: it becomes HAPPENED TWICE")
	case "RETRY":
		p.say("", m.th.text, "R shows exactly what would be sent, and asks")
	case "CONFIRM":
		p.say("", m.th.text, "C records that it landed; nothing is sent")
	case "ABANDON":
		p.say("", m.th.text, "A records that it stays undone; nothing is sent")
	case "LEAVE":
		p.say("", m.th.text, "sending costs more than leaving it. A ends it, P parks it")
	case "WAIT":
		switch {
		case o.StateAt(m.at) == ledger.Pending:
		case b.rec.OpenGrant() != nil:
			p.say("", m.th.text, "it may send once when it asks next; whatever is written here before takes that back")
		default:
			p.say("", m.th.text, "checks go on by themselves; deciding now would be a guess")
		}
	case "RAISE":
		p.say("", m.th.text, "change the policy or ask somebody who knows; N leaves a note")
	}
}

// lookWords says where to look it up, what to search for and from which time on.
func (m *Root) lookWords(b *brief) string {
	w, o := b.facts.Advice.Where, &b.rec.Operation
	text := "Search " + firstOf(o.Title, o.Kind)
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
		text += ", since " + ticket.Moment(from, m.at, m.loc)
	default:
		text += ", from " + ticket.Moment(from, m.at, m.loc) + " to " + ticket.Moment(w.To, m.at, m.loc)
	}
	if link := firstOf(w.Link, b.facts.Link); link != "" {
		text = "o opens " + link + ". " + text
	}
	return text
}

func (m *Root) detailClocks(p *page, b *brief) {
	f, o := b.facts, &b.rec.Operation
	switch state := o.StateAt(m.at); {
	case state == ledger.Committed || state == ledger.Abandoned:
		return // no clock runs
	case state == ledger.Pending:
		m.ticking = true
		p.say("CLOCKS", m.th.text, "its attempt ends by "+ticket.Moment(o.DeadlineAt, m.at, m.loc)+", in "+ticket.Span(o.DeadlineAt.Sub(m.at)))
		return
	}
	var parts []string
	in := func(at time.Time) string {
		d := at.Sub(m.at)
		if d < 10*time.Minute {
			m.ticking = true
		}
		return ticket.Span(d)
	}
	state := o.StateAt(m.at)
	switch {
	case !f.SafeUntil.Before(ledger.Never):
		parts = append(parts, "key: repeatable, a second send cannot act twice")
	case f.SafeUntil.After(m.at):
		parts = append(parts, fmt.Sprintf("key remembered until %s (%s): a second send cannot act twice", ticket.Moment(f.SafeUntil, m.at, m.loc), in(f.SafeUntil)))
	case f.Remembers > 0:
		parts = append(parts, "key: no longer remembered")
	default:
		parts = append(parts, "key: never remembered")
	}
	if state == ledger.Uncertain {
		switch {
		case !f.HasRead:
			parts = append(parts, "proof: impossible, no check")
		case f.ProofPossible && f.ProofAt.After(m.at):
			parts = append(parts, "proof in "+in(f.ProofAt))
		case f.ProofPossible:
			parts = append(parts, "proof: from the next check on")
		default:
			parts = append(parts, "proof: impossible, the policy states no times")
		}
		if d := b.rec.Pricing.DecideAt; d.After(m.at) && d.Before(ledger.Never) {
			parts = append(parts, "needs you in "+in(d))
		} else if d.Before(ledger.Never) && !o.DoubtedAt.IsZero() {
			since := ticket.FirstTime(d, o.DoubtedAt)
			parts = append(parts, "needs you for "+ticket.Age(m.at.Sub(since)))
		}
		if r := b.rec.Pricing.ReadAt; f.HasRead && r.Before(ledger.Never) && !r.IsZero() {
			if r.After(m.at) {
				parts = append(parts, "next check in "+in(r))
			} else {
				parts = append(parts, "next check now")
			}
		}
	}
	if g := b.rec.OpenGrant(); g != nil {
		parts = append(parts, fmt.Sprintf("one send allowed, waiting for %s, %s left", firstOf(o.Source.Pipeline, "its pipeline"), in(g.ExpiresAt)))
	}
	p.say("CLOCKS", m.th.text, strings.Join(parts, " · "))
}

func (m *Root) detailPolicy(p *page, b *brief) {
	f := b.facts
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
		p.say("CHECK", m.th.text, "recognises it by "+f.Recognises)
	}
	p.say("POLICY", m.th.text, fmt.Sprintf("%s · retry max %d · %s · machine: %s", where, f.RetryMax, sends, machine))
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
