package act

import (
	"cmp"
	"context"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// said is how each outcome is told: counted, and of one item.
var said = map[ledger.Came]struct{ counted, one safe.Format }{
	ledger.CameTwice:   {"HAPPENED TWICE", "HAPPENED TWICE"},
	ledger.CameUnclear: {"unclear", "sent, no clear answer"},
	ledger.CameFailed:  {"did not land", "sent, it did not land"},
	ledger.CameNever:   {"never sent", "nothing was sent, it is as before"},
	ledger.CameBroken:  {"not done", "NOT DONE"},
	ledger.CameHeld:    {"put off", "put off"},
	ledger.CameMoved:   {"skipped", "skipped, moved"},
	ledger.CameSkipped: {"left out", "left out"},
	ledger.CameAllowed: {"allowed", "one send allowed, waiting for its pipeline"},
	ledger.CameAlready: {"landed already", "it had landed already, nothing was sent"},
	ledger.CameLanded:  {"landed", "sent, it landed"},
}

// decided is how a decision without a send is told.
func decided(verb string) safe.Text {
	words := map[string]safe.Format{"confirm": "recorded as landed", "deny": "recorded as not landed", "abandon": "abandoned",
		"ack": "dealt with", "park": "parked", "note": "noted"}
	return safe.Say(cmp.Or(words[verb], "done"))
}

// Account is what became of a run, and by now of its sends that had no clear answer.
type Account struct {
	Record ledger.DecisionRun
	Items  []ledger.RunItem
	since  since
}

// Read reads the account of a run, or ledger.ErrNotFound.
func Read(ctx context.Context, store ledger.Store, id string) (a Account, err error) {
	if a.Record, a.Items, err = store.Account(ctx, id); err == nil {
		a.since, err = lookBack(ctx, store, a.Items)
	}
	return a, err
}

// State says in a few words where a run stands.
func State(run ledger.DecisionRun, now time.Time) safe.Text {
	switch driver := run.DrivenBy(now); {
	case run.State == ledger.RunRunning && driver == "":
		return safe.Say("broken off, no one drives it")
	case run.State == ledger.RunRunning && driver != run.Actor.Name:
		return safe.Say("running, driven by %s", ticket.Who(driver))
	case run.State == ledger.RunWaiting:
		return safe.Say("waits for a person")
	}
	return safe.Of(string(run.State))
}

// Tally counts what became of a run's items, what went well first, with who moved
// those that are skipped.
func (a Account) Tally() safe.Text { return safe.Join(a.counts(time.Time{}), " · ") }

// counts are how many items came to what, and what became by now of those that are unclear.
func (a Account) counts(now time.Time) (out []safe.Text) {
	for _, c := range slices.Backward(ledger.Outcomes) {
		n := a.Record.Tally[c]
		if n == 0 {
			continue
		}
		word := safe.Say(said[c].counted)
		if c == ledger.CameDecided {
			word = decided(a.Record.Verb)
		}
		text := safe.Say("%s %s%s", ledger.Count(n), word, by(a.Items, c))
		if c == ledger.CameUnclear {
			text = safe.Say("%s%s", text, a.since.text(now))
		}
		out = append(out, text)
	}
	return out
}

// by names who moved or holds the items that came to this.
func by(items []ledger.RunItem, c ledger.Came) safe.Text {
	var names []safe.Text
	for _, it := range items {
		if who := ticket.Who(it.By); it.Came == c && it.By != "" && !slices.Contains(names, who) {
			names = append(names, who)
		}
	}
	if len(names) == 0 {
		return safe.Text{}
	}
	return safe.Say(" (%s)", safe.Join(names, ", "))
}

// since is what became, by now, of the sends of a run that had no clear answer.
type since struct {
	Landed, Failed, Checking, Open int
	NextCheck                      time.Time
}

// lookBack reads what became of the sends without a clear answer.
func lookBack(ctx context.Context, store ledger.Reader, items []ledger.RunItem) (s since, err error) {
	unclear := cameTo(items, ledger.CameUnclear)
	if len(unclear) == 0 {
		return s, nil
	}
	recs, err := store.Records(ctx, ledger.Each(unclear, func(it ledger.RunItem) string { return it.OperationID }))
	for _, rec := range recs {
		switch at := rec.Pricing.ReadAt; {
		case rec.Operation.State == ledger.Committed:
			s.Landed++
		case rec.Operation.State == ledger.Failed:
			s.Failed++
		case rec.Operation.State == ledger.Uncertain && !at.IsZero() && at.Before(ledger.Never):
			if s.Checking++; s.NextCheck.IsZero() || at.Before(s.NextCheck) {
				s.NextCheck = at
			}
		default:
			s.Open++
		}
	}
	return s, err
}

// text says it behind the count of what is unclear.
func (s since) text(now time.Time) safe.Text {
	var out []safe.Text
	if s.Landed > 0 {
		out = append(out, safe.Say("%s landed since", ledger.Count(s.Landed)))
	}
	if s.Failed > 0 {
		out = append(out, safe.Say("%s did not land since", ledger.Count(s.Failed)))
	}
	if s.Checking > 0 {
		text := safe.Say("checking %s", ticket.Span(max(s.NextCheck.Sub(now), 0)))
		if len(out) > 0 || s.Open > 0 {
			text = safe.Say("%s %s", ledger.Count(s.Checking), text)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return safe.Text{}
	}
	return safe.Say(", %s", safe.Join(out, ", "))
}

// Checked reports whether a check is to come of a send that had no clear answer.
func (a Account) Checked() bool { return !a.since.NextCheck.IsZero() }

// Sum accounts for every item of a run: 68 = 60 landed + 2 landed already + 6 unclear,
// checking 40 s.
func (a Account) Sum(now time.Time) safe.Text {
	out, run := a.counts(now), a.Record
	if n := run.Left() - run.Tally[ledger.CameHeld]; n > 0 {
		to := safe.Say("not touched")
		if run.Open() {
			to = safe.Say("to go")
		}
		out = append(out, safe.Say("%s %s", ledger.Count(n), to))
	}
	return safe.Say("%s = %s", ledger.Count(run.Size), safe.Join(out, " + "))
}

// Line says what became of one item. What went wrong is grave.
func Line(verb string, it ledger.RunItem) ticket.Fact {
	word := safe.Say(said[it.Came].one)
	switch {
	case it.Came == ledger.CameDecided:
		word = decided(verb)
	case it.Came == ledger.CameMoved && it.By != "":
		word = safe.Say("skipped, moved by %s", ticket.Who(it.By))
	case it.Came == ledger.CameLanded && it.Word != "":
		word = safe.Say("%s, receipt %s", word, it.Word)
	}
	f := ticket.Tell("", "%s: %s", word, it.Title)
	if it.Word != "" && it.Came != ledger.CameLanded { // a long reason may be cut, which row it is may not
		f.Text = safe.Say("%s: %s", f.Text, it.Word)
	}
	f.Grave = it.Came.Trouble()
	return f
}

// Amiss are those that did not come to what the run was for.
func (a Account) Amiss() []ledger.RunItem {
	fine := slices.Index(ledger.Outcomes, ledger.CameAllowed)
	return slices.DeleteFunc(a.Exceptions(), func(it ledger.RunItem) bool { return slices.Index(ledger.Outcomes, it.Came) >= fine })
}

// Exceptions are the items that came to something, what needs a look first.
func (a Account) Exceptions() (out []ledger.RunItem) {
	for _, came := range ledger.Outcomes {
		out = append(out, cameTo(a.Items, came)...)
	}
	return out
}

func cameTo(items []ledger.RunItem, came ledger.Came) []ledger.RunItem {
	return slices.DeleteFunc(slices.Clone(items), func(it ledger.RunItem) bool { return it.Came != came })
}
