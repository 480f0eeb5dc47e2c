// Package incident draws an outage: its account, its operations grouped by what is
// true of them and what to do, and what stands outside of it. It reads nothing.
package incident

import (
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// View is an outage on the whole screen.
type View struct {
	ID string // of the incident; "": none

	group string // under the cursor, by its name: groups come and go above it
	at    int    // where it stood
}

// Open shows an incident, with the cursor where it was left.
func (v *View) Open(id string) {
	if v.ID != id {
		*v = View{ID: id}
	}
}

// place puts the cursor where its group stands now.
func (v *View) place(groups []ticket.Group) {
	if i := slices.IndexFunc(groups, func(g ticket.Group) bool { return g.Name == v.group }); i >= 0 {
		v.at = i
	}
	v.set(groups, v.at)
}

func (v *View) set(groups []ticket.Group, at int) {
	if v.at = min(max(at, 0), max(len(groups)-1, 0)); v.at < len(groups) {
		v.group = groups[v.at].Name
	}
}

// Chosen is the group under the cursor, or nil.
func (v *View) Chosen(o *ticket.Outage) *ticket.Group {
	groups := o.Groups()
	if len(groups) == 0 {
		return nil
	}
	v.place(groups)
	return &groups[v.at]
}

// Move puts the cursor n groups further on.
func (v *View) Move(o *ticket.Outage, n int) {
	groups := o.Groups()
	v.place(groups)
	v.set(groups, v.at+n)
}

// Go puts the cursor on the group that a key is for.
func (v *View) Go(o *ticket.Outage, key string) {
	groups := o.Groups()
	if i := slices.IndexFunc(groups, func(g ticket.Group) bool { return g.Key == key }); i >= 0 {
		v.set(groups, i)
	}
}

// Lines draws the view into at most h lines of w cells. What there is no room for is
// left out from below.
func (v *View) Lines(f *draw.Frame, s *feed.Snapshot, o *ticket.Outage, currency string, w, h int) []string {
	out := []string{f.Strong.Render(draw.Ruled("OUTAGE "+o.Title().String(), "", w))}
	add := func(p draw.Paint, left, right string) {
		line := " " + left
		if room := w - draw.Width(line) - draw.Width(right) - 2; right != "" && room >= 0 {
			line += draw.Spaces(room+1) + right
		} else if right != "" {
			line += "   " + right
		}
		out = append(out, p.Render(draw.Left(line, w)))
	}
	twice, tone := o.Twice()
	if from, curve, to := o.Curve(min(max(w/6, 8), 60)); w >= 60 {
		add(f.Text, fmt.Sprintf("%s %s %s    %s", from, curve, to, o.Count()), o.Taken().String())
		add(f.Tone(tone), o.Account().String(), twice.String())
	} else {
		add(f.Text, o.Account().String(), "")
		add(f.Tone(tone), twice.String(), "")
	}
	if len(o.Others) > 0 {
		here := make([]safe.Text, len(o.Others))
		for i, p := range o.Others {
			here[i] = ticket.AtIt(p)
		}
		add(f.Warn, safe.Say("HERE TOO  %s", safe.Join(here, " · ")).String(), "")
	}
	rule := f.Faint.Render(draw.Rule(w))
	if h > 12 {
		out = append(out, rule)
	}
	out = append(out, v.groups(f, o, currency, w)...)
	if h > 14 {
		out = append(out, rule)
	}
	if g := v.Chosen(o); g != nil && h > len(out)+1 {
		for _, line := range draw.Wrap(about(o, g).String(), max(w-2, 8)) {
			add(f.Text, line, "")
		}
	}
	for _, line := range outside(s, o) {
		for _, text := range draw.Wrap(line.String(), max(w-2, 8)) {
			add(f.Faint, text, "")
		}
	}
	if w >= 60 && h > len(out)+3 && len(o.Events) > 0 {
		out = append(out, rule)
		for i := len(o.Events) - 1; i >= 0 && len(out) < h; i-- {
			e := o.Events[i]
			add(f.Faint, safe.Say("%s  %s: %s%s", f.Moment(e.At), ticket.Who(e.Actor.Name), strings.ReplaceAll(strings.TrimPrefix(e.Verb, "incident_"), "_", " "), ticket.Colon(e.Reason)).String(), "")
		}
	}
	return out[:min(len(out), h)]
}

// groups is the table of what is true and what to do.
func (v *View) groups(f *draw.Frame, o *ticket.Outage, currency string, w int) []string {
	do := min(max(w/3, 10), 34)
	money := 12
	if w < 60 {
		money = 0
	}
	is := max(w-8-money-do, 8)
	out := []string{f.Head.Render(draw.Left("   ROWS  "+draw.Left("WHAT IS TRUE", is-1)+draw.Right(currency, money)+"  WHAT TO DO", w))}
	groups := o.Groups()
	v.place(groups)
	for i, g := range groups {
		p, bar := &f.Paints, " "
		if i == v.at {
			p, bar = &f.Cursor, "▌"
		}
		out = append(out, p.Text.Render(bar)+p.Tone(g.Tone).Render(draw.Left(draw.Right(ticket.Grouped(float64(g.Sum.N), 0), 6)+"  "+draw.Left(g.True.String(), is-1)+draw.Right(cell(g, money), money)+"  "+draw.Left(g.Do.String(), do-4), w-3))+
			p.Accent.Render(draw.Left(g.Key, 2)))
	}
	return out
}

func cell(g ticket.Group, room int) string {
	if room == 0 {
		return ""
	}
	return g.Money().String()
}

// about says more of a group.
func about(o *ticket.Outage, g *ticket.Group) safe.Text {
	var kinds []string
	most := 0
	for _, x := range o.IncidentAccount.Groups {
		if string(x.Lane) == g.Name || string(x.Conflict) == g.Name {
			kinds = append(kinds, fmt.Sprintf("%d %s", x.Sum.N, x.Kind))
			most = max(most, x.Sum.N)
		}
	}
	said := safe.Say("%d %s", g.Sum.N, g.True)
	if len(kinds) > 0 {
		said = safe.Say("%s: %s", said, strings.Join(kinds[:min(len(kinds), 4)], ", "))
	}
	if g.Sum.Twice > 0 && g.Key != "" && g.Tone != ticket.Good {
		said = safe.Say("%s. Sent twice by mistake they cost %s", said, ticket.Full(g.Sum.Twice))
	}
	switch g.Name {
	case string(ledger.LaneNotLanded):
		return safe.Say("%s. R sends 3, waits for you, then ten a second; it stops at 2 unclear or failed", said)
	case string(ledger.LaneReading):
		return safe.Say("%s. Deciding now would be a guess", said)
	}
	return said
}

// outside says what stands elsewhere: other outages, what needs a person apart from
// this one, what is parked, held, or hidden by the filter.
func outside(s *feed.Snapshot, o *ticket.Outage) []safe.Text {
	in := o.Needs()
	others := safe.Say("NOT IN IT  %d need you", max(s.Counts.NeedsYou-in.N, 0))
	conflicts := s.Counts.Conflicts
	for _, g := range o.IncidentAccount.Groups {
		if g.Conflict != ledger.NoConflict {
			conflicts -= g.Sum.N
		}
	}
	if conflicts > 0 {
		others = safe.Say("%s, %d of them in conflict", others, conflicts)
	}
	if n := len(s.Outages) - 1; n > 0 {
		others = safe.Say("%s · %d in other outages", others, n)
	}
	held := safe.Say("none")
	if len(s.Holds) > 0 {
		held = ticket.Scope(s.Holds[0].Scope)
		if len(s.Holds) > 1 {
			held = safe.Say("%s and %d more", held, len(s.Holds)-1)
		}
	}
	rest := safe.Say("PARKED %d   HOLD %s", s.Counts.Parked, held)
	if s.Hidden.NeedsYou > 0 {
		rest = safe.Say("%s   HIDDEN BY FILTER %d", rest, s.Hidden.NeedsYou)
	}
	for _, h := range s.Health {
		if h.Downstream == o.Downstream() && h.Downstream != "" {
			rest = safe.Say("%s   %s %s", rest, h.Downstream, h.State)
		}
	}
	return []safe.Text{others, rest}
}
