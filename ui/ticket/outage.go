package ticket

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// Outage is what a person or a script is told of an outage.
type Outage struct {
	ledger.OutageAccount
	Open *ledger.Needing // what of it needs a person; nil: not read
	Now  time.Time
	Zone *time.Location
}

// Where is the downstream or the kind.
func (o Outage) Where() safe.Text { return safe.Of(o.OutageAccount.Where()) }

// Errors says how the answers failed to come.
func (o Outage) Errors() safe.Text {
	words := ledger.Each(o.Classes, func(c string) string { return ErrorClass(ledger.ErrorClass(c)) })
	if len(words) > 2 {
		words = append(words[:2], "…")
	}
	return safe.Of(strings.Join(words, ", "))
}

// Span is from its first error to its newest, as on a clock.
func (o Outage) Span() string {
	first, last := clock(Moment(o.FirstAt, o.Now, o.Zone)), clock(Moment(o.LastAt, o.Now, o.Zone))
	if first == last {
		return first
	}
	return first + "–" + last
}

// clock is a time of day without its seconds.
func clock(moment string) string {
	if i := strings.LastIndexByte(moment, ':'); i > 0 && strings.Count(moment, ":") == 2 {
		return moment[:i]
	}
	return moment
}

// Reason is what a person would give as the reason of an act on all of it.
func (o Outage) Reason() safe.Text {
	return safe.Say("%s %s", o.Failed(), o.Span())
}

// Failed is what failed, and how where that is known.
func (o Outage) Failed() safe.Text {
	if o.Errors().Empty() {
		return o.Where()
	}
	return safe.Say("%s %s", o.Where(), o.Errors())
}

// Title names it: what failed, for whom, when, and how far it has come.
func (o Outage) Title() safe.Text {
	parts := []safe.Text{o.Where(), o.Errors(), safe.Of(strings.Join(o.Pipelines, ", ")), safe.Of(o.Span()), o.Phase()}
	parts = slices.DeleteFunc(parts, safe.Text.Empty)
	return safe.Join(parts, " · ")
}

// Phase says how far it has come: growing, quiet, over.
func (o Outage) Phase() safe.Text { return safe.Of(string(o.PhaseAt(o.Now))) }

func (o Outage) Taken() safe.Text {
	if by := o.TakenAt(o.Now); by != "" {
		return safe.Say("%s is on it", Who(by))
	}
	return safe.Say("nobody is on it")
}

var fates = map[ledger.Fate]string{
	ledger.FateLanded:    "landed",
	ledger.FateNotLanded: "did not land",
	ledger.FateChecking:  "being checked",
	ledger.FateOpen:      "to look at",
	ledger.FateRefused:   "refused",
	ledger.FateLeft:      "left",
}

// Count says how many errors there were, and how long they kept coming.
func (o Outage) Count() safe.Text {
	n := o.OutageAccount.Errors()
	if took := o.LastAt.Truncate(time.Minute).Sub(o.FirstAt.Truncate(time.Minute)); took > 0 { // as the clock times of the title
		return safe.Say("%s errors in %s min", ledger.Count(n), ledger.Count(int(took.Minutes())))
	}
	return safe.Say("%s errors", ledger.Count(n))
}

// Became says why an outage needs no one any more, in few words.
func (o Outage) Became() safe.Text {
	switch {
	case o.Needs().N > 0: // the order or the filter of the list takes its rows one by one
		return safe.Say("row by row now")
	case o.goesOn() > 0:
		return safe.Say("nothing to do")
	}
	return safe.Say("over, %s settled", ledger.Count(o.OutageAccount.Errors()))
}

// goesOn is how many it goes on with by itself, where nothing of it needs a person.
func (o Outage) goesOn() int { return o.Fates[ledger.FateChecking].N + o.Fates[ledger.FateOpen].N }

// ToDo is the part of the account that someone is to act on, in few cells.
func (o Outage) ToDo() safe.Text {
	return safe.Say("%s %s, %s %s, of %s", ledger.Count(o.Fates[ledger.FateNotLanded].N), fates[ledger.FateNotLanded], ledger.Count(o.Fates[ledger.FateOpen].N), fates[ledger.FateOpen], ledger.Count(o.OutageAccount.Errors()))
}

// Account is what became of its errors; the sum is theirs.
func (o Outage) Account() safe.Text {
	var parts []string
	for _, f := range ledger.Fates {
		if n := o.Fates[f].N; n > 0 {
			parts = append(parts, ledger.Count(n)+" "+fates[f])
		}
	}
	return safe.Say("%s = %s", ledger.Count(o.OutageAccount.Errors()), strings.Join(parts, " + "))
}

// Twice says whether anything of it happened more than once, and by when that was
// checked.
func (o Outage) Twice() (safe.Text, Tone) {
	switch s := o.Sum(); {
	case s.Doubled > 0:
		return safe.Say("%s HAPPENED TWICE", ledger.Count(s.Doubled)), Bad
	case s.Unchecked > 0:
		return safe.Say("%s of %s sent again not checked", ledger.Count(s.Unchecked), ledger.Count(s.Resent)), Warn
	case s.Resent == 0:
		return safe.Say("none sent twice"), Plain
	}
	if o.CheckedAt.IsZero() {
		return safe.Say("nothing twice: checked"), Plain
	}
	return safe.Say("nothing twice: checked %s", clock(Moment(o.CheckedAt, o.Now, o.Zone))), Plain
}

// SentAgain says what was sent more than once, and what of it was there already.
func (o Outage) SentAgain() safe.Text {
	switch n := o.Sum().Resent; {
	case n == 0:
		return safe.Text{}
	case o.Already > 0:
		return safe.Say("%s sent again, %s of them there already", ledger.Count(n), ledger.Count(o.Already))
	default:
		return safe.Say("%s sent again", ledger.Count(n))
	}
}

// Also says what was sent more than once, and what the amounts leave out.
func (o Outage) Also() safe.Text {
	sent, out := o.SentAgain(), o.LeftOut()
	switch {
	case out.Empty():
		return sent
	case sent.Empty():
		return safe.Say("not in the amounts: %s", out)
	}
	return safe.Say("%s · not in the amounts: %s", sent, out)
}

// Group are operations of an outage of which the same is true, and to which the same
// is to be done.
type Group struct {
	Name  ledger.Group
	Sum   ledger.Sum
	Kinds []string // how many of each kind, as far as is known
	True  safe.Text
	Do    safe.Text
	Key   string // does it

	TrueShort, DoShort safe.Text // for few cells

	Tone   Tone
	Tab    ledger.Tab // the list that has its rows
	Filter string     // and which of it they are
}

// Groups are all operations of the outage, what is to be acted on first.
func (o Outage) Groups() (out []Group) {
	for _, name := range ledger.Groups {
		g, by, kinds := groups[name], []string{}, map[string]int{}
		for _, x := range o.OutageAccount.Groups {
			if x.Group != name {
				continue
			}
			g.Sum = g.Sum.Add(x.Sum)
			if who := Who(x.By).String(); x.By != "" && !slices.Contains(by, who) {
				by = append(by, who)
			}
			if x.Kind != "" {
				kinds[x.Kind] += x.Sum.N
			}
		}
		if g.Sum.N == 0 {
			continue
		}
		for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int { return cmp.Or(kinds[b]-kinds[a], strings.Compare(a, b)) }) {
			g.Kinds = append(g.Kinds, ledger.Count(kinds[kind])+" "+kind)
		}
		if len(by) > 2 {
			by = append(by[:2], "…")
		}
		if len(by) > 0 {
			g.True = safe.Say("%s %s", g.True, strings.Join(by, ", "))
			g.TrueShort = safe.Say("%s %s", g.TrueShort, strings.Join(by, ", "))
		}
		if name == ledger.GroupElsewhere && g.Sum.N == 1 && len(o.Elsewhere) == 1 {
			g.True, g.TrueShort = o.landed(o.Elsewhere[0])
		}
		g.Name, g.Tab, g.Filter = name, name.Tab(), "outage:"+o.ID+" group:"+string(name)
		out = append(out, g)
	}
	return out
}

// landed says where and when an effect is there by another operation, or may be, and
// without its name.
func (o Outage) landed(l ledger.Landing) (how, short safe.Text) {
	name := cmp.Or(l.Other.Title, l.Other.ID)
	if l.Other.State != ledger.Committed {
		return safe.Say("may be there by %s", name), safe.Say("may be there")
	}
	return safe.Say("done by %s, %s", name, o.settledAt(l)), safe.Say("done by another")
}

func (o Outage) settledAt(l ledger.Landing) string {
	return clock(Moment(l.Other.SettledAt, o.Now, o.Zone))
}

// Landings say which other operations stand for those of a group, and since when.
func (o Outage) Landings() (out []safe.Text) {
	for _, l := range o.Elsewhere {
		how, short := o.landed(l)
		switch other := l.Other; {
		case cmp.Or(other.Title, other.ID) != cmp.Or(l.Title, l.Operation):
		case other.State != ledger.Committed:
			how = safe.Say("%s by another", short)
		default:
			how = safe.Say("another landed %s", o.settledAt(l))
		}
		out = append(out, safe.Say("%s: %s, %s", cmp.Or(l.Title, l.Operation), how, cmp.Or(l.Other.Source.Pipeline, "unknown")))
	}
	return out
}

// Landed is what is known of what needs a person, in the column LANDED?, and in fewer
// words.
func (o Outage) Landed() []string {
	say := func(of string, args ...any) []string { return []string{fmt.Sprintf(of, args...)} }
	var no, running, said, look int
	if o.Needs().N == 0 {
		return say("%s …", ledger.Count(o.goesOn()))
	}
	for _, g := range o.Groups() {
		switch {
		case g.Name == ledger.Group(ledger.ConflictTwice):
			return append(say("%s TWICE", ledger.Count(g.Sum.N)), "TWICE")
		case g.Name == ledger.GroupProven:
			no += g.Sum.N
		case g.Name == ledger.GroupRunning:
			running += g.Sum.N
		case g.Name == ledger.GroupSaid:
			said += g.Sum.N
		case g.Tab == ledger.TabNeedsYou:
			look += g.Sum.N
		}
	}
	if no+running+look == 0 {
		return append(say("%s said no", ledger.Count(said)), "said no")
	}
	var out []string
	for _, part := range []struct {
		n    int
		what string
	}{{no, "no"}, {running, "…"}, {said + look, "?"}} {
		switch {
		case part.n == 0:
		case len(out) == 0:
			out = say("%s %s", ledger.Count(part.n), part.what)
		default:
			out = append(say("%s, %s %s", out[0], ledger.Count(part.n), part.what), out...)
		}
	}
	return out
}

// Needs is the sum of what needs a person.
func (o Outage) Needs() ledger.Sum { return o.In(ledger.TabNeedsYou) }

// In is the sum of what stands in a list.
func (o Outage) In(tab ledger.Tab) (all ledger.Sum) {
	for _, g := range o.OutageAccount.Groups {
		if g.Group.Tab() == tab {
			all = all.Add(g.Sum)
		}
	}
	return all
}

// groups are what is true of each group and what to do, each in fewer words, too ("":
// there are none), and the key that does it. A name follows where the text ends in "by",
// "of" or "for".
var groups = func() map[ledger.Group]Group {
	group := func(is, isShort, do, doShort safe.Format, key string, tone Tone) Group {
		return Group{True: safe.Say(is), TrueShort: safe.Say(cmp.Or(isShort, is)), Do: safe.Say(do), DoShort: safe.Say(cmp.Or(doShort, do)), Key: key, Tone: tone}
	}
	return map[ledger.Group]Group{
		ledger.Group(ledger.ConflictTwice):      group("happened twice", "", "cancel one, then D", "cancel one", "↵", Bad),
		ledger.Group(ledger.ConflictMaybeTwice): group("may have happened twice", "maybe twice", "look, then D", "look, D", "↵", Bad),
		ledger.Group(ledger.ConflictDisputed):   group("a decision was wrong", "decided wrong", "D: say what is true", "press D", "↵", Bad),
		ledger.Group(ledger.ConflictDifferent):  group("landed, but different", "landed, different", "look, then D", "look, D", "↵", Bad),
		ledger.GroupProven:                      group("did not land", "", "send again: safe", "send again", "R", Sure),
		ledger.GroupSaid:                        group("said not to have landed", "said not landed", "look, no proof", "look", "↵", Warn),
		ledger.GroupElsewhere:                   group("there by another operation, or may be", "there by another?", "do NOT send: A ends it", "do NOT send", "↵", Bad),
		ledger.GroupHeld:                        group("did not land, held by", "held by", "wait for the hold", "wait", "↵", Warn),
		ledger.GroupRunning:                     group("its turn comes in a run of", "in a run of", "wait, p shows the run", "wait, p", "↵", Plain),
		ledger.GroupOverdue:                     group("allowed, and not sent by", "not sent by", "look at its pipeline", "look", "↵", Warn),
		ledger.GroupDecide:                      group("no check can tell", "", "as each row advises", "see rows", "↵", Warn),
		ledger.GroupReading:                     group("cannot tell yet", "", "wait, checks go on", "wait", "↵", Plain),
		ledger.GroupAllowed: group("one send allowed, waits for", "waits for", "nothing, pipeline sends", "nothing",
			"↵", Plain),
		ledger.GroupInFlight:  group("being sent now", "", "wait", "", "↵", Plain),
		ledger.GroupParked:    group("parked by", "", "nothing for now", "nothing", "↵", Plain),
		ledger.GroupLanded:    group("landed", "", "nothing", "", "↵", Good),
		ledger.GroupNeverSent: group("never sent", "", "nothing, pipeline knows", "nothing", "↵", Good),
		ledger.GroupRefused:   group("refused by the other side", "refused", "nothing, pipeline knows", "nothing", "↵", Good),
		ledger.GroupLeft:      group("left as it is, unknown", "left, unknown", "nothing", "", "↵", Good),
	}
}()

// noMoney reports whether nothing is known of what settled operations are worth.
func (g Group) noMoney() bool { return g.Tone == Good && g.Sum.Miss == 0 }

// Money is what a group's operations are worth, and how many that leaves out.
func (g Group) Money() safe.Text {
	without := g.Sum.MissWords + g.Sum.Unpriced
	switch {
	case g.noMoney():
		return safe.Say("–")
	case g.Sum.Unpriced > 0 && g.Sum.Unpriced == g.Sum.N:
		return safe.Say("not priced")
	case without > 0 && without == g.Sum.MissWords && g.Sum.Miss == 0:
		return safe.Say("%s by word", ledger.Count(g.Sum.MissWords))
	case without > 0:
		return safe.Say("%s +%s", Full(g.Sum.Miss), ledger.Count(without))
	}
	return safe.Of(Full(g.Sum.Miss))
}

// LeftOut says what the amounts of the groups do not have in them.
func (o Outage) LeftOut() safe.Text {
	var all ledger.Sum
	for _, g := range o.Groups() {
		if !g.noMoney() {
			all = all.Add(g.Sum)
		}
	}
	return safe.Of(ledger.LeftOut(all.MissWords, all.Unpriced))
}

// Twice is what a group's operations cost if they happen twice, and how many that
// leaves out; empty where it costs nothing.
func (g Group) Twice() safe.Text {
	switch out := ledger.LeftOut(g.Sum.TwiceWords, g.Sum.Unpriced); {
	case g.Sum.Twice == 0:
		return safe.Of(out)
	case out != "":
		return safe.Say("%s, without %s", Full(g.Sum.Twice), out)
	}
	return safe.Of(Full(g.Sum.Twice))
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
	return start.In(o.Zone).Format("15:04"), safe.Of(b.String()), end.In(o.Zone).Format("15:04")
}

func (o Outage) Markdown() string {
	var b strings.Builder
	b.WriteString(o.account("#"))
	for _, e := range o.Events {
		at := func(t time.Time) string { return t.In(o.Zone).Format("2006-01-02 15:04:05 MST") }
		fmt.Fprintf(&b, "- %s %s %s%s\n", at(e.At), markdown(Who(e.Actor.Name)), strings.ReplaceAll(e.Verb, "_", " "), markdown(Colon(Why(e, at))))
	}
	fmt.Fprintf(&b, "\nLook again: `indoubt list outage:%s`\n", safe.Of(o.ID))
	return safe.ExactLines(b.String()) // its parts are safe already
}
