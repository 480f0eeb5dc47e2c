// Package outage draws an outage: its account, its operations grouped by what is
// true of them and what to do, and what stands outside of it. It reads nothing.
package outage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// View is an outage on the whole screen.
type View struct {
	ID string // of the outage; "": none

	name string // of what is under the cursor: groups come and go above it
	at   int    // where it stood

	swapped time.Time // when another line came under the cursor by itself
}

// Line is one that the cursor goes to: a group, the newest run, or an exception of it.
type Line struct {
	Group *ticket.Group
	Run   *act.Account
	Item  *ledger.RunItem
}

// name tells a line from the others.
func (l Line) name() string {
	switch {
	case l.Group != nil:
		return string(l.Group.Name)
	case l.Item != nil:
		return l.Item.OperationID
	}
	return l.Run.Record.ID
}

// exceptionsAtMost is how many exceptions of a run stand in the view; its account has all.
const exceptionsAtMost = 5

// lines are what the cursor goes over: the groups, the run over them, and what came
// otherwise than it should.
func lines(s *feed.Snapshot, o *ticket.Outage) (out []Line) {
	for _, g := range o.Groups() {
		out = append(out, Line{Group: &g})
	}
	if r := s.Ran; r != nil && r.Record.Terms.Outage == o.ID {
		out = append(out, Line{Run: r})
		amiss := r.Amiss()
		for i := range amiss[:min(len(amiss), exceptionsAtMost)] {
			out = append(out, Line{Run: r, Item: &amiss[i]})
		}
	}
	return out
}

// Open shows an outage, with the cursor where it was left.
func (v *View) Open(id string) {
	if v.ID != id {
		*v = View{ID: id}
	}
}

// place puts the cursor where its line stands now.
func (v *View) place(all []Line) {
	if i := slices.IndexFunc(all, func(l Line) bool { return l.name() == v.name }); i >= 0 {
		v.at = i
	}
	v.set(all, v.at)
}

func (v *View) set(all []Line, at int) {
	if v.at = min(max(at, 0), max(len(all)-1, 0)); v.at < len(all) {
		v.name = all[v.at].name()
	}
}

// justMoved is how long a line that came under the cursor by itself takes no act.
const justMoved = 2 * time.Second

// Take takes in the outage as it is now: where its line is gone, another one comes under
// the cursor.
func (v *View) Take(s *feed.Snapshot, o *ticket.Outage, now time.Time) {
	was := v.name
	if v.place(lines(s, o)); was != "" && v.name != was {
		v.swapped = now
	}
}

// JustMoved reports whether another line has just come under the cursor by itself.
func (v *View) JustMoved(now time.Time) bool { return now.Sub(v.swapped) < justMoved }

// Chosen is the line under the cursor; the zero Line: there is none.
func (v *View) Chosen(s *feed.Snapshot, o *ticket.Outage) Line {
	all := lines(s, o)
	if len(all) == 0 {
		return Line{}
	}
	v.place(all)
	return all[v.at]
}

// Move puts the cursor n lines further on.
func (v *View) Move(s *feed.Snapshot, o *ticket.Outage, n int) {
	all := lines(s, o)
	v.place(all)
	v.set(all, v.at+n)
}

// Go puts the cursor on a group.
func (v *View) Go(s *feed.Snapshot, o *ticket.Outage, name ledger.Group) {
	all := lines(s, o)
	if i := slices.IndexFunc(all, func(l Line) bool { return l.Group != nil && l.Group.Name == name }); i >= 0 {
		v.set(all, i)
	}
}

// Lines draws the view into at most h lines of w cells. What there is no room for is
// left out from below.
func (v *View) Lines(f *draw.Frame, s *feed.Snapshot, o *ticket.Outage, currency string, w, h int) []string {
	title := ticket.Fit(w-12, o.Title().String(), safe.Say("%s · %s · %s", o.Where(), o.Errors(), o.Phase()).String())
	out := []string{f.Strong.Render(draw.Ruled("OUTAGE "+title, "", w))}
	add := func(p draw.Paint, left, right string) {
		line := " " + left
		if room := w - draw.Width(line) - draw.Width(right) - 2; right != "" && room >= 0 {
			line += draw.Spaces(room+1) + right
		} else if right != "" { // on a line of its own, and whole
			out, line = append(out, p.Render(draw.Left(line, w))), draw.Right(right, w)
		}
		out = append(out, p.Render(draw.Left(line, w)))
	}
	twice, tone := o.Twice()
	if from, curve, to := o.Curve(min(max(w/6, 8), 60)); w >= 60 {
		add(f.Text, fmt.Sprintf("%s %s %s    %s", from, curve, to, o.Count()), o.Taken().String())
		add(f.Tone(tone), o.Account().String(), twice.String())
	} else {
		add(f.Tone(tone), twice.String(), "")
		add(f.Text, ticket.Fit(w-2, o.Account().String(), o.ToDo().String()), "")
	}
	if also := o.Also(); !also.Empty() && h > 16 {
		add(f.Faint, also.String(), "")
	}
	rule := f.Faint.Render(draw.Rule(w))
	if h > 12 {
		out = append(out, rule)
	}
	all := lines(s, o)
	v.place(all)
	rows := len(out) + 1
	cursor := rows + v.at
	out = append(out, v.groups(f, all, currency, w)...)
	run, at := v.run(f, all, w)
	if at >= 0 {
		cursor = len(out) + at
	}
	out = append(out, run...)
	if len(out) > h {
		return around(f, out, rows, cursor, w, h)
	}
	if h > 14 {
		out = append(out, rule)
	}
	if v.at < len(all) && all[v.at].Group != nil && h > len(out)+1 {
		for _, line := range draw.Wrap(about(o, all[v.at].Group).String(), max(w-2, 8)) {
			add(f.Text, line, "")
		}
	}
	for _, text := range draw.Wrap(outside(s, o).String(), max(w-2, 8)) {
		add(f.Faint, text, "")
	}
	if w >= 60 && h > len(out)+3 && len(o.Events) > 0 {
		out = append(out, rule)
		out = append(out, history(f, o, w, h-len(out))...)
	}
	return out[:min(len(out), h)]
}

// history is what was done about an outage, the newest first, in at most h lines.
func history(f *draw.Frame, o *ticket.Outage, w, h int) (out []string) {
	for i := len(o.Events) - 1; i >= 0 && len(out) < h; i-- {
		e := o.Events[i]
		did := strings.ReplaceAll(strings.TrimPrefix(e.Verb, "outage_"), "_", " ")
		line := safe.Say("%s  %s: %s%s", f.Moment(e.At), ticket.Who(e.Actor.Name), did, ticket.Colon(ticket.Why(e, f.Moment)))
		if len(out) == h-1 && i > 0 {
			line = safe.Say("… %s earlier: y copies them", ledger.Count(i+1))
		}
		out = append(out, f.Faint.Render(draw.Left(" "+line.String(), w)))
	}
	return out
}

// around is the part of a page that has the chosen line in it, for h lines. The lines from
// rows on are counted where they are out of sight.
func around(f *draw.Frame, page []string, rows, cursor, w, h int) []string {
	from := min(max(cursor-h+2, 0), len(page)-h)
	out := append([]string{}, page[from:from+h]...)
	if above := from + 1 - rows; above > 0 && h > 3 {
		out[0] = f.Faint.Render(draw.Right("↑"+ledger.Count(above)+" above ", w))
	}
	if below := len(page) - from - h; below > 0 && h > 2 {
		out[h-1] = f.Faint.Render(draw.Right(ledger.Count(below+1)+" more below ↓ ", w))
	}
	return out
}

// cells are how wide the columns of the groups are.
type cells struct{ n, gap, is, money, do int }

// fewCells is a screen without room for money.
const fewCells = 60

// measure finds columns in which each cell is whole. Where there is little room, first
// WHAT TO DO is said in fewer words, then WHAT IS TRUE, and on a small screen the money
// goes.
func measure(all []Line, currency string, w int) cells {
	c, is, do := cells{n: 6, gap: 2, money: 10}, 0, 0
	least := 10 // the head of WHAT TO DO
	if w < 100 {
		c.money = draw.Width(currency)
	}
	if w < fewCells {
		c = cells{n: 4, gap: 1}
	}
	for _, l := range all {
		if g := l.Group; g != nil {
			c.n = max(c.n, draw.Width(rows(g)))
			is, do = max(is, draw.Width(g.True.String())), max(do, draw.Width(g.Do.String()))
			least = max(least, draw.Width(g.DoShort.String()))
			if w >= fewCells {
				c.money = max(c.money, draw.Width(g.Money().String()))
			}
		}
	}
	room := w - 3 - c.n - c.gap - c.money - c.gap // bar and key apart
	if c.money > 0 {
		room -= c.gap
	}
	c.do = max(min(room-is, 26), least)
	c.is = max(room-c.do, 0)
	return c
}

func (c cells) line(n, is, money, do string) string {
	line := draw.Right(n, c.n) + draw.Spaces(c.gap) + draw.Left(is, c.is)
	if c.money > 0 {
		line += draw.Spaces(c.gap) + draw.Right(money, c.money)
	}
	return line + draw.Spaces(c.gap) + draw.Left(do, c.do)
}

func rows(g *ticket.Group) string { return ledger.Count(g.Sum.N) }

// groups is the table of what is true and what to do.
func (v *View) groups(f *draw.Frame, all []Line, currency string, w int) []string {
	c := measure(all, currency, w)
	out := []string{f.Head.Render(draw.Left(" "+c.line("ROWS", "WHAT IS TRUE", currency, "WHAT TO DO"), w))}
	for i, l := range all {
		g := l.Group
		if g == nil {
			break
		}
		p, bar := &f.Paints, " "
		if i == v.at {
			p, bar = &f.Cursor, "▌"
		}
		is, do := ticket.Fit(c.is, g.True.String(), g.TrueShort.String()), ticket.Fit(c.do, g.Do.String(), g.DoShort.String())
		line := draw.Left(c.line(rows(g), is, g.Money().String(), do), w-3)
		out = append(out, p.Text.Render(bar)+p.Tone(g.Tone).Render(line)+p.Accent.Render(" "+draw.Left(g.Key, 1)))
	}
	return out
}

// run is the newest run over the outage: how far it has come or what became of all of
// it, then its exceptions.
func (v *View) run(f *draw.Frame, all []Line, w int) (out []string, at int) {
	at = -1
	for i, l := range all {
		p, bar := &f.Paints, " "
		if i == v.at {
			p, bar = &f.Cursor, "▌"
		}
		switch {
		case l.Item != nil:
			said, tone := act.Line(l.Run.Record.Verb, *l.Item), ticket.Plain
			if said.Grave {
				tone = ticket.Bad
			}
			if i == v.at {
				at = len(out)
			}
			out = append(out, p.Text.Render(bar)+p.Tone(tone).Render(draw.Left("  "+said.Text.String(), w-1)))
			if more := len(l.Run.Amiss()) - exceptionsAtMost; more > 0 && i == len(all)-1 {
				out = append(out, f.Faint.Render(draw.Left("   "+ledger.Count(more)+" more: ↵ all of it", w)))
			}
		case l.Run != nil:
			r := l.Run.Record
			f.Ticks = f.Ticks || r.Open() || l.Run.Checked()
			key := "↵ all of it"
			if r.Open() {
				key = "p"
			}
			title := safe.Say("%s by %s, %s: %s", ask.RunTitle(r), ticket.Who(r.Actor.Name), f.Moment(r.CreatedAt), act.State(r, f.Now))
			out = append(out, f.Faint.Render(draw.Ruled(title.String(), key, w)))
			if i == v.at {
				at = len(out)
			}
			tone := ticket.Sure
			if r.Trouble > 0 {
				tone = ticket.Warn
			}
			for n, line := range draw.Wrap(l.Run.Sum(f.Now).String(), max(w-3, 8)) {
				if n > 0 {
					bar = " "
				}
				out = append(out, p.Text.Render(bar)+p.Tone(tone).Render(draw.Left(line, w-1)))
			}
		}
	}
	return out, at
}

func about(o *ticket.Outage, g *ticket.Group) safe.Text {
	said := safe.Say("%s %s", rows(g), g.True)
	var landings []safe.Text
	if g.Name == ledger.GroupElsewhere {
		landings = o.Landings()
	}
	if g.Sum.N == 1 && len(landings) == 1 { // it says all of it
		said, landings = landings[0], nil
	} else if n := len(g.Kinds); n > 0 {
		said = safe.Say("%s: %s", said, strings.Join(g.Kinds[:min(n, 4)], ", "))
	}
	if twice := g.Twice(); !twice.Empty() && g.Tone != ticket.Good {
		said = safe.Say("%s. Sent twice by mistake they cost %s", said, twice)
	}
	switch g.Name {
	case ledger.GroupProven:
		return safe.Say("%s. R sends 3, waits for you, then ten a second; it stops at 2 unclear or failed", said)
	case ledger.GroupDecide:
		return safe.Say("%s. R asks about those whose key is remembered, and leaves out the others", said)
	case ledger.GroupSaid:
		return safe.Say("%s. R leaves them out: only someone's word says so", said)
	case ledger.GroupReading:
		return safe.Say("%s. Deciding now would be a guess", said)
	}
	return safe.Join(append([]safe.Text{said}, landings...), ". ")
}

// outside says what stands elsewhere: what needs a person apart from this outage, and the
// other ones.
func outside(s *feed.Snapshot, o *ticket.Outage) safe.Text {
	said, n := safe.Say("NOT IN IT  …"), ledger.Needing{}
	if o.Open != nil {
		n = s.Counts.Without(*o.Open)
		said = safe.Say("NOT IN IT  %s need you", ledger.Count(n.NeedsYou))
	}
	if n.Conflicts > 0 {
		said = safe.Say("%s, %s of them in conflict", said, ledger.Count(n.Conflicts))
	}
	if others := len(s.Outages) - 1; others > 0 {
		said = safe.Say("%s · %s in other outages", said, ledger.Count(others))
	}
	return said
}
