package ask

import (
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
	Verb  ledger.Verb
	Items []Item
	Out   []safe.Text // left out, each with why
	Took  time.Time
	Marks table.Covers // what it was taken from
}

// Item is one operation of a set, with what its decision rests on.
type Item struct {
	act.Item
	Basis   ledger.Basis
	Showing reconcile.Showing // of a retry, as the set was frozen
	Recheck time.Duration
	twice   ledger.Cost
	never   ledger.Cost
}

// Freeze judges each of the marked operations by itself.
func Freeze(ctx context.Context, verb ledger.Verb, marked []table.Mark, read func(ctx context.Context, id string) (*feed.Brief, error), plans Planner, desk Case) (*Set, error) {
	s := &Set{Verb: verb, Took: desk.Now, Marks: desk.Marks}
	desk.Marks = table.Covers{} // each is judged by itself
	for _, m := range marked {
		b, err := read(ctx, m.ID)
		if err != nil {
			return nil, err
		}
		desk.Row, desk.Brief = true, b
		t := desk.told()
		it := Item{Item: act.Item{ID: m.ID, Version: m.Version, Title: t.Title()}, Recheck: t.Facts.Recheck, twice: t.Facts.Advice.Duplicate, never: t.Facts.Advice.Miss}
		why := Off(verb)(desk)
		switch {
		case t.Row.Version != m.Version:
			why = safe.Say("moved since it was marked: %s, by %s", ticket.State(t.State()), ticket.Who(t.Row.Actor))
		case !why.Empty():
		case verb == ticket.Retry && len(t.Record.Related) > 0:
			why = safe.Say("it shares its input or its target with another: by itself only")
		case verb == ticket.Retry:
			it.Basis, it.Showing, why = planned(ctx, plans, m.ID)
		}
		if !why.Empty() {
			s.Out = append(s.Out, safe.Say("%s: %s", t.Title(), why))
			continue
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// planned says on what ground an operation may be sent with others, and what
// would be sent: only proof or a key is a ground. A risk is taken one at a time.
func planned(ctx context.Context, plans Planner, id string) (ledger.Basis, reconcile.Showing, safe.Text) {
	p, err := plans.Plan(ctx, id)
	var why safe.Text
	switch {
	case err != nil:
		why = safe.Of(err.Error())
	case p.Refused != nil:
		why = safe.Of(p.Refused.Error())
	case p.Basis != ledger.BasisAbsent && p.Basis != ledger.BasisKeySafe:
		why = safe.Say("without proof: by itself only")
	case p.OverridesMax:
		why = safe.Say("its %d further attempts are used up", p.Max)
	}
	return p.Basis, p.Showing, why
}

// bulk is how each verb is told over a set.
var bulk = map[ledger.Verb]struct {
	title, do string
	done      safe.Format
}{
	ledger.VerbConfirm: {"Confirm: it landed", "Confirm", "recorded as landed"},
	ledger.VerbDeny:    {"Did not land", "Did not land", "recorded as not landed"},
	ledger.VerbAbandon: {"Abandon", "Abandon", "abandoned"},
	ledger.VerbAck:     {"Dealt with", "Dealt with", "dealt with"},
	ledger.VerbPark:    {"Park", "Park", "parked"},
	ledger.VerbNote:    {"Note", "Note", "noted"},
	ticket.Retry:       {"Retry", "Retry", "sent"},
}

// Title is what a set's run is called, and Done what its items become.
func (s *Set) Title() string   { return bulk[s.Verb].title }
func (s *Set) Done() safe.Text { return safe.Say(bulk[s.Verb].done) }

// Bulk shows a frozen set, and asks for its count.
func Bulk(f *draw.Frame, s *Set) *dialog.Dialog {
	n := len(s.Items)
	d := &dialog.Dialog{Title: safe.Say("%s %d", s.Title(), n), Itself: true}
	d.Add("SET", "%d of %d marked, frozen %s; later rows are not in it", n, n+len(s.Out), s.Took.In(f.Zone).Format("15:04:05"))
	d.Put(ticket.Fact{Label: safe.Say("COVERS"), Text: s.Marks.Words(), Grave: s.Marks.Unseen()})
	s.money(d)
	for i, why := range s.Out {
		if i == 4 {
			d.Warn("", "and %d more; ^b lists them", len(s.Out)-4)
			break
		}
		name := safe.Format("")
		if i == 0 {
			name = "LEFT OUT"
		}
		d.Warn(name, "%s", why)
	}
	for _, why := range s.Out {
		d.More = append(d.More, safe.Say("  left out: %s", why))
	}
	if s.Verb == ticket.Retry {
		d.Add("HOW", "same keys; each is checked and its version tested first. %d, then a pause for you; then ten a second; stops at %d failed or unclear", act.TryFirst, act.StopAfter)
	} else {
		d.Add("HOW", "each by itself, its version tested first; what moved meanwhile is skipped and listed")
	}
	if n == 0 {
		d.Title = safe.Say("%s: nothing fits", s.Title())
		return d
	}
	reason, count := dialog.TextField("Reason", ""), dialog.TypedField(fmt.Sprintf("Type %d", n))
	truth := dialog.ChoiceField("What is true", "taken back", "both wanted", "landed once")
	reference, until := dialog.TextField("Reference", ""), dialog.TextField("Until", "2h")
	d.Fields, d.Do = []*dialog.Field{reason, count}, fmt.Sprintf("%s %d", bulk[s.Verb].do, n)
	switch s.Verb {
	case ledger.VerbAck:
		d.Fields = slices.Insert(d.Fields, 0, truth, reference)
	case ledger.VerbPark:
		d.Fields = slices.Insert(d.Fields, 1, until)
	case ticket.Retry:
		d.Do, d.Sends = fmt.Sprintf("Send %d", min(n, act.TryFirst)), true
	}
	d.Submit = func(now time.Time) (dialog.Action, string) {
		start := Start{Set: s, Reason: reason.Value(), Reference: reference.Value()}
		if start.Reason == "" {
			return nil, "say why: it is kept with each of them"
		}
		switch s.Verb {
		case ledger.VerbAck:
			start.Truth = inBulk[truth.Value()]
			if start.Truth == ledger.TakenBack && start.Reference == "" {
				return nil, needReference
			}
		case ledger.VerbPark:
			var err error
			if start.Until, err = ticket.Until(until.Value(), now, f.Zone); err != nil {
				return nil, err.Error()
			}
		}
		if count.Value() != fmt.Sprint(n) {
			return nil, fmt.Sprintf("type %d: how many it is", n)
		}
		return start, ""
	}
	return d
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
		d.More = append(d.More, safe.Say("  %s%s", draw.Left(it.Title.String(), 48), draw.Right(ticket.Cost(it.never), 8)))
	}
	if s.Verb == ticket.Retry {
		for _, b := range slices.Sorted(maps.Keys(ground)) {
			d.Add("BECAUSE", "%d: %s", ground[b], ticket.Because(b, ""))
		}
	}
	if worst != nil {
		words := ""
		if byWord > 0 {
			words = fmt.Sprintf(" · %d rated by word", byWord)
		}
		d.Add("MONEY", "never %s · twice %s%s · worst %s   ^b: list", ticket.Full(never), ticket.Full(twice), words, worst.Title)
	}
}

// Pause shows what came of a run so far, and asks whether it goes on.
func Pause(r *act.Run, title safe.Text) *dialog.Dialog {
	d := &dialog.Dialog{Title: title, Itself: true, Closed: Stop{r}}
	results(d, r)
	return d
}

// Report lists what became of each item of a run, and what was not touched. A run
// that has stopped can go on from here.
func Report(r *act.Run) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("%s: %s", bulk[ledger.Verb(r.Verb())].title, r.Over()), Itself: true}
	d.Put(ticket.Fact{Label: safe.Say("RESULT"), Text: r.Tally(), Grave: r.Trouble() > 0})
	if r.Left() > 0 {
		d.Warn("NOT TOUCHED", "%s", draw.Plural(r.Left(), "operation", "operations"))
	}
	results(d, r)
	return d
}

func results(d *dialog.Dialog, r *act.Run) {
	if n := r.Left(); n > 0 {
		d.Yes = fmt.Sprintf("y go on with %d", n)
		d.Submit = func(time.Time) (dialog.Action, string) { return GoOn{r}, "" }
	}
	d.Put(r.Facts()...)
}
