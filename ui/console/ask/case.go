// Package ask is what a person at the keys can decide about an operation: what a
// key would do now, why it is off, and the dialog that asks before it is done. An
// answer is a value; carrying it out is the console's.
package ask

import (
	"cmp"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/console/detail"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"
)

// Retry stands beside the ledger's verbs where something is sent.
const Retry ledger.Verb = "retry"

// What dialogs ask for.
type (
	// Decide writes a decision; Recheck is how long after it one more check is due.
	Decide struct {
		ledger.Decision
		Recheck     time.Duration
		Done, Title string
	}
	// Send sends once more, or allows it.
	Send struct {
		reconcile.RetryRequest
		Title string
	}
	// Hold stops sends; Downstream and Kind are what it was chosen from.
	Hold struct {
		ledger.Hold
		Downstream, Kind string
	}
	// Release lifts a hold.
	Release struct {
		Scope  ledger.HoldScope
		Reason string
	}
	// Name says who decides, and goes on with a key.
	Name struct{ Name, Key string }
	// Key presses a key of the console.
	Key string
	// Copy gives a text to the terminal's clipboard.
	Copy struct{ What, Text string }
	// Start begins a bulk run over a set.
	Start struct {
		*Set
		Reason, Reference string
		Until             time.Time
	}
	// GoOn lets a bulk run go on, Stop ends it.
	GoOn struct{ Run *act.Run }
	Stop struct{ Run *act.Run }
)

// Case is one operation as it lies before the person who decides.
type Case struct {
	*draw.Frame
	*feed.Brief // nil while it is read
	Row         bool
	Me          string // who decides
	Marks       int    // rows that are marked
	Holds       []ledger.Hold
	Sends       bool   // there is an engine to check and to send with
	Closed      string // why nothing can be decided from here at all
}

// standing is the operation's state, or why there is none.
func (c Case) standing() (ledger.State, string) {
	switch {
	case !c.Row:
		return "", "there is no row"
	case c.Brief == nil:
		return "", "still reading this row, a moment"
	}
	return c.Rec.Operation.StateAt(c.Now), ""
}

// OffRow says why there is nothing to look at.
func (c Case) OffRow() string {
	_, why := c.standing()
	return why
}

// OffDoubt says why it cannot be confirmed or denied.
func (c Case) OffDoubt() string {
	state, why := c.standing()
	if why != "" {
		return why
	}
	o := &c.Rec.Operation
	switch state {
	case ledger.Uncertain:
		return ""
	case ledger.Pending:
		return "in flight until " + c.Moment(o.DeadlineAt) + ": its own answer comes first"
	}
	return "settled: " + ticket.State(state) + ", by " + ticket.Who(o.Actor) + ". U puts it back in doubt first"
}

// OffRetry says why it cannot be sent again.
func (c Case) OffRetry() string {
	state, why := c.standing()
	if why != "" {
		return why
	}
	o := &c.Rec.Operation
	switch state {
	case ledger.Pending:
		return "an attempt is in flight until " + c.Moment(o.DeadlineAt)
	case ledger.Committed:
		return "it landed: sending again would do it twice"
	case ledger.Abandoned:
		return "abandoned by " + ticket.Who(o.Actor) + ". U puts it back in doubt first"
	}
	if h := c.Rec.HeldBy(); h != nil {
		return "held by " + ticket.Who(h.Actor.Name) + ": " + h.Reason + ". H releases"
	}
	if !c.Sends {
		return "nothing can be sent from this console"
	}
	return ""
}

// OffAbandon says why it cannot be given up.
func (c Case) OffAbandon() string {
	state, why := c.standing()
	if why != "" {
		return why
	}
	switch state {
	case ledger.Pending:
		return "an attempt is in flight until " + c.Moment(c.Rec.Operation.DeadlineAt)
	case ledger.Committed:
		return "it landed: there is nothing to abandon"
	case ledger.Abandoned:
		return "it is abandoned already, by " + ticket.Who(c.Rec.Operation.Actor)
	}
	return ""
}

// OffAck says why there is nothing to be dealt with.
func (c Case) OffAck() string {
	if _, why := c.standing(); why != "" {
		return why
	}
	if c.Rec.Operation.Conflict == ledger.NoConflict {
		return "no conflict: nothing to deal with outside"
	}
	return ""
}

// OffPark says why it cannot be put out of the way.
func (c Case) OffPark() string {
	state, why := c.standing()
	if why != "" {
		return why
	}
	o := &c.Rec.Operation
	if state == ledger.Pending {
		return "in flight until " + c.Moment(o.DeadlineAt)
	}
	if o.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned) {
		return "settled: it is out of the way already"
	}
	return ""
}

// OffUndo says why there is nothing to undo.
func (c Case) OffUndo() string {
	state, why := c.standing()
	switch {
	case why != "":
		return why
	case c.Marks > 0:
		return "one at a time: esc takes the marks off"
	case state == ledger.Uncertain:
		return "nothing to undo: it is in doubt"
	case state == ledger.Pending:
		return "nothing to undo: an attempt is in flight until " + c.Moment(c.Rec.Operation.DeadlineAt)
	}
	return ""
}

// OffCheck says why it cannot be checked now.
func (c Case) OffCheck() string {
	state, why := c.standing()
	switch {
	case why != "":
		return why
	case c.Closed != "":
		return c.Closed
	case !c.Sends:
		return "nothing is checked from this console"
	case c.Facts.Unasked != "":
		return "no check is possible: " + c.Facts.Unasked
	case !c.Facts.HasRead:
		return "no check: the policy has no `read` for " + c.Rec.Operation.Kind
	case state == ledger.Pending:
		return "in flight until " + c.Moment(c.Rec.Operation.DeadlineAt)
	}
	return ""
}

// OffLink says why there is no page to open.
func (c Case) OffLink() string {
	if _, why := c.standing(); why != "" {
		return why
	}
	if c.Facts.Link == "" {
		return "no link: the policy names none for " + c.Rec.Operation.Kind
	}
	return ""
}

// OffSides says why there are no sides to switch between.
func (c Case) OffSides() string {
	if _, why := c.standing(); why != "" {
		return why
	}
	if detail.Sides(c.Brief) < 2 {
		return "no conflict with two sides"
	}
	return ""
}

// off is why an act cannot be done, for those that a bulk run can do.
var off = map[ledger.Verb]func(Case) string{
	ledger.VerbConfirm: Case.OffDoubt, ledger.VerbDeny: Case.OffDoubt, ledger.VerbAbandon: Case.OffAbandon,
	ledger.VerbAck: Case.OffAck, ledger.VerbPark: Case.OffPark, ledger.VerbNote: Case.OffRow, Retry: Case.OffRetry,
}

// WouldRetry says what a retry would do now.
func (c Case) WouldRetry() string {
	what := "sends once more"
	if c.Facts.Via == "pipeline" {
		what = "lets " + cmp.Or(c.Rec.Operation.Source.Pipeline, "its pipeline") + " send once more"
	}
	switch c.Facts.Basis {
	case ledger.BasisAbsent, ledger.BasisKeySafe:
		return what + ": " + ticket.Because(c.Facts.Basis, "") + "; one y"
	}
	return what + " at own risk: a reason, and type " + ticket.Typed(c.Facts.Advice.Duplicate.Value)
}

// WouldAdvise says what taking the advice opens.
func (c Case) WouldAdvise() string {
	verb, why := detail.Advice(c.Frame, c.Brief)
	return "opens what is advised: " + strings.ToLower(verb) + ticket.Colon(why)
}

// WouldHold says whether H holds or releases.
func (c Case) WouldHold() string {
	if h := c.covering(); h != nil {
		return "releases the hold " + feed.ScopeWords(h.Scope) + " by " + ticket.Who(h.Actor.Name)
	}
	return "stops every send by machine, of a kind, a downstream or everything"
}

// WouldOpen says which page is opened.
func (c Case) WouldOpen() string { return "opens " + c.Facts.Link }

// covering is the hold that H would release: one on the chosen kind, else any
// that is in force.
func (c Case) covering() *ledger.Hold {
	if c.Brief != nil {
		if h := c.Rec.HeldBy(); h != nil {
			return h
		}
	}
	if len(c.Holds) > 0 {
		return &c.Holds[0]
	}
	return nil
}

// about makes a dialog about the operation as it is shown now.
func (c Case) about(title string) *dialog.Dialog {
	return &dialog.Dialog{
		Title: title, Corner: c.Rec.Operation.Kind,
		Head: c.Rec.Operation.Title, Seen: "as seen at " + c.Now.In(c.Zone).Format("15:04:05"),
		ID: c.Raw.Operation.ID, Version: c.Raw.Operation.Version,
	}
}
