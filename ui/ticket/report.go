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

// Report is what a hand-over or a post-mortem says of a time, or of one outage.
type Report struct {
	From, Now time.Time
	Zone      *time.Location
	Outages   []Outage
	More      int      // outages that it does not tell of
	Alone     []Ticket // need a person and are in no outage; the dearest
	AloneCut  bool     // there are more of these
	Acts      []Act
	Runs      []Run
	Wrong     []Wrong
	Open      ledger.Needing
	Currency  string
	Events    int       // that it rests on
	Oldest    time.Time // of them
	Cut       bool      // there were more, and older
	Titles    map[string]safe.Text
	Again     []string // commands that show it again: the page first, then the history
}

// Act is what someone did or found, with all that was the same soon after.
type Act struct {
	ledger.Event // the first
	Last         time.Time
	N            int
	Decided      bool // what is true of an operation, or that it may be sent once more
}

// Run is a decision over several operations, and how it ended.
type Run struct {
	ledger.DecisionRun
	Ended safe.Text
}

// Wrong is what was found to be otherwise than decided, or to have happened twice.
type Wrong struct {
	ledger.Event
	Before *ledger.Event // the decision
}

// soon is how long after the last one the same belongs to an act.
const soon = 10 * time.Minute

var decisions = map[string]string{"confirm": "it landed", "deny": "it did not land", "abandon": "abandoned, not sent any more", "ack": "dealt with",
	"undo": "undone", "allow": "one send allowed", "retry": "sent once more"}

// Told gathers what events tell: the acts, and what was found wrong.
func Told(events []ledger.Event) (acts []Act, wrong []Wrong) {
	newest, decided := map[string]int{}, map[string]*ledger.Event{}
	for i, e := range events {
		if e.Conflict != ledger.NoConflict && e.OperationID != "" {
			wrong = append(wrong, Wrong{e, decided[e.OperationID]})
		}
		act := Act{Event: e, Last: e.At, N: 1, Decided: decisions[e.Verb] != "" || e.Verb == "read"}
		switch {
		case act.Decided:
			decided[e.OperationID] = &events[i]
		case slices.Contains([]string{"begin", "wait", "tree", "clock"}, e.Verb): // their end tells
			continue
		}
		why := e.Reason
		if e.Actor.Machine && e.OperationID != "" { // each has a receipt of its own
			why = detail(e.Detail, "error_class") + detail(e.Detail, "verdict")
		}
		key := fmt.Sprintf("%q", []string{e.Actor.Name, e.Verb, string(e.From), string(e.To), string(e.Conflict), why})
		if k, is := newest[key]; is && e.OperationID != "" && e.At.Before(acts[k].Last.Add(soon)) {
			acts[k].Last, acts[k].N = e.At, acts[k].N+1
			continue
		}
		newest[key] = len(acts)
		acts = append(acts, act)
	}
	return acts, wrong
}

func (a Act) What() safe.Text {
	what := cmp.Or(decisions[a.Verb], strings.ReplaceAll(a.Verb, "_", " "))
	switch {
	case a.Verb == "read":
		what = VerdictWord(ledger.Verdict(detail(a.Detail, "verdict")))
	case a.From != a.To && a.To != "" && decisions[a.Verb] == "":
		what = State(a.To)
	}
	if class := ErrorClass(ledger.ErrorClass(detail(a.Detail, "error_class"))); class != "" {
		what += " (" + class + ")"
	}
	return safe.Of(what)
}

// Evidence is what a decision rests on: a check, or a word.
func (a Act) Evidence() safe.Text {
	switch {
	case a.Verb == "read" && a.N > 1:
		return safe.Say("a check of each")
	case a.Verb == "read":
		return safe.Say("a check%s", Colon(a.Reason))
	case a.Actor.Machine && a.N > 1:
		return safe.Say("the policy")
	case a.Actor.Machine:
		return safe.Say("the policy%s", Colon(a.Reason))
	}
	return safe.Say("the word of %s%s", Who(a.Actor.Name), Colon(a.Reason))
}

// account is what stands above the history of an outage.
func (o Outage) account(heading string) string {
	twice, _ := o.Twice()
	var b strings.Builder
	sent := o.SentAgain()
	if !sent.Empty() {
		sent = safe.Say(" %s.", sent)
	}
	fmt.Fprintf(&b, "%s %s\n\n%s. %s.%s %s. %s.\n\n", heading, markdown(o.Title()), o.Count(), o.Account(), sent, twice, markdown(o.Taken()))
	b.WriteString("| rows | what is true | worth | what to do |\n|---|---|---|---|\n")
	for _, g := range o.Groups() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", ledger.Count(g.Sum.N), markdown(g.True), g.Money(), g.Do)
	}
	if out := o.LeftOut(); !out.Empty() {
		fmt.Fprintf(&b, "\nNot in the amounts: %s.\n", out)
	}
	for _, l := range o.Landings() {
		fmt.Fprintf(&b, "\n%s.\n", markdown(l))
	}
	for _, g := range o.Groups() {
		if g.Name == ledger.Group(ledger.ConflictTwice) && !g.Twice().Empty() {
			fmt.Fprintf(&b, "\nHappening twice costs %s.\n", g.Twice())
		}
	}
	return b.String() + "\n"
}

// markdown is text that stays text on a page.
func markdown(t safe.Text) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "[", `\[`, "`", "\\`", "*", `\*`).Replace(t.String())
}

func (r Report) Markdown() string {
	var b strings.Builder
	clock := func(t time.Time) string { return t.In(r.Zone).Format("2006-01-02 15:04 MST") }
	fmt.Fprintf(&b, "# Report, %s to %s\n\n", clock(r.From), clock(r.Now))
	for _, o := range r.Outages {
		b.WriteString(o.account("##"))
	}
	switch {
	case r.More > 0:
		fmt.Fprintf(&b, "And %s more: `indoubt outage list`\n\n", ledger.Count(r.More))
	case len(r.Outages) == 0:
		b.WriteString("No outage.\n\n")
	}
	b.WriteString("## Still open\n\n")
	fmt.Fprintf(&b, "%s need a person. %s did not land and was not sent again; %s is at stake by the odds. %s in conflict, %s of them happened twice.\n",
		ledger.Count(r.Open.NeedsYou), r.money(r.Open.Unsent), r.money(r.Open.Loss), ledger.Count(r.Open.Conflicts), ledger.Count(r.Open.Twice))
	if r.Open.ByWord > 0 {
		fmt.Fprintf(&b, "The policy gives the cost of %s as a word.\n", ledger.Count(r.Open.ByWord))
	}
	if len(r.Alone) > 0 {
		b.WriteString("\nIn no outage:\n\n")
		table(&b, r, r.Alone, []string{"since", "what", "what to do", "look"}, func(t Ticket) []string {
			verb, why := t.Advice()
			return []string{r.at(t.Row.CreatedAt), markdown(t.Title()), markdown(safe.Say("%s%s", verb, Colon(why.String()))), fmt.Sprintf("`indoubt show %s`", safe.Of(t.Row.ID))}
		})
		if r.AloneCut {
			b.WriteString("\nAnd more: `indoubt list 'needs:you -outage:any'`\n")
		}
	}
	if r.Cut {
		fmt.Fprintf(&b, "\nWhat follows rests on the newest %s events, from %s on: `%s` has the earlier ones.\n", ledger.Count(r.Events), clock(r.Oldest), safe.Of(r.Again[1]))
	}
	b.WriteString("\n## Who decided what, on what evidence\n\n")
	table(&b, r, r.acts(true), []string{"when", "who", "rows", "decided", "evidence", "of"}, func(a Act) []string {
		return []string{r.when(a), markdown(Who(a.Actor.Name)), ledger.Count(a.N), markdown(a.What()), markdown(a.Evidence()), r.of(a)}
	})
	b.WriteString("\n## Bulk runs\n\n")
	table(&b, r, r.Runs, []string{"when", "who", "run", "why", "of", "how it ended"}, func(run Run) []string {
		return []string{r.at(run.CreatedAt), markdown(Who(run.Actor.Name)), fmt.Sprintf("%s of %s", markdown(safe.Of(run.Verb)), ledger.Count(run.Size)), markdown(safe.Of(run.Terms.Reason)), r.outage(run.Terms.Outage), markdown(run.Ended)}
	})
	b.WriteString("\n## Found wrong later\n\n")
	r.left(&b, len(r.Wrong))
	for _, w := range tail(r.Wrong) {
		fmt.Fprintf(&b, "- %s %s: %s%s", r.at(w.At), r.title(w.OperationID), strings.ToLower(Conflict(w.Conflict)), markdown(Colon(w.Reason)))
		if w.Before != nil {
			fmt.Fprintf(&b, "; before: %s by %s", markdown(Act{Event: *w.Before}.What()), markdown(Who(w.Before.Actor.Name)))
		}
		fmt.Fprintf(&b, ": `indoubt show %s`\n", safe.Of(w.OperationID))
	}
	if len(r.Wrong) == 0 {
		b.WriteString("Nothing.\n")
	}
	b.WriteString("\n## What else happened\n\n")
	table(&b, r, r.acts(false), []string{"when", "who", "rows", "what", "why", "of"}, func(a Act) []string {
		rows, why := ledger.Count(a.N), markdown(safe.Of(Why(a.Event, r.at)))
		if a.OperationID == "" {
			rows = "–"
		} else if a.N > 1 && a.Actor.Machine {
			why = ""
		}
		return []string{r.when(a), markdown(Who(a.Actor.Name)), rows, markdown(a.What()), why, r.of(a)}
	})
	b.WriteString("\n## Look again\n\n")
	for _, command := range r.Again {
		fmt.Fprintf(&b, "- `%s`\n", safe.Of(command))
	}
	return b.String()
}

// lines is how many rows of a table a person reads.
const lines = 200

func tail[T any](all []T) []T { return all[max(0, len(all)-lines):] }

// left says how many rows the page leaves out.
func (r Report) left(b *strings.Builder, rows int) {
	if rows > lines {
		fmt.Fprintf(b, "%s earlier ones are left out: `%s` has them.\n\n", ledger.Count(rows-lines), safe.Of(r.Again[1]))
	}
}

// acts are the decisions, or all else.
func (r Report) acts(decided bool) []Act {
	return slices.DeleteFunc(slices.Clone(r.Acts), func(a Act) bool { return a.Decided != decided })
}

// Lines are the events that the page names an operation of.
func (r Report) Lines() []ledger.Event {
	acts := append(tail(r.acts(true)), tail(r.acts(false))...)
	return append(ledger.Each(acts, func(a Act) ledger.Event { return a.Event }),
		ledger.Each(tail(r.Wrong), func(w Wrong) ledger.Event { return w.Event })...)
}

// table prints the newest of its rows.
func table[T any](b *strings.Builder, r Report, all []T, head []string, row func(T) []string) {
	if len(all) == 0 {
		b.WriteString("Nothing.\n")
		return
	}
	r.left(b, len(all))
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, one := range tail(all) {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row(one), " | "))
	}
}

func (r Report) outage(id string) string {
	if i := slices.IndexFunc(r.Outages, func(o Outage) bool { return o.ID == id }); i >= 0 {
		return markdown(r.Outages[i].Reason())
	}
	return markdown(safe.Of(id))
}

func (r Report) money(v float64) string {
	return strings.TrimSpace(markdown(safe.Of(r.Currency)) + " " + Full(v))
}

func (r Report) at(t time.Time) string { return Moment(t, r.Now, r.Zone) }

func (r Report) when(a Act) string {
	if a.Last.Equal(a.At) {
		return r.at(a.At)
	}
	return r.at(a.At) + "–" + r.at(a.Last)
}

// of is the operation of an act, or the first of several.
func (r Report) of(a Act) string {
	switch {
	case a.OperationID == "":
		return ""
	case a.N > 1:
		return fmt.Sprintf("%s, and %s more", r.title(a.OperationID), ledger.Count(a.N-1))
	}
	return r.title(a.OperationID)
}

func (r Report) title(id string) string {
	if t := r.Titles[id]; !t.Empty() {
		return markdown(t)
	}
	return markdown(safe.Of(id))
}
