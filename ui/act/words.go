package act

import (
	"context"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// said is how each outcome is told: counted beside others, in the sum at the end,
// and of one item.
var said = map[ledger.Came]struct{ count, sum, one safe.Format }{
	ledger.CameTwice:   {"TWICE", "HAPPENED TWICE", "HAPPENED TWICE"},
	ledger.CameUnclear: {"unclear", "unclear", "sent, no clear answer"},
	ledger.CameFailed:  {"did not land", "did not land", "sent, it did not land"},
	ledger.CameNever:   {"never sent", "never sent", "nothing was sent, it is as before"},
	ledger.CameBroken:  {"not done", "not done", "NOT DONE"},
	ledger.CameHeld:    {"put off", "put off", "put off"},
	ledger.CameMoved:   {"skipped", "skipped", "skipped, moved"},
	ledger.CameSkipped: {"left out", "left out", "left out"},
	ledger.CameAllowed: {"allowed", "allowed, waiting for their pipelines", "one send allowed, waiting for its pipeline"},
	ledger.CameAlready: {"landed already", "had landed already, nothing sent", "it had landed already, nothing was sent"},
	ledger.CameLanded:  {"landed", "landed", "sent, it landed"},
}

// done is how a decision without a send is told.
var done = map[string]safe.Format{
	"confirm": "recorded as landed", "deny": "recorded as not landed", "abandon": "abandoned", "ack": "dealt with", "park": "parked", "note": "noted",
}

// words is how an outcome is told of so many.
func words(verb string, c ledger.Came, sum bool) safe.Text {
	switch {
	case c == ledger.CameDecided && done[verb] != "":
		return safe.Say(done[verb])
	case c == ledger.CameDecided:
		return safe.Say("done")
	case sum:
		return safe.Say(said[c].sum)
	}
	return safe.Say(said[c].count)
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
func Tally(run ledger.DecisionRun, items []ledger.RunItem) safe.Text {
	var out []safe.Text
	for _, c := range slices.Backward(ledger.Outcomes) {
		if n := run.Tally[c]; n > 0 {
			out = append(out, safe.Say("%s %s%s", ledger.Count(n), words(run.Verb, c, false), by(items, c)))
		}
	}
	return safe.Join(out, " · ")
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

// Since is what became, by now, of the sends of a run that had no clear answer.
type Since struct {
	Landed, Failed, Checking, Open int
	NextCheck                      time.Time
}

// LookBack reads what became of the sends without a clear answer.
func LookBack(ctx context.Context, store ledger.Reader, items []ledger.RunItem) (s Since, err error) {
	var ids []string
	for _, it := range items {
		if it.Came == ledger.CameUnclear {
			ids = append(ids, it.OperationID)
		}
	}
	if len(ids) == 0 {
		return s, nil
	}
	recs, err := store.Records(ctx, ids)
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
func (s Since) text(now time.Time) safe.Text {
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

// Sum accounts for every item of a run: 68 = 60 landed + 2 had landed already,
// nothing sent + 6 unclear, checking 40 s.
func Sum(run ledger.DecisionRun, items []ledger.RunItem, since Since, now time.Time) safe.Text {
	var out []safe.Text
	for _, c := range slices.Backward(ledger.Outcomes) {
		n := run.Tally[c]
		if n == 0 {
			continue
		}
		text := safe.Say("%s %s%s", ledger.Count(n), words(run.Verb, c, true), by(items, c))
		if c == ledger.CameUnclear {
			text = safe.Say("%s%s", text, since.text(now))
		}
		out = append(out, text)
	}
	if n := run.Left() - run.Tally[ledger.CameHeld]; n > 0 {
		out = append(out, safe.Say("%s %s", ledger.Count(n), map[bool]safe.Text{true: safe.Say("to go"), false: safe.Say("not touched")}[run.Open()]))
	}
	return safe.Say("%s = %s", ledger.Count(run.Size), safe.Join(out, " + "))
}

// Line says what became of one item. What went wrong is grave.
func Line(verb string, it ledger.RunItem) ticket.Fact {
	word := safe.Say(said[it.Came].one)
	switch {
	case it.Came == ledger.CameDecided:
		word = words(verb, it.Came, false)
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
func Amiss(items []ledger.RunItem) []ledger.RunItem {
	all, fine := Exceptions(items), slices.Index(ledger.Outcomes, ledger.CameAllowed)
	n := slices.IndexFunc(all, func(it ledger.RunItem) bool { return slices.Index(ledger.Outcomes, it.Came) >= fine })
	if n < 0 {
		n = len(all)
	}
	return all[:n]
}

// Exceptions are the items that came to something, what needs a look first.
func Exceptions(items []ledger.RunItem) []ledger.RunItem {
	out := slices.DeleteFunc(slices.Clone(items), func(it ledger.RunItem) bool { return it.Came == "" })
	slices.SortStableFunc(out, func(a, b ledger.RunItem) int {
		return slices.Index(ledger.Outcomes, a.Came) - slices.Index(ledger.Outcomes, b.Came)
	})
	return out
}
