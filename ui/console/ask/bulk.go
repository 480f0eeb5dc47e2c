package ask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Planner works out what a retry would do.
type Planner interface {
	Plan(ctx context.Context, id string) (reconcile.Plan, error)
}

// Set is a frozen set: what a bulk run does, over which operations, and which of
// the marked ones are left out.
type Set struct {
	Verb   ledger.Verb
	Outage *ticket.Outage // whose group it is, or nil
	Group  *ticket.Group  // of it
	Beyond int            // further operations of its group that one run does not take
	Items  []Item
	Out    []Left
	Took   time.Time
	Marks  table.Covers // what it was taken from
}

// Item is one operation of a set, with what it is worth.
type Item struct {
	ledger.RunItem
	twice  ledger.Cost
	never  ledger.Cost
	outage string
}

// Left is a marked operation that is left out.
type Left struct{ Title, Why safe.Text }

// Freeze judges each of the marked operations by itself.
func Freeze(ctx context.Context, verb ledger.Verb, marked []table.Mark,
	read func(ctx context.Context, id string) (*feed.Brief, error), plans Planner, desk Case) (*Set, error) {
	s := &Set{Verb: verb, Took: desk.Now, Marks: desk.Marks}
	desk.Marks = table.Covers{} // each is judged by itself
	for _, m := range marked {
		b, err := read(ctx, m.ID)
		if err != nil {
			return nil, err
		}
		desk.Row, desk.Brief = true, b
		t := desk.told()
		it := Item{RunItem: ledger.RunItem{OperationID: m.ID, Version: m.Version, Kind: t.Row.Kind, Title: t.Row.Title},
			twice: t.Facts.Advice.Duplicate, never: t.Facts.Advice.Miss, outage: t.Row.Outage()}
		why := desk.taken(m.Version)
		if why.Empty() {
			why = Off(verb)(desk)
		}
		if why.Empty() && verb == ticket.Retry {
			if why = overtaken(desk.Frame, t.Record.Overtaken()); why.Empty() {
				it.Basis, it.Request, why = planned(ctx, plans, m.ID)
			}
		}
		if !why.Empty() {
			s.Out = append(s.Out, Left{t.Title(), why})
			continue
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// OfOne is the outage that all of it are of, or "".
func (s *Set) OfOne() string {
	if s.Outage != nil {
		return s.Outage.ID
	}
	of := make([]string, len(s.Items))
	for i, it := range s.Items {
		of[i] = it.outage
	}
	return ledger.OneOutage(of)
}

// taken says who has moved, allowed or parked an operation, other than the one who
// decides.
func (c Case) taken(version int64) safe.Text {
	t := c.told()
	g, parked := t.Record.OpenAllowed(), t.Record.Operation.ParkedUntil
	switch {
	case t.Row.Version != version:
		return safe.Say("moved since it was marked: %s, by %s", ticket.State(t.State()), ticket.Who(t.Row.Actor))
	case g != nil && g.Actor != c.Me:
		return safe.Say("%s has allowed one send, waiting for %s", ticket.Who(g.Actor), ticket.Source(t.Row.Source))
	case parked.After(c.Now) && t.Row.Actor != c.Me:
		return safe.Say("parked by %s until %s", ticket.Who(t.Row.Actor), c.Moment(parked))
	}
	return safe.Text{}
}

// overtaken says which operation came later on the same target, if one did.
func overtaken(f *draw.Frame, by *ledger.Relation) safe.Text {
	if by == nil {
		return safe.Text{}
	}
	return safe.Say("overtaken by %s (%s, %s): by itself only", by.Title, ticket.State(by.State), f.Moment(by.CreatedAt))
}

// planned says on what ground an operation may be sent with others, and what
// would be sent: proof, a key, or that a check does not see it. A risk is taken one at a time.
func planned(ctx context.Context, plans Planner, id string) (ledger.Basis, string, safe.Text) {
	p, err := plans.Plan(ctx, id)
	var why safe.Text
	switch {
	case err != nil:
		why = safe.Of(err.Error())
	case p.Refused != nil:
		why = safe.Of(p.Refused.Error())
	case !ticket.Enough(p.Basis):
		why = safe.Say("without proof: by itself only")
	}
	return p.Basis, p.Showing.Digest, why
}

// bulk is how each verb is told over a set.
var bulk = map[ledger.Verb]struct {
	title, do string
	will      safe.Format
}{
	ledger.VerbConfirm: {"Confirm: it landed", "Confirm", "record that each landed; nothing is sent. U undoes one at a time"},
	ledger.VerbDeny: {"Did not land", "Did not land",
		"record of each that it did not land, on your word, which is no proof; nothing is sent, and the same again is refused. U undoes one at a time"},
	ledger.VerbAbandon: {"Abandon", "Abandon",
		"leave each as it is for good; nothing is sent, and the same again is refused. U undoes one at a time"},
	ledger.VerbAck:  {"Dealt with", "Dealt with", "record the same of each conflict; nothing is sent"},
	ledger.VerbPark: {"Park", "Park", "take each out of the way until then, or until it changes; checks go on"},
	ledger.VerbNote: {"Note", "Note", "leave the same remark on each"},
	ticket.Retry:    {"Retry", "Retry", ""},
}

// Title is what a set's run is called.
func (s *Set) Title() string { return bulk[s.Verb].title }

// Bulk shows a frozen set, and asks for its count.
func Bulk(f *draw.Frame, s *Set) *dialog.Dialog {
	n := len(s.Items)
	d := &dialog.Dialog{Title: safe.Say("%s %s", s.Title(), ledger.Count(n)), Itself: true}
	suggested := ""
	if s.Outage != nil {
		d.ID, suggested = s.Outage.ID, s.Outage.Reason().String()
	}
	if s.Group != nil {
		d.Add("OF", "%s", s.Group.True)
	}
	if len(s.Out) > 0 || s.Beyond > 0 {
		took := s.Took.In(f.Zone).Format("15:04:05")
		d.Add("SET", "%s of %s, frozen %s; later rows are not in it", ledger.Count(n), ledger.Count(n+len(s.Out)), took)
	}
	if s.Marks.N > 0 {
		d.Put(ticket.Fact{Label: safe.Say("COVERS"), Text: s.Marks.Words(), Grave: s.Marks.Unseen()})
	}
	if will := bulk[s.Verb].will; will != "" && n > 0 {
		d.Add("WILL", will)
	}
	s.money(d)
	s.leftOut(d)
	if s.Verb == ticket.Retry {
		d.Add("HOW", "same keys, each checked first. %d, then a pause for you; then ten a second; stops at %d failed or unclear",
			ledger.RunCanaries, ledger.RunStopAfter)
	} else {
		d.Add("HOW", "each by itself, its version tested first; what moved meanwhile is skipped and listed")
	}
	if n == 0 {
		d.Title = safe.Say("%s: nothing fits", s.Title())
		return d
	}
	reason, count := dialog.FilledField("Reason", suggested).Must(), dialog.TypedField(fmt.Sprintf("Type %d", n)).Must()
	truth := dialog.ChoiceField("What is true", "taken back", "both wanted", "landed once")
	reference, until := dialog.TextField("Reference", ""), dialog.TextField("Until", "2h").Must()
	reference.MustWhere(func() bool { return inBulk[truth.Value()] == ledger.TakenBack })
	d.Fields, d.Do = []*dialog.Field{reason, count}, fmt.Sprintf("%s %s", bulk[s.Verb].do, ledger.Count(n))
	switch s.Verb {
	case ledger.VerbAck:
		d.Fields = slices.Insert(d.Fields, 0, truth, reference)
	case ledger.VerbPark:
		d.Fields = slices.Insert(d.Fields, 1, until)
	case ticket.Retry:
		d.Do, d.Sends = fmt.Sprintf("Send %d", min(n, ledger.RunCanaries)), true
	}
	d.Submit = func(now time.Time) (dialog.Action, dialog.Fault) {
		start := Start{Set: s, Reason: reason.Value(), Reference: reference.Value()}
		if start.Reason == "" {
			return nil, dialog.Fault{Why: "say why: it is kept with each of them", At: reason}
		}
		switch s.Verb {
		case ledger.VerbAck:
			start.Truth = inBulk[truth.Value()]
			if start.Truth == ledger.TakenBack && start.Reference == "" {
				return nil, dialog.Fault{Why: needReference, At: reference}
			}
		case ledger.VerbPark:
			var err error
			if start.Until, err = ticket.Until(until.Value(), now, f.Zone); err != nil {
				return nil, dialog.Fault{Why: err.Error(), At: until}
			}
		}
		if typed := count.Value(); typed != fmt.Sprint(n) && typed != ledger.Count(n) {
			return nil, dialog.Fault{Why: fmt.Sprintf("type %d: how many it is", n), At: count}
		}
		return start, dialog.Fault{}
	}
	return d
}

// leftOut lists what is left out and why; what has one reason in common is counted.
func (s *Set) leftOut(d *dialog.Dialog) {
	many := map[safe.Text]int{}
	for _, l := range s.Out {
		many[l.Why]++
		d.More = append(d.More, safe.Say("  left out: %s: %s", l.Title, l.Why))
	}
	name, lines := safe.Format("LEFT OUT"), 0
	if s.Beyond > 0 {
		takes := ledger.Count(len(s.Items) + len(s.Out))
		d.Warn(name, "%s more: one run takes %s; the same key again takes them after it", ledger.Count(s.Beyond), takes)
		name = ""
	}
	for _, l := range s.Out {
		n := many[l.Why]
		if n == 0 {
			continue
		}
		many[l.Why] = 0
		switch lines++; {
		case lines == 5:
			rest := n
			for _, n := range many {
				rest += n
			}
			d.Warn("", "and %s more; ^b lists them", ledger.Count(rest))
			return
		case n > 1:
			d.Warn(name, "%s: %s", ledger.Count(n), l.Why)
		default:
			d.Warn(name, "%s: %s", l.Title, l.Why)
		}
		name = ""
	}
}

// money adds what the set rests on and what it is worth. Costs given as words are
// counted apart: they are no money.
func (s *Set) money(d *dialog.Dialog) {
	var twice, never float64
	byWord := 0
	var worst *Item
	ground := map[ledger.Basis]int{}
	for i := range s.Items {
		it := &s.Items[i]
		if it.twice.Word == "" {
			twice += it.twice.Value
		}
		if it.never.Word == "" {
			never += it.never.Value
		} else {
			byWord++
		}
		if worst == nil || it.never.Value > worst.never.Value {
			worst = it
		}
		ground[it.Basis]++
		title := safe.Of(draw.Cut(it.Title, 48))
		gap := draw.Spaces(max(48-draw.Width(title.String()), 1))
		d.More = append(d.More, safe.Say("  %s%s%s", title, gap, draw.Right(ticket.Cost(it.never), 8)))
	}
	if s.Verb == ticket.Retry {
		for _, b := range slices.Sorted(maps.Keys(ground)) {
			d.Add("BECAUSE", "%s: %s", ledger.Count(ground[b]), ticket.Because(b, ""))
		}
	}
	if worst != nil {
		sums := safe.Say("never %s · twice %s", ticket.Full(never), ticket.Full(twice))
		switch {
		case byWord == len(s.Items) && twice == 0: // no amount: a zero would look like one
			sums = safe.Say("%s priced in words", ledger.Count(byWord))
		case byWord > 0:
			sums = safe.Say("%s · %s priced in words", sums, ledger.Count(byWord))
		}
		d.Add("MONEY", "%s · worst %s   ^b: list", sums, worst.Title)
	}
}

func RunTitle(run ledger.DecisionRun) safe.Text {
	return safe.Say("%s %s", cmp.Or(bulk[ledger.Verb(run.Verb)].title, run.Verb), ledger.Count(run.Size))
}

// Sheet accounts for a bulk run: what became of each item, what needs a look first,
// each opened with Enter; and what can be done about the rest from this console, unless
// it is closed; sends says whether anything can be sent from it.
func Sheet(f *draw.Frame, a act.Account, of OpenRun, closed string, sends bool) *dialog.Dialog {
	run := a.Record
	left, driver := run.Left(), run.DrivenBy(f.Now)
	title := safe.Say("%s: %s", RunTitle(run), act.State(run, f.Now))
	d := &dialog.Dialog{Title: title, Itself: true, Renew: of, Keys: map[string]dialog.Action{}}
	d.Put(ticket.Fact{Label: safe.Say("RESULT"), Text: a.Sum(f.Now), Grave: run.Trouble > 0})
	if run.Why != "" {
		d.Put(ticket.Fact{Label: safe.Say("WHY"), Text: safe.Of(run.Why), Grave: run.Trouble > 0})
	}
	d.Add("BY", "%s, %s%s", ticket.Who(run.Actor.Name), f.Moment(run.CreatedAt), ticket.Colon(run.Terms.Reason))
	if driver != "" && driver != run.Actor.Name {
		d.Add("DRIVEN BY", "%s", ticket.Who(driver))
	}
	switch {
	case closed != "":
		d.Add("HERE", "%s", closed)
	case run.State == ledger.RunRunning && driver != "":
		d.Yes = "P pause it"
		d.Submit = func(time.Time) (dialog.Action, dialog.Fault) { return Halt{Run: run}, dialog.Fault{} }
	case left > 0 && !run.Open():
		d.Add("OVER", "%s. To go on with them is a new decision", ticket.Plural(left, "row stays as it is", "rows stay as they are"))
	case left > 0 && run.Sends() && !sends:
		d.Add("HERE", "nothing can be sent from this console")
	case left > 0:
		d.Yes = "G go on with " + ledger.Count(left)
		d.Submit = func(time.Time) (dialog.Action, dialog.Fault) { return GoOn{run}, dialog.Fault{} }
	}
	if run.Open() && left > 0 && closed == "" {
		d.Keys["E"] = Halt{Run: run, End: true}
		d.Add("OR", "E ends it: %s untouched. Esc leaves it as it is, p comes back", ticket.Plural(left, "row stays", "rows stay"))
	}
	for _, it := range a.Exceptions() {
		d.Picks = append(d.Picks, dialog.Pick{Fact: act.Line(run.Verb, it), Action: Show{it.OperationID, of}})
	}
	if of.Listed {
		d.Closed = ListRuns{}
	}
	return d
}

// List is the newest runs, each opened with Enter.
func List(f *draw.Frame, runs []ledger.DecisionRun, most int) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Runs"), Renew: ListRuns{}}
	if len(runs) == 0 {
		d.Add("NONE", "no bulk run was begun")
	}
	if len(runs) > most {
		runs = runs[:most]
		d.Add("NEWEST", "%d; indoubt runs --all --limit %d has more", most, 10*most)
	}
	for _, r := range runs {
		line := ticket.Tell("", "%s  %s by %s: %s   %s", f.Moment(r.CreatedAt), RunTitle(r), ticket.Who(r.Actor.Name),
			act.State(r, f.Now), act.Account{Record: r}.Tally())
		d.Picks = append(d.Picks, dialog.Pick{Fact: line, Action: OpenRun{r.ID, true}})
	}
	return d
}
