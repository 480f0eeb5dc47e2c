package ticket

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Outage is what a person or a script is told of an incident.
type Outage struct {
	ledger.IncidentAccount
	Others []ledger.Presence // other people who look at it now
	Now    time.Time
	Zone   *time.Location
}

// Where is the downstream or the kind.
func (o Outage) Where() safe.Text { return safe.Of(o.IncidentAccount.Where()) }

// Errors says how the answers failed to come.
func (o Outage) Errors() safe.Text {
	var words []string
	for _, c := range o.Classes {
		words = append(words, ErrorClass(ledger.ErrorClass(c)))
	}
	if len(words) > 2 {
		words = append(words[:2], "…")
	}
	return safe.Of(strings.Join(words, ", "))
}

// Span is from its first error to its newest, as on a clock.
func (o Outage) Span() string {
	first, last := Moment(o.FirstAt, o.Now, o.Zone), Moment(o.LastAt, o.Now, o.Zone)
	short := func(s string) string { // seconds say nothing here
		if i := strings.LastIndexByte(s, ':'); i > 0 && strings.Count(s, ":") == 2 {
			return s[:i]
		}
		return s
	}
	if first, last = short(first), short(last); first == last {
		return first
	}
	return first + "–" + last
}

// Reason is what a person would give as the reason of an act on all of it.
func (o Outage) Reason() safe.Text {
	return safe.Say("%s %s %s", o.Where(), o.Errors(), o.Span())
}

// Title names it: what failed, for whom, when, and how far it has come.
func (o Outage) Title() safe.Text {
	parts := []safe.Text{o.Where(), o.Errors(), safe.Of(strings.Join(o.Pipelines, ", ")), safe.Of(o.Span()), o.Phase()}
	if o.Name != "" {
		parts[0] = safe.Say("%s: %s", o.Name, parts[0])
	}
	parts = slices.DeleteFunc(parts, safe.Text.Empty)
	return safe.Join(parts, " · ")
}

// Phase says how far it has come: growing, quiet, over, closed.
func (o Outage) Phase() safe.Text { return safe.Of(string(o.PhaseAt(o.Now))) }

// Taken says who is on it.
func (o Outage) Taken() safe.Text {
	if by := o.TakenAt(o.Now); by != "" {
		return safe.Say("%s is on it", Who(by))
	}
	return safe.Say("nobody is on it")
}

var fates = map[ledger.Fate]string{
	ledger.FateLanded:    "landed",
	ledger.FateNotLanded: "did not land",
	ledger.FateOpen:      "to look at",
	ledger.FateRefused:   "refused",
	ledger.FateLeft:      "left",
}

// Count says how many errors there were, and how long they kept coming.
func (o Outage) Count() safe.Text {
	n := o.IncidentAccount.Errors()
	if took := o.LastAt.Truncate(time.Minute).Sub(o.FirstAt.Truncate(time.Minute)); took > 0 { // as the clock times of the title
		return safe.Say("%d errors in %d min", n, int(took.Minutes()))
	}
	return safe.Say("%d errors", n)
}

// Account is what became of its errors; the sum is theirs.
func (o Outage) Account() safe.Text {
	var parts []string
	for _, f := range ledger.Fates {
		if n := o.Fates[f].N; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, fates[f]))
		}
	}
	return safe.Say("%d = %s", o.IncidentAccount.Errors(), strings.Join(parts, " + "))
}

// Twice says whether anything of it happened more than once, and whether that was
// checked.
func (o Outage) Twice() (safe.Text, Tone) {
	switch s := o.Sum(); {
	case s.Doubled > 0:
		return safe.Say("%d HAPPENED TWICE", s.Doubled), Bad
	case s.Unchecked > 0:
		return safe.Say("%d of %d sent again not checked", s.Unchecked, s.Resent), Warn
	}
	if o.Sum().Resent == 0 {
		return safe.Say("none sent twice"), Plain
	}
	return safe.Say("none happened twice: checked"), Plain
}

// Group are operations of an outage of which the same is true, and to which the same
// is to be done.
type Group struct {
	Name   string // stable, for scripts
	Sum    ledger.Sum
	True   safe.Text
	Do     safe.Text
	Key    string // does it
	Tone   Tone
	Tab    ledger.Tab // the list that has its rows
	Filter string     // and which of it they are
}

// Groups are all operations of the outage, what is to be acted on first.
func (o Outage) Groups() (out []Group) {
	sums, listed := map[string]ledger.Sum{}, map[ledger.Fate]ledger.Sum{}
	for _, g := range o.IncidentAccount.Groups {
		name := cmp.Or(string(g.Conflict), string(g.Lane))
		sums[name], listed[g.Fate] = sums[name].Add(g.Sum), listed[g.Fate].Add(g.Sum)
	}
	for _, f := range ledger.Fates { // what is not in the list of open operations
		if rest := o.Fates[f].Less(listed[f]); rest.N > 0 {
			name := string(f)
			if f == ledger.FateNotLanded {
				name = neverSent
			}
			sums[name] = sums[name].Add(rest)
		}
	}
	for _, g := range groupTable() {
		if g.Sum = sums[g.Name]; g.Sum.N > 0 {
			g.Filter = "incident:" + o.ID + " " + g.Filter
			out = append(out, g)
		}
	}
	return out
}

// Landed is what is known of what needs a person, in the column LANDED?.
func (o Outage) Landed() safe.Text {
	var no, look int
	if o.Needs().N == 0 {
		return safe.Say("%d …", o.Fates[ledger.FateOpen].N)
	}
	for _, g := range o.Groups() {
		switch {
		case g.Name == string(ledger.Duplicate):
			return safe.Say("%d TWICE", g.Sum.N)
		case g.Name == string(ledger.LaneNotLanded):
			no += g.Sum.N
		case g.Tab == ledger.TabNeedsYou:
			look += g.Sum.N
		}
	}
	switch {
	case no == 0:
		return safe.Say("%d ?", look)
	case look == 0:
		return safe.Say("%d no", no)
	}
	return safe.Say("%d no, %d ?", no, look)
}

// Needs is the sum of what needs a person.
func (o Outage) Needs() (all ledger.Sum) {
	for _, g := range o.Groups() {
		if g.Tab == ledger.TabNeedsYou {
			all = all.Add(g.Sum)
		}
	}
	return all
}

// groupTable are the groups there may be: what grows worse first, what is done last.
func groupTable() []Group {
	const you, all = ledger.TabNeedsYou, ledger.TabAll
	group := func(name string, is, do safe.Format, key string, tone Tone, tab ledger.Tab, filter string) Group {
		return Group{Name: name, True: safe.Say(is), Do: safe.Say(do), Key: key, Tone: tone, Tab: tab, Filter: filter}
	}
	return []Group{
		group(string(ledger.Duplicate), "happened twice", "cancel one, then D", "↵", Bad, you, "lane:conflict"),
		group(string(ledger.Contradiction), "a decision was wrong", "D: say what is true", "↵", Bad, you, "lane:conflict"),
		group(string(ledger.MismatchConflict), "landed, but different", "look, then D", "↵", Bad, you, "lane:conflict"),
		group(string(ledger.PossibleDuplicate), "may have happened twice", "look, then D", "↵", Bad, you, "lane:conflict"),
		group(string(ledger.LaneNotLanded), "did not land", "send again", "R", Sure, you, "lane:not_landed"),
		group(string(ledger.LaneDecide), "no check can tell", "look outside", "↵", Warn, you, "lane:decide"),
		group(string(ledger.LaneReading), "cannot tell yet", "wait, checks go on", "↵", Plain, ledger.TabChecking, "lane:reading"),
		group(string(ledger.LaneUnfetched), "one send allowed", "wait for its pipeline", "↵", Plain, all, "lane:unfetched"),
		group(string(ledger.LaneInFlight), "being sent now", "wait", "↵", Plain, all, "lane:in_flight"),
		group(string(ledger.FateOpen), "being sent now", "wait", "↵", Plain, all, "lane:in_flight"),
		group(string(ledger.LaneResolved), "settled, checked once more", "wait", "↵", Plain, all, "lane:resolved"),
		group(string(ledger.FateLanded), "landed", "nothing", "↵", Good, all, "state:committed lane:resolved"),
		group(neverSent, "never sent", "nothing, its pipeline knows", "↵", Good, all, "state:failed lane:resolved"),
		group(string(ledger.FateRefused), "refused by the other side", "nothing, its pipeline knows", "↵", Good, all, "state:failed lane:resolved"),
		group(string(ledger.FateLeft), "left as it is, unknown", "nothing", "↵", Good, all, "state:abandoned"),
	}
}

// neverSent are those that did not land and were never in doubt.
const neverSent = "never_sent"

// Money is what a group's operations are worth if they did not land.
func (g Group) Money() safe.Text {
	switch {
	case g.Tone == Good:
		return safe.Say("–")
	case g.Sum.Miss == 0 && g.Sum.MissWords > 0:
		return safe.Say("%d by word", g.Sum.MissWords)
	}
	return safe.Of(Full(g.Sum.Miss))
}

var bars = []rune("▁▂▃▄▅▆▇█")

// Curve is its errors over time in at most so many cells, each as long as the next,
// and the clock times of its ends.
func (o Outage) Curve(cells int) (from string, curve safe.Text, to string) {
	if len(o.Minutes) == 0 || cells < 2 {
		return "", safe.Text{}, ""
	}
	start, end := o.Minutes[0].At, o.Minutes[len(o.Minutes)-1].At.Add(time.Minute)
	span := int(end.Sub(start).Minutes() + 0.5)
	each := max((span+cells-1)/cells, 1) // minutes a cell
	counts := make([]int, (span+each-1)/each)
	for _, m := range o.Minutes {
		counts[min(int(m.At.Sub(start).Minutes())/each, len(counts)-1)] += m.N
	}
	most := slices.Max(counts)
	var b strings.Builder
	for _, n := range counts {
		b.WriteRune(bars[(n*(len(bars)-1)+most-1)/max(most, 1)])
	}
	clock := func(t time.Time) string { return t.In(o.Zone).Format("15:04") }
	return clock(start), safe.Of(b.String()), clock(end)
}

// Markdown is the outage as a page to hand over.
func (o Outage) Markdown() string {
	var b strings.Builder
	b.WriteString(o.account("#"))
	for _, e := range o.Events {
		fmt.Fprintf(&b, "- %s %s %s%s\n", e.At.In(o.Zone).Format("2006-01-02 15:04:05 MST"), markdown(Who(e.Actor.Name)), strings.ReplaceAll(e.Verb, "_", " "), markdown(Colon(e.Reason)))
	}
	fmt.Fprintf(&b, "\nLook again: `indoubt list incident:%s`\n", o.ID)
	return safe.Lines(b.String())
}
