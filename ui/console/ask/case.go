// Package ask is what a person at the keys can decide about an operation: what a
// key would do now, why it is off, and the dialog that asks before it is done. An
// answer is a value; carrying it out is the console's.
package ask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// What dialogs ask for.
type (
	// Decide writes a decision.
	Decide struct {
		ledger.Decision
		Done, Title safe.Text
	}
	// Send sends once more, or allows it.
	Send struct {
		reconcile.RetryRequest
		Title safe.Text
	}
	// Outage writes what a person does with an outage.
	Outage struct {
		ledger.OutageChange
		Done, Title safe.Text
	}
	// Hold stops sends.
	Hold struct{ ledger.Hold }
	// Release lifts a hold.
	Release struct {
		Scope  ledger.HoldScope
		Reason string
	}
	// Name says who decides, and goes on with a key.
	Name struct{ Name, Key string }
	// Key presses a key of the console.
	Key string
	// Copy gives a text to the terminal's clipboard: one value, which may be pasted into a
	// shell and stays on one line, or a page.
	Copy struct {
		What, Text string
		Page       bool
	}
	// Start begins a bulk run over a set.
	Start struct {
		*Set
		Reason, Reference string
		Truth             ledger.Truth
		Until             time.Time
	}
	// GoOn lets a bulk run go on, driven from here. Halt pauses it or ends it for good.
	GoOn struct{ Run ledger.DecisionRun }
	Halt struct {
		Run ledger.DecisionRun
		End bool
	}
	// OpenRun opens the account of a bulk run, from the list of them where it is Listed;
	// ListRuns that list.
	OpenRun struct {
		ID     string
		Listed bool
	}
	ListRuns struct{}
	// Show opens one operation, from the account of a run.
	Show struct {
		ID   string
		From OpenRun
	}
)

// Case is one operation as it lies before the person who decides.
type Case struct {
	*draw.Frame
	*feed.Brief // nil while it is read
	Row         bool
	Outage      *ticket.Outage // under the cursor, instead of a row
	Me          string         // who decides
	Marks       table.Covers   // rows that are marked
	Runs        int            // bulk runs that are not finished
	Holds       []ledger.Hold
	Sends       bool   // there is an engine to check and to send with
	Closed      string // why nothing can be decided from here at all
}

func (c Case) OffRun() safe.Text {
	if c.Runs == 0 {
		return safe.Say("no bulk run is open; P parks")
	}
	return safe.Text{}
}

func (c Case) OffRow() safe.Text {
	switch {
	case c.Outage != nil:
		return safe.Say("this is an outage: ↵ leads to its rows")
	case !c.Row:
		return safe.Say("there is no row")
	case c.Brief == nil:
		return safe.Say("still reading this row, a moment")
	}
	return safe.Text{}
}

// OffOpen says why there is nothing to open. What is still being read may be opened.
func (c Case) OffOpen() safe.Text {
	if c.Outage != nil || c.Row {
		return safe.Text{}
	}
	return c.OffRow()
}

func (c Case) OffNote() safe.Text {
	if c.Outage != nil {
		return safe.Text{}
	}
	return c.OffRow()
}

func (c Case) OffOutage() safe.Text {
	switch {
	case c.Outage != nil:
		return safe.Text{}
	case !c.Row:
		return c.OffRow()
	}
	return safe.Say("this is one row, not an outage")
}

func (c Case) told() ticket.Ticket { return c.Brief.At(c.Now, c.Zone) }

// Off says why a verb cannot be done about the operation from here.
func Off(verb ledger.Verb) func(Case) safe.Text {
	return func(c Case) safe.Text {
		row, check := c.OffRow(), verb == ticket.Check
		switch {
		case check && c.Marks.N > 0:
			return OffChecks(c)
		case !row.Empty():
			return row
		case verb == ledger.VerbUndo && c.Marks.N > 0:
			return oneAtATime
		case check && !OffChecks(c).Empty():
			return OffChecks(c)
		}
		why := c.told().Off(verb)
		if verb == ticket.Retry && why.Empty() && !c.Sends {
			return safe.Say("nothing can be sent from this console")
		}
		return why
	}
}

// OffChecks says why nothing is checked from here at all.
func OffChecks(c Case) safe.Text {
	switch {
	case c.Closed != "":
		return safe.Of(c.Closed)
	case !c.Sends:
		return safe.Say("nothing is checked from this console")
	}
	return safe.Text{}
}

func WouldCheck(c Case) safe.Text {
	if c.Marks.N > 0 {
		return safe.Say("asks the other side once about each of the %s marked", ledger.Count(c.Marks.N))
	}
	return safe.Say("asks the other side once, now")
}

var oneAtATime = safe.Say("one at a time: esc takes the marks off")

// OffAdvice says why there is no advice to take: each marked row has its own.
func (c Case) OffAdvice() safe.Text {
	if c.Marks.N > 0 {
		return oneAtATime
	}
	return c.OffRow()
}

func (c Case) OffLink() safe.Text {
	if why := c.OffRow(); !why.Empty() {
		return why
	}
	if t := c.told(); t.Facts.Link == "" {
		return safe.Say("no link: the policy names none for %s", t.Kind())
	}
	return safe.Text{}
}

func (c Case) WouldRetry() safe.Text { return c.told().WouldRetry() }

func (c Case) WouldAdvise() safe.Text {
	verb, why := c.told().Advice()
	if !why.Empty() {
		why = safe.Say(": %s", why)
	}
	return safe.Say("opens what is advised: %s%s", verb, why)
}

func (c Case) WouldHold() safe.Text {
	if h := c.covering(); h != nil {
		return safe.Say("releases the hold %s by %s", ticket.Scope(h.Scope), ticket.Who(h.Actor.Name))
	}
	choices, holds := holds(c)
	for i, h := range holds {
		if strings.HasPrefix(string(h.Scope), "downstream:") {
			choices[i] = "downstream " + choices[i]
		}
	}
	return safe.Say("stops every retry, by machine or by hand, of what you choose: %s", strings.Join(choices, ", "))
}

func (c Case) WouldOpen() safe.Text {
	opens := safe.Say("opens %s", c.told().Facts.Link)
	if c.Marks.N > 0 {
		return safe.Say("only the row under the cursor, %s: %s", c.told().Title(), opens)
	}
	return opens
}

// OffHold says why it is not known what to hold.
func (c Case) OffHold() safe.Text {
	if c.Row && c.Outage == nil {
		return c.OffRow()
	}
	return safe.Text{}
}

// covering is the hold that H would release: one on what is under the cursor.
func (c Case) covering() *ledger.Hold {
	kind, scope := "", ledger.HoldScope("all")
	switch {
	case c.Outage != nil:
		scope = ledger.HoldScope(c.Outage.Scope)
	case c.Brief != nil:
		kind = c.told().Row.Kind
	}
	for i, h := range c.Holds {
		if h.Covers(kind, c.Now) || h.Scope == scope {
			return &c.Holds[i]
		}
	}
	return nil
}

// about makes a dialog about the operation as it is shown now.
func (c Case) about(title safe.Format) *dialog.Dialog {
	t := c.told()
	d := &dialog.Dialog{
		Title: safe.Say(title), Corner: t.Kind(),
		Head: t.Title(), Seen: safe.Say("as seen at %s", c.Now.In(c.Zone).Format("15:04:05")),
		ID: t.Row.ID, Version: t.Row.Version,
	}
	c.alone(d)
	return d
}

// alone says in a dialog that is not about the marked rows that there are some.
func (c Case) alone(d *dialog.Dialog) {
	if c.Marks.N > 0 {
		d.Warn("NOT THE MARKS", "this is not about them; %s", c.Marks.Words())
	}
}

func (c Case) CopyMenu() *dialog.Dialog {
	d := c.about("Copy")
	d.Keys = map[string]dialog.Action{}
	o := &c.told().Record.Operation
	shown := safe.Of
	add := func(key, name, value string) {
		if value != "" {
			d.Put(ticket.Fact{Label: safe.Say("%s  %s", key, name), Text: shown(draw.Cut(value, 200))})
			d.Keys[key] = Copy{What: name, Text: value}
		}
	}
	add("i", "id", o.ID)
	add("v", "id@version", fmt.Sprintf("%s@%d", o.ID, o.Version))
	add("k", "key", o.KeyToSend())
	add("t", "token", o.Token)
	add("r", "receipt", o.Receipt())
	for i := 1; i < len(o.Receipts) && i < 9; i++ {
		add(fmt.Sprint(i+1), fmt.Sprintf("receipt %d", i+1), o.Receipts[i])
	}
	add("l", "link", c.told().Facts.Link)
	var input bytes.Buffer
	if json.Compact(&input, o.Input) == nil {
		shown = safe.JSON
		add("n", "input", input.String())
	}
	shown = safe.Of
	add("s", "command", "indoubt show "+ledger.ShellWord(o.ID))
	return d
}

// Menu is an empty list of what can be done about the operation.
func (c Case) Menu() *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("What can I do with the %s marked? Press its key", ledger.Count(c.Marks.N)), Head: c.Marks.Words()}
	if c.Marks.N == 0 {
		d = c.about("What can I do? Press its key")
	}
	d.Keys = map[string]dialog.Action{}
	return d
}
