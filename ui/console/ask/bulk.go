package ask

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Out   []string // left out, each with why
	Took  time.Time
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
	s := &Set{Verb: verb, Took: desk.Now}
	for _, m := range marked {
		b, err := read(ctx, m.ID)
		if err != nil {
			return nil, err
		}
		desk.Row, desk.Brief = true, b
		it := Item{Item: act.Item{ID: m.ID, Version: m.Version, Title: b.Rec.Operation.Title}, Recheck: b.Facts.Recheck, twice: b.Facts.Advice.Duplicate, never: b.Facts.Advice.Miss}
		why := ""
		switch {
		case b.Rec.Operation.Version != m.Version:
			why = "moved since it was marked: " + ticket.State(b.Rec.Operation.StateAt(desk.Now)) + ", by " + ticket.Who(b.Rec.Operation.Actor)
		case off[verb](desk) != "":
			why = off[verb](desk)
		case verb == Retry && len(b.Rec.Related) > 0:
			why = "it has a twin or was overtaken: by itself only"
		case verb == Retry:
			it.Basis, it.Showing, why = planned(ctx, plans, m.ID)
		}
		if why != "" {
			s.Out = append(s.Out, it.Title+": "+why)
			continue
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// planned says on what ground an operation may be sent with others, and what
// would be sent: only proof or a key is a ground. A risk is taken one at a time.
func planned(ctx context.Context, plans Planner, id string) (ledger.Basis, reconcile.Showing, string) {
	p, err := plans.Plan(ctx, id)
	why := ""
	switch {
	case err != nil:
		why = safe.Of(err.Error()).String()
	case p.Refused != nil:
		why = safe.Of(p.Refused.Error()).String()
	case p.Basis != ledger.BasisAbsent && p.Basis != ledger.BasisKeySafe:
		why = "without proof: by itself only"
	case p.OverridesMax:
		why = fmt.Sprintf("its %d further attempts are used up", p.Max)
	}
	return p.Basis, p.Showing, why
}

// bulk is how each verb is told over a set.
var bulk = map[ledger.Verb]struct{ title, do, done string }{
	ledger.VerbConfirm: {"Confirm: it landed", "Confirm", "recorded as landed"},
	ledger.VerbDeny:    {"Did not land", "Did not land", "recorded as not landed"},
	ledger.VerbAbandon: {"Abandon", "Abandon", "abandoned"},
	ledger.VerbAck:     {"Dealt with", "Dealt with", "dealt with"},
	ledger.VerbPark:    {"Park", "Park", "parked"},
	ledger.VerbNote:    {"Note", "Note", "noted"},
	Retry:              {"Retry", "Retry", "sent"},
}

// Title is what a set's run is called, and Done what its items become.
func (s *Set) Title() string { return bulk[s.Verb].title }
func (s *Set) Done() string  { return bulk[s.Verb].done }

// Bulk shows a frozen set, and asks for its count.
func Bulk(f *draw.Frame, s *Set) *dialog.Dialog {
	n := len(s.Items)
	d := &dialog.Dialog{Title: fmt.Sprintf("%s %d", s.Title(), n), Itself: true}
	d.Add("SET", fmt.Sprintf("%d of %d marked, frozen %s; later rows are not in it", n, n+len(s.Out), s.Took.In(f.Zone).Format("15:04:05")))
	s.money(d)
	for i, why := range s.Out {
		if i == 4 {
			d.Warn("", fmt.Sprintf("and %d more; ^b lists them", len(s.Out)-4))
			break
		}
		name := ""
		if i == 0 {
			name = "LEFT OUT"
		}
		d.Warn(name, why)
	}
	for _, why := range s.Out {
		d.More = append(d.More, "  left out: "+why)
	}
	if s.Verb == Retry {
		d.Add("HOW", fmt.Sprintf("same keys; each is checked and its version tested first. %d, then a pause for you; then ten a second; stops at %d failed or unclear", act.TryFirst, act.StopAfter))
	} else {
		d.Add("HOW", "each by itself, its version tested first; what moved meanwhile is skipped and listed")
	}
	if n == 0 {
		d.Title = s.Title() + ": nothing fits"
		return d
	}
	reason, count := dialog.TextField("Reason", ""), dialog.TypedField(fmt.Sprintf("Type %d", n))
	reference, until := dialog.TextField("Reference", ""), dialog.TextField("Until", "2h")
	d.Fields, d.Do = []*dialog.Field{reason, count}, fmt.Sprintf("%s %d", bulk[s.Verb].do, n)
	switch s.Verb {
	case ledger.VerbAck:
		d.Fields = slices.Insert(d.Fields, 1, reference)
	case ledger.VerbPark:
		d.Fields = slices.Insert(d.Fields, 1, until)
	case Retry:
		d.Do = fmt.Sprintf("Send %d", min(n, act.TryFirst))
	}
	d.Submit = func(now time.Time) (dialog.Action, string) {
		start := Start{Set: s, Reason: reason.Value(), Reference: reference.Value()}
		if start.Reason == "" {
			return nil, "say why: it is kept with each of them"
		}
		switch s.Verb {
		case ledger.VerbAck:
			if start.Reference == "" {
				return nil, needReference
			}
		case ledger.VerbPark:
			var err error
			if start.Until, err = parseUntil(until.Value(), now, f.Zone); err != nil {
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
		d.More = append(d.More, "  "+draw.Left(it.Title, 48)+draw.Right(ticket.Cost(it.never), 8))
	}
	if s.Verb == Retry {
		for _, b := range slices.Sorted(maps.Keys(ground)) {
			d.Add("BECAUSE", fmt.Sprintf("%d: %s", ground[b], ticket.Because(b, "")))
		}
	}
	if worst != nil {
		words := ""
		if byWord > 0 {
			words = fmt.Sprintf(" · %d rated by word", byWord)
		}
		d.Add("MONEY", fmt.Sprintf("never %s · twice %s%s · worst %s   ^b: list", ticket.Full(never), ticket.Full(twice), words, worst.Title))
	}
}

// Pause shows what came of a run so far, and asks whether it goes on.
func Pause(r *act.Run, title string) *dialog.Dialog {
	d := &dialog.Dialog{Title: title, Itself: true, Closed: Stop{r}}
	results(d, r)
	return d
}

// Report lists what became of each item of a run, and what was not touched. A run
// that has stopped can go on from here.
func Report(r *act.Run) *dialog.Dialog {
	d := &dialog.Dialog{Title: bulk[ledger.Verb(r.Verb())].title + ": " + r.Over(), Itself: true}
	d.Facts = []dialog.Fact{{Label: "RESULT", Text: r.Tally(), Grave: r.Trouble() > 0}}
	if r.Left() > 0 {
		d.Warn("NOT TOUCHED", draw.Plural(r.Left(), "operation", "operations"))
	}
	results(d, r)
	return d
}

func results(d *dialog.Dialog, r *act.Run) {
	if n := r.Left(); n > 0 {
		d.Yes = fmt.Sprintf("y go on with %d", n)
		d.Submit = func(time.Time) (dialog.Action, string) { return GoOn{r}, "" }
	}
	for _, line := range r.Lines() {
		d.Facts = append(d.Facts, dialog.Fact{Text: line, Grave: strings.HasPrefix(line, "NOT DONE")})
	}
}
