package ask

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// warn adds what every dialog about an operation says: a hold, other operations on
// the same thing, and what others are doing.
func (c Case) warn(d *dialog.Dialog) { d.Put(c.told().Warnings(c.Me, 2)...) }

// known adds what is fact and what is guess.
func (c Case) known(d *dialog.Dialog) {
	text, _ := c.told().Known()
	d.Add("KNOWN", "%s", text)
	c.warn(d)
}

func (c Case) decide(dec ledger.Decision, done safe.Text) Decide {
	t := c.told()
	dec.ID = t.Row.ID
	if dec.Verb != ledger.VerbNote { // a remark is about whatever it has become
		dec.Version = t.Row.Version
	}
	dec.Looks = t.Facts.Looks
	return Decide{Decision: dec, Done: done, Title: t.Title()}
}

// withReason finishes a dialog that needs a reason and nothing else.
func (c Case) withReason(d *dialog.Dialog, label, do string, verb ledger.Verb, done safe.Format, ask string) *dialog.Dialog {
	reason := dialog.TextField(label, "").Must()
	d.Fields, d.Do = []*dialog.Field{reason}, do
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		return c.decide(ledger.Decision{Verb: verb, Reason: reason.Value()}, safe.Say(done)), missing(reason, ask)
	}
	return d
}

func missing(f *dialog.Field, what string) dialog.Fault {
	if f.Value() == "" {
		return dialog.Fault{Why: what, At: f}
	}
	return dialog.Fault{}
}

func (c Case) Confirm() *dialog.Dialog {
	d := c.about("It landed?")
	rec, facts := c.told().Record, c.told().Facts
	known := rec.Operation.Receipts
	for _, r := range rec.Reads {
		if r.Verdict == ledger.Landed {
			known = append(known[:len(known):len(known)], r.Receipts...)
			break
		}
	}
	known = unique(known)
	candidates := unique(c.told().Candidates())
	c.known(d)
	const will = "record that it landed; nothing is sent"
	if rec.Operation.Verdict == ledger.Landed && len(known) > 0 {
		d.Add("RECEIPT", "%s", ticket.List(known))
		d.Add("WILL", will)
		d.Add("UNDO", "U puts it back in doubt")
		d.Yes = "y it landed"
		d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
			return c.decide(ledger.Decision{Verb: ledger.VerbConfirm, Receipts: known}, safe.Say("recorded as landed")), dialog.Fault{}
		}
		return d
	}
	d.Add("WILL", will)
	d.Add("IF WRONG", "it is never done: %s", ticket.FullCost(facts.Advice.Miss))
	d.Add("TWO RECEIPTS", "with a comma between them, make it HAPPENED TWICE")
	if len(candidates) > 0 {
		d.Add("MAY BE IT", "%s; the check cannot tell whose", ticket.List(candidates))
		if len(known) == 0 && len(candidates) == 1 {
			known = candidates
		}
	}
	receipts, reason := dialog.TextField("Receipts", writeReceipts(known)), dialog.TextField("How do you know", "")
	d.Fields, d.Do = []*dialog.Field{receipts, reason}, "It landed"
	maybe := func(given []string) bool {
		return slices.ContainsFunc(given, func(r string) bool { return slices.Contains(candidates, r) })
	}
	reason.MustWhere(func() bool {
		given, _ := readReceipts(receipts.Value())
		return len(given) == 0 || maybe(given)
	})
	receipts.MustWhere(func() bool { return reason.Value() == "" })
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		given, fault := readReceipts(receipts.Value())
		switch {
		case fault != "":
			return nil, dialog.Fault{Why: fault, At: receipts}
		case reason.Value() != "":
		case len(given) == 0:
			return nil, dialog.Fault{Why: "a receipt, or how you know: one of the two", At: receipts}
		case maybe(given):
			return nil, dialog.Fault{Why: "how you know that it is this one", At: reason}
		}
		done := safe.Say("recorded as landed")
		if len(given) > 1 {
			done = safe.Say("recorded as landed %d times", len(given))
		}
		return c.decide(ledger.Decision{Verb: ledger.VerbConfirm, Receipts: given, Reason: reason.Value()}, done), dialog.Fault{}
	}
	return d
}

var oneReceipt = lazyregexp.New(`^\s*(?:"((?:[^"]|"")*)"|([^",]*))\s*(?:,|$)`)

// readReceipts reads one receipt, or several with commas between them. A space may be
// part of one or stand between two, which is the difference between landed and landed
// twice: then one with a space is wanted in quotes.
func readReceipts(text string) (receipts []string, fault string) {
	for text != "" {
		m := oneReceipt.FindStringSubmatch(text)
		switch {
		case m == nil, len(strings.Fields(m[2])) > 1:
			return nil, `a comma between several receipts; quotes around one with a space: "T 2"`
		}
		if r := strings.TrimSpace(strings.ReplaceAll(m[1], `""`, `"`) + m[2]); r != "" {
			receipts = append(receipts, r)
		}
		text = text[len(m[0]):]
	}
	return unique(receipts), ""
}

// writeReceipts writes them so that readReceipts reads them back.
func writeReceipts(receipts []string) string {
	return strings.Join(ledger.Each(receipts, func(r string) string {
		if strings.ContainsAny(r, "\",") || len(strings.Fields(r)) > 1 {
			return `"` + strings.ReplaceAll(r, `"`, `""`) + `"`
		}
		return r
	}), ", ")
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Deny records that it did not land, on a person's word.
func (c Case) Deny() *dialog.Dialog {
	d := c.about("It did not land?")
	c.known(d)
	d.Add("WILL", "record that it did not land, on your word; nothing is sent")
	d.Add("NO PROOF", "your word is not a proof: sending again stays a risk")
	d.Add("THEN", "%s, unless R allows it", c.told().SameAgain())
	d.Warn("IF WRONG", "the next send does it twice: %s", ticket.FullCost(c.told().Facts.Advice.Duplicate))
	const ask = "say how you know: it is read when it was wrong"
	return c.withReason(d, "How do you know", "Did not land", ledger.VerbDeny, "recorded as not landed", ask)
}

func (c Case) Abandon() *dialog.Dialog {
	d := c.about("Abandon?")
	miss := ticket.FullCost(c.told().Facts.Advice.Miss)
	if c.told().State() == ledger.Failed {
		d.Add("WILL", "end it: nothing is sent. That it did not land stays recorded")
		d.Add("COSTS", "%s", miss)
	} else {
		d.Add("WILL", "end it: nothing is sent. Whether it landed stays unknown")
		d.Add("COSTS", "%s if it did not land", miss)
	}
	c.warn(d)
	d.Add("THEN", "%s", c.told().SameAgain())
	d.Add("UNDO", "U restores exactly what it is now")
	return c.withReason(d, "Reason", "Abandon", ledger.VerbAbandon, "abandoned", "say why it is given up")
}

// Park puts it out of the way until a time.
func (c Case) Park() *dialog.Dialog {
	d := c.about("Park")
	d.Add("WILL", "take it out of the way until then, or until it changes; checks go on")
	c.warn(d)
	until, reason := dialog.TextField("Until", "2h").Must(), dialog.TextField("Reason", "")
	d.Fields, d.Do, d.Quick = []*dialog.Field{until, reason}, "Park", true
	d.Submit = func(now time.Time) (dialog.Action, dialog.Fault) {
		t, err := ticket.Until(until.Value(), now, c.Zone)
		if err != nil {
			return nil, dialog.Fault{Why: err.Error(), At: until}
		}
		done := safe.Say("parked until %s", ticket.Moment(t, now, c.Zone))
		return c.decide(ledger.Decision{Verb: ledger.VerbPark, Until: t, Reason: reason.Value()}, done), dialog.Fault{}
	}
	return d
}

func (c Case) Note() *dialog.Dialog {
	if c.Outage != nil {
		return c.noteOutage()
	}
	d := c.about("Note")
	d.Add("WILL", "leave a remark for the next person who looks; nothing else changes")
	d.Quick = true
	c.warn(d)
	return c.withReason(d, "Note", "Leave note", ledger.VerbNote, "noted", "the note is empty")
}

func (c Case) noteOutage() *dialog.Dialog {
	o := c.Outage
	note := dialog.TextField("Note", "").Must()
	d := &dialog.Dialog{Title: safe.Say("Note"), Corner: safe.Say("outage"), Head: o.Title(), Fields: []*dialog.Field{note},
		Do: "Leave note", Quick: true}
	d.Add("WILL", "leave a remark for the next person who looks; nothing else changes")
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		change := ledger.OutageChange{ID: o.ID, Verb: ledger.OutageNoted, Reason: note.Value()}
		return Outage{OutageChange: change, Done: safe.Say("noted"), Title: o.Title()}, missing(note, "the note is empty")
	}
	return d
}

// Undo puts it back in doubt, or makes it again what it was before it was abandoned.
func (c Case) Undo() *dialog.Dialog {
	d := c.about("Undo?")
	who, why, at := ticket.Settled(c.told())
	d.Add("NOW", "%s, by %s %s%s", ticket.State(c.told().Record.Operation.State), ticket.Who(who), c.Moment(at), ticket.Colon(why))
	done := safe.Format("back in doubt")
	if fact := c.told().Record.Operation.Fact; fact != "" {
		if fact == ledger.Failed {
			done = "again as it was: it did not land"
		}
		d.Add("WILL", "make it again what it was: %s", ticket.State(fact))
	} else {
		d.Add("WILL", "put it back in doubt. From then on only a person settles it")
		d.Add("NOT UNDONE", "whatever was sent stays sent")
	}
	c.warn(d)
	return c.withReason(d, "Reason", "Undo", ledger.VerbUndo, done, "say why it was wrong")
}

// HoldOrRelease lifts the hold that covers what is under the cursor, or asks for a new one.
func (c Case) HoldOrRelease() *dialog.Dialog {
	if h := c.covering(); h != nil {
		return c.release(*h)
	}
	return c.Hold()
}

func (c Case) OffRelease() safe.Text {
	if len(c.Holds) == 0 {
		return safe.Say("nothing is held")
	}
	return safe.Text{}
}

// Release lifts the hold that covers what is under the cursor, else the first one.
func (c Case) Release() *dialog.Dialog {
	if h := c.covering(); h != nil {
		return c.release(*h)
	}
	return c.release(c.Holds[0])
}

// holds are the holds that may be chosen here, and what each is called.
func holds(c Case) (choices []string, holds []Hold) {
	add := func(choice string, scope ledger.HoldScope) {
		choices, holds = append(choices, choice), append(holds, Hold{ledger.Hold{Scope: scope}})
	}
	switch {
	case c.Outage != nil:
		where := ticket.Scope(ledger.HoldScope(c.Outage.Scope)).String()
		if strings.HasPrefix(c.Outage.Scope, "kind:") {
			where = "kind " + where
		}
		add(where, ledger.HoldScope(c.Outage.Scope))
	case c.Brief != nil:
		t := c.told()
		add("kind "+t.Row.Kind, ledger.HoldScope("kind:"+t.Row.Kind))
		if down := t.Facts.Downstream; down != "" {
			add(down, ledger.HoldScope("downstream:"+down))
		}
	}
	add("everything", "all")
	return choices, holds
}

// Hold stops what is sent again of a kind, of a downstream or of everything.
func (c Case) Hold() *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Hold")}
	c.alone(d)
	if c.Outage == nil && c.Brief != nil {
		d.Corner = c.told().Kind()
	}
	choices, holds := holds(c)
	for _, h := range c.Holds {
		d.Warn("HELD ALREADY", "%s, by %s; :release lifts it", ticket.Scope(h.Scope), ticket.Who(h.Actor.Name))
	}
	d.Add("WILL", "stop every retry at once, by machine, by hand or in bulk, and allowed sends; checks go on, and what is new")
	d.Add("UNTIL", "empty: until it is released")
	scope, until, reason := dialog.ChoiceField("What", choices...), dialog.TextField("Until", ""), dialog.TextField("Reason", "").Must()
	d.Fields, d.Do = []*dialog.Field{scope, reason, until}, "Hold"
	d.Submit = func(now time.Time) (dialog.Action, dialog.Fault) {
		h := holds[slices.Index(choices, scope.Value())]
		h.Reason = reason.Value()
		if until.Value() != "" {
			var err error
			if h.Until, err = ticket.Until(until.Value(), now, c.Zone); err != nil && h.Reason != "" {
				return nil, dialog.Fault{Why: err.Error(), At: until}
			}
		}
		return h, missing(reason, "say why: others will want to release it")
	}
	return d
}

func (c Case) release(h ledger.Hold) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Release hold?"), Head: safe.Say("hold %s", ticket.Scope(h.Scope))}
	c.alone(d)
	d.Add("HELD BY", "%s since %s: %s", ticket.Who(h.Actor.Name), c.Moment(h.CreatedAt), h.Reason)
	if h.Begins {
		d.Warn("WILL", "let every pipeline begin what it waits with, and machines send again where the policy lets them")
	} else {
		d.Warn("WILL", "let machines send again, where the policy lets them")
	}
	reason := dialog.TextField("Reason", "").Must()
	d.Fields, d.Do = []*dialog.Field{reason}, "Release"
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		return Release{Scope: h.Scope, Reason: reason.Value()}, missing(reason, "say why it may go on")
	}
	return d
}

// Who asks who decides, on an account that several people share, and goes on with
// the key that was pressed.
func Who(account, key string) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Who are you?")}
	d.Add("ACCOUNT", "%s is shared", cmp.Or(account, "this one"))
	d.Add("WHY", "every decision keeps who made it; this is a label, not a login")
	name := dialog.TextField("Your name", "").Must()
	d.Fields, d.Do, d.Quick = []*dialog.Field{name}, "That is me", true
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		return Name{name.Value(), key}, missing(name, "a name that a colleague recognises")
	}
	return d
}

// Moved shows how an operation differs from what was decided about.
func Moved(f *draw.Frame, title safe.Text, e *ledger.MovedError) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Not done: it moved"), Head: title, Itself: true}
	d.Warn("NOW", "%s since %s", ticket.State(e.State), f.Moment(e.At))
	d.Add("BY", "%s%s", ticket.Who(e.Actor), ticket.Colon(e.Reason))
	if e.NotFromThisOne {
		verb := map[string]string{"deny": "record as not landed", "ack": "mark as dealt with"}[e.Verb]
		d.Add("SO", "there is nothing to %s from there", cmp.Or(verb, e.Verb))
	} else {
		d.Add("YOU SAW", "version %d; it is at version %d now", e.Seen, e.Version)
	}
	d.Add("NOTHING", "was written or sent. Look again, then decide")
	return d
}

// Refused shows an error in full: a sentence at the bottom may be cut.
func Refused(title safe.Text, err error) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Not done"), Head: title, Itself: true}
	var no *ledger.RefusedError
	if !errors.As(err, &no) {
		label := safe.Format("WHY")
		for line := range strings.Lines(err.Error()) { // several reasons, one a line
			d.Warn(label, "%s", strings.TrimRight(line, "\n"))
			label = ""
		}
		return d
	}
	d.Warn("WHY", "%s", no.Why)
	if no.Hint != "" {
		d.Add("DO", "%s", no.Hint)
	}
	return d
}
