package ask

import (
	"cmp"
	"time"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// RunTitle is what a run is called.
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
		d.Add("OVER", "%s. To go on with them is a new decision", draw.Plural(left, "row stays as it is", "rows stay as they are"))
	case left > 0 && run.Sends() && !sends:
		d.Add("HERE", "nothing can be sent from this console")
	case left > 0:
		d.Yes = "G go on with " + ledger.Count(left)
		d.Submit = func(time.Time) (dialog.Action, dialog.Fault) { return GoOn{run}, dialog.Fault{} }
	}
	if run.Open() && left > 0 && closed == "" {
		d.Keys["E"] = Halt{Run: run, End: true}
		d.Add("OR", "E ends it: %s untouched. Esc leaves it as it is, p comes back", draw.Plural(left, "row stays", "rows stay"))
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
