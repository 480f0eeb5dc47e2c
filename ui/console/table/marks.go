package table

import (
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
)

// Mark is one operation in the version that was seen.
type Mark struct {
	ID      string
	Version int64
}

// Mark turns the mark of the chosen row on or off.
func (l *Table) Mark() {
	s := l.Chosen()
	if _, on := l.Marks[s.ID]; on {
		delete(l.Marks, s.ID)
		return
	}
	l.marked(s)
}

// MarkRange begins a range, or marks all from its beginning to the cursor.
func (l *Table) MarkRange() {
	if l.Anchor == "" {
		l.Anchor = l.Chosen().ID
		return
	}
	from, to := l.between()
	for i := from; i <= to; i++ {
		l.marked(&l.Items[i])
	}
	l.Anchor = ""
}

func (l *Table) marked(s *feed.Row) {
	if !s.Operation() {
		return
	}
	if l.Marks == nil {
		l.Marks = map[string]feed.Row{}
	}
	l.Marks[s.ID] = *s
}

// Marked are the marked operations as they were seen: first those in the list, in
// its order, then those of an earlier page or filter.
func (l *Table) Marked() []Mark {
	var out []Mark
	for i := range l.Items {
		if s, on := l.Marks[l.Items[i].ID]; on {
			out = append(out, Mark{s.ID, s.Row.Version})
		}
	}
	for id, s := range l.Marks {
		if l.Find(id) < 0 {
			out = append(out, Mark{id, s.Row.Version})
		}
	}
	return out
}

// Covers is what an act on the marks is about.
type Covers struct {
	N                int
	kinds, pipelines []string
	Hidden           int // the filter leaves them out
	Away             int // in the list, and not on the screen
}

// Covers looks through the marks at now.
func (l *Table) Covers(now time.Time) Covers {
	c := Covers{N: len(l.Marks)}
	if c.N == 0 {
		return c
	}
	visible := map[string]bool{}
	for _, s := range l.Visible() {
		visible[s.ID] = true
	}
	add := func(to *[]string, name string) {
		if !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for id, s := range l.Marks {
		add(&c.kinds, s.Row.Kind)
		add(&c.pipelines, s.Row.Source.Pipeline)
		switch {
		case visible[id]:
		case !l.filter().Match(s.Row, now):
			c.Hidden++
		default:
			c.Away++
		}
	}
	return c
}

// Unseen reports whether a mark is on a row that cannot be seen now.
func (c Covers) Unseen() bool { return c.Hidden+c.Away > 0 }

// Words say how many are marked, of which kinds and pipelines, and how many of them
// cannot be seen; empty without marks.
func (c Covers) Words() safe.Text {
	if c.N == 0 {
		return safe.Text{}
	}
	several := func(names []string, many safe.Format) safe.Text {
		if len(names) == 1 {
			return safe.Of(names[0]).Or(safe.Say("unknown"))
		}
		return safe.Say(many, len(names))
	}
	out := safe.Say("%s marked: %s, %s", ledger.Count(c.N), several(c.kinds, "%d kinds"), several(c.pipelines, "%d pipelines"))
	if c.Hidden > 0 {
		out = safe.Say("%s; %s hidden by the filter", out, ledger.Count(c.Hidden))
	}
	if c.Away > 0 {
		out = safe.Say("%s; %s not on the screen", out, ledger.Count(c.Away))
	}
	return out
}
