package console

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// about makes a dialog about one operation as it is shown now.
func (m *Root) about(b *brief, title string) *dialog {
	return &dialog{
		title: title, corner: b.rec.Operation.Kind,
		head: b.rec.Operation.Title, seen: "as seen at " + m.at.In(m.loc).Format("15:04:05"),
		id: b.raw.Operation.ID, version: b.raw.Operation.Version, recheck: b.facts.Recheck,
	}
}

// warnings are what every dialog about an operation says: a hold, twins, what
// overtook it, and what others are doing.
func (m *Root) warnings(b *brief) []fact {
	var out []fact
	if h := b.rec.HeldBy(); h != nil {
		out = append(out, fact{"HOLD", fmt.Sprintf("by %s: %s", ticket.Who(h.Actor.Name), h.Reason), true})
	}
	if g := b.rec.OpenGrant(); g != nil {
		out = append(out, fact{"ALLOWED SEND", fmt.Sprintf("%s may send once until %s; anything written now takes that back", firstOf(b.rec.Operation.Source.Pipeline, "its pipeline"), ticket.Moment(g.ExpiresAt, m.at, m.loc)), true})
	}
	for i, r := range b.rec.Related {
		if i == 2 {
			out = append(out, fact{"", fmt.Sprintf("and %d more", len(b.rec.Related)-2), true})
			break
		}
		name := "TWIN"
		if r.Overtook {
			name = "OVERTAKEN BY"
		}
		out = append(out, fact{name, fmt.Sprintf("%s, %s, %s %s", firstOf(r.Title, r.ID), ticket.State(r.State), firstOf(r.Source.Pipeline, "unknown"), ticket.Moment(r.CreatedAt, m.at, m.loc)), true})
	}
	// The newest remark of somebody else: they may be at it already.
	for i := len(b.events) - 1; i >= 0; i-- {
		e := b.events[i]
		if e.Verb == "note" && e.Actor.Name != m.actor.Name {
			out = append(out, fact{strings.ToUpper(cut(ticket.Who(e.Actor.Name), 16)), fmt.Sprintf("%q (%s)", e.Reason, ticket.Moment(e.At, m.at, m.loc)), false})
			break
		}
	}
	return out
}

// decision carries a decision out with what the dialog was opened for.
func (m *Root) decision(d *dialog, verb ledger.Verb, what string, fill func(*ledger.Decision)) tea.Cmd {
	dec := ledger.Decision{ChangeID: ledger.NewID(), ID: d.id, Version: d.version, Verb: verb, Actor: m.actor, RecheckAt: after(m.now(), d.recheck)}
	fill(&dec)
	return m.decide(dec, what, d.head)
}

// after is a moment so long from now; none for a duration of zero.
func after(now time.Time, d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return now.Add(d)
}

func needed(f *field, what string) func(*dialog) string {
	return func(*dialog) string {
		if f.value() == "" {
			return what
		}
		return ""
	}
}

// confirmDialog records that it landed.
func (m *Root) confirmDialog(b *brief) *dialog {
	d := m.about(b, "It landed?")
	known := b.raw.Operation.Receipts
	for _, r := range b.raw.Reads {
		if r.Verdict == ledger.Landed && !r.Control {
			known = append(known[:len(known):len(known)], r.Receipts...)
			break
		}
	}
	known = unique(known)
	candidates := candidatesOf(b.raw.Reads)
	text, _ := m.ticketOf(b).Known()
	d.facts = append(d.facts, fact{"KNOWN", text, false})
	d.facts = append(d.facts, m.warnings(b)...)
	if b.raw.Operation.Verdict == ledger.Landed && len(known) > 0 {
		shown := make([]string, len(known))
		for i := range known {
			shown[i] = safe.Of(known[i]).String()
		}
		d.facts = append(d.facts, fact{"RECEIPT", strings.Join(shown, ", "), false}, fact{"WILL", "record that it landed; nothing is sent", false}, fact{"UNDO", "U puts it back in doubt", false})
		d.yes = "y it landed"
		d.act = func(d *dialog) tea.Cmd {
			return m.decision(d, ledger.VerbConfirm, "recorded as landed", func(c *ledger.Decision) { c.Receipts = known })
		}
		return d
	}
	d.facts = append(d.facts,
		fact{"WILL", "record that it landed; nothing is sent", false},
		fact{"IF WRONG", "it is never done: " + ticket.FullCost(b.facts.Advice.Miss), false},
		fact{"TWO RECEIPTS", "make it HAPPENED TWICE", false})
	if len(candidates) > 0 {
		shown := make([]string, len(candidates))
		for i := range candidates {
			shown[i] = safe.Of(candidates[i]).String()
		}
		d.facts = append(d.facts, fact{"MAY BE IT", strings.Join(shown, ", ") + "; the check cannot tell whose", false})
		if len(known) == 0 && len(candidates) == 1 {
			known = candidates
		}
	}
	receipts, reason := textField("Receipts", strings.Join(known, " ")), textField("How do you know", "")
	d.fields = []*field{receipts, reason}
	d.do = "It landed"
	d.check = func(*dialog) string {
		switch {
		case reason.value() != "":
		case receipts.value() == "":
			return "a receipt, or how you know: one of the two"
		case slices.Contains(candidates, receipts.value()):
			return "how you know that it is this one"
		}
		return ""
	}
	d.act = func(d *dialog) tea.Cmd {
		return m.decision(d, ledger.VerbConfirm, "recorded as landed", func(c *ledger.Decision) {
			c.Receipts, c.Reason = splitReceipts(receipts.value()), reason.value()
		})
	}
	return d
}

// candidatesOf are the receipts that the newest check showed without being able to
// tell whose they are.
func candidatesOf(reads []ledger.Read) []string {
	for _, r := range reads {
		if r.Control {
			continue
		}
		if r.Cause == ledger.CauseUnidentified || r.Cause == ledger.CauseShared || r.Cause == ledger.CauseOlder {
			return unique(slices.Clone(r.Receipts))
		}
		break
	}
	return nil
}

var receiptGap = regexp.MustCompile(`[,\s]+`)

// splitReceipts reads one receipt or several, apart by commas or spaces.
func splitReceipts(text string) []string {
	var out []string
	for _, r := range receiptGap.Split(strings.TrimSpace(text), -1) {
		if r != "" {
			out = append(out, r)
		}
	}
	return unique(out)
}

func unique(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// denyDialog records that it did not land, on somebody's word.
func (m *Root) denyDialog(b *brief) *dialog {
	d := m.about(b, "It did not land?")
	text, _ := m.ticketOf(b).Known()
	d.facts = append(d.facts, fact{"KNOWN", text, false})
	d.facts = append(d.facts, m.warnings(b)...)
	d.facts = append(d.facts,
		fact{"WILL", "record that it did not land, on your word; nothing is sent", false},
		fact{"NO PROOF", "your word is not a proof: sending again stays a risk somebody takes", false},
		fact{"IF WRONG", "whoever sends again does it twice: " + ticket.FullCost(b.facts.Advice.Duplicate), true})
	reason := textField("How do you know", "")
	d.fields = []*field{reason}
	d.do = "Did not land"
	d.check = needed(reason, "say how you know: somebody reads it when it was wrong")
	d.act = func(d *dialog) tea.Cmd {
		return m.decision(d, ledger.VerbDeny, "recorded as not landed", func(c *ledger.Decision) { c.Reason = reason.value() })
	}
	return d
}

func (m *Root) abandonDialog(b *brief) *dialog {
	d := m.about(b, "Abandon?")
	miss := b.facts.Advice.Miss
	if b.rec.Operation.StateAt(m.at) == ledger.Failed {
		d.facts = append(d.facts, fact{"WILL", "leave it undone for good; nothing is sent, its pipeline is refused", false}, fact{"COSTS", ticket.FullCost(miss), false})
	} else {
		d.facts = append(d.facts, fact{"WILL", "leave it unknown for good; nothing is sent, its pipeline is refused", false}, fact{"COSTS", fmt.Sprintf("%s if it did not land", ticket.FullCost(miss)), false})
	}
	d.facts = append(d.facts, m.warnings(b)...)
	d.facts = append(d.facts, fact{"UNDO", "U puts it back in doubt", false})
	return m.withReason(d, "Abandon", ledger.VerbAbandon, "abandoned", "say why it is given up")
}

// withReason finishes a dialog that needs a reason and nothing else.
func (m *Root) withReason(d *dialog, do string, verb ledger.Verb, done, ask string) *dialog {
	reason := textField("Reason", "")
	d.fields = append(d.fields, reason)
	d.do = do
	d.check = needed(reason, ask)
	d.act = func(d *dialog) tea.Cmd {
		return m.decision(d, verb, done, func(c *ledger.Decision) { c.Reason = reason.value() })
	}
	return d
}

func (m *Root) ackDialog(b *brief) *dialog {
	d := m.about(b, "Dealt with?")
	o := &b.rec.Operation
	d.facts = []fact{{"WAS", strings.ToLower(ticket.Conflict(o.Conflict)) + ticket.Colon(o.ConflictNote), false}}
	if len(o.Receipts) > 0 {
		d.facts = append(d.facts, fact{"COVERS", strings.Join(o.Receipts, ", ") + "; a receipt found later raises it again", false})
	}
	d.facts = append(d.facts, m.warnings(b)...)
	d.facts = append(d.facts, fact{"WILL", "take the flag down; indoubt takes nothing back itself", false})
	reason, ref := textField("What was done", ""), textField("Reference", "")
	d.fields = []*field{reason, ref}
	d.do = "Dealt with"
	d.check = func(*dialog) string {
		if reason.value() == "" {
			return "say what was done: refunded, deleted, accepted"
		}
		if ref.value() == "" {
			return "a reference: the refund, the ticket, the commit"
		}
		return ""
	}
	d.act = func(d *dialog) tea.Cmd {
		return m.decision(d, ledger.VerbAck, "dealt with", func(c *ledger.Decision) { c.Reason, c.Reference = reason.value(), ref.value() })
	}
	return d
}

func (m *Root) parkDialog(b *brief) *dialog {
	d := m.about(b, "Park")
	d.facts = append([]fact{{"WILL", "take it out of the way until then, or until it changes; checks go on", false}}, m.warnings(b)...)
	until, reason := textField("Until", "2h"), textField("Reason", "")
	until.input.CursorEnd()
	d.fields = []*field{until, reason}
	d.do = "Park"
	d.check = func(*dialog) string {
		if _, err := parseUntil(until.value(), m.at, m.loc); err != nil {
			return err.Error()
		}
		return ""
	}
	d.act = func(d *dialog) tea.Cmd {
		t, _ := parseUntil(until.value(), m.at, m.loc)
		return m.decision(d, ledger.VerbPark, "parked until "+ticket.Moment(t, m.at, m.loc), func(c *ledger.Decision) { c.Until, c.Reason = t, reason.value() })
	}
	return d
}

// parseUntil reads 2h, 30m, 07:00 or 2026-11-21 07:00.
func parseUntil(text string, now time.Time, loc *time.Location) (time.Time, error) {
	if d, err := ledger.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	now = now.In(loc)
	if t, err := time.ParseInLocation("15:04", text, loc); err == nil {
		at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, loc)
		if !at.After(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at, nil
	}
	for _, layout := range []string{"2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil && t.After(now) {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("until when: 2h, 30m, 07:00 or 2006-01-02 15:04, and still to come")
}

func (m *Root) noteDialog(b *brief) *dialog {
	d := m.about(b, "Note")
	d.facts = append([]fact{{"WILL", "leave a remark for whoever looks next; nothing else changes", false}}, m.warnings(b)...)
	text := textField("Note", "")
	d.fields = []*field{text}
	d.do = "Leave note"
	d.check = needed(text, "an empty note tells nobody anything")
	d.act = func(d *dialog) tea.Cmd {
		return m.decision(d, ledger.VerbNote, "noted", func(c *ledger.Decision) { c.Reason, c.Version = text.value(), 0 })
	}
	return d
}

func (m *Root) undoDialog(b *brief) *dialog {
	d := m.about(b, "Undo?")
	o := &b.rec.Operation
	d.facts = append(d.facts,
		fact{"NOW", fmt.Sprintf("%s, by %s %s%s", ticket.State(o.State), ticket.Who(o.Actor), ticket.Moment(o.UpdatedAt, m.at, m.loc), ticket.Colon(o.Reason)), false},
		fact{"WILL", "put it back in doubt. From then on only a person settles it", false},
		fact{"NOT UNDONE", "whatever was sent stays sent", false})
	d.facts = append(d.facts, m.warnings(b)...)
	return m.withReason(d, "Undo", ledger.VerbUndo, "back in doubt", "say why it was wrong")
}

// holdDialog stops sends by machine for a kind, a downstream or everything.
func (m *Root) holdDialog(b *brief) *dialog {
	d := &dialog{title: "Hold"}
	choices := []string{"everything"}
	scopes := map[string]ledger.HoldScope{"everything": "all"}
	if b != nil {
		d.corner = b.rec.Operation.Kind
		kind := "kind " + b.rec.Operation.Kind
		choices = append([]string{kind}, choices...)
		scopes[kind] = ledger.HoldScope("kind:" + b.raw.Operation.Kind)
		if down := b.facts.Downstream; down != "" {
			choices = append(choices[:1], append([]string{down}, choices[1:]...)...)
			scopes[down] = ledger.HoldScope("downstream:" + down)
		}
	}
	d.facts = []fact{{"WILL", "stop every send by machine, every allowed send and every bulk run at once; checks go on", false}}
	scope, until, reason := choiceField("What", choices...), textField("Until", ""), textField("Reason", "")
	d.fields = []*field{scope, reason, until}
	d.do = "Hold"
	d.facts = append(d.facts, fact{"UNTIL", "empty: until somebody releases it", false})
	d.check = func(*dialog) string {
		if reason.value() == "" {
			return "say why: others will want to release it"
		}
		if until.value() != "" {
			if _, err := parseUntil(until.value(), m.at, m.loc); err != nil {
				return err.Error()
			}
		}
		return ""
	}
	d.act = func(d *dialog) tea.Cmd {
		h := ledger.Hold{Scope: scopes[scope.value()], Actor: m.actor, Reason: reason.value(), CreatedAt: m.now(), ChangeID: ledger.NewID()}
		if until.value() != "" {
			h.Until, _ = parseUntil(until.value(), m.at, m.loc)
		}
		if name, ok := strings.CutPrefix(string(h.Scope), "downstream:"); ok {
			h.Kinds = m.kindsOf(name, b)
		}
		return m.hold(h)
	}
	return d
}

func (m *Root) releaseDialog(h ledger.Hold) *dialog {
	d := &dialog{title: "Release hold?", head: "hold " + holdWords(h.Scope)}
	d.facts = []fact{
		{"HELD BY", fmt.Sprintf("%s since %s: %s", ticket.Who(h.Actor.Name), ticket.Moment(h.CreatedAt, m.at, m.loc), h.Reason), false},
		{"WILL", "let machines send again, where the policy lets them", true},
	}
	reason := textField("Reason", "")
	d.fields = []*field{reason}
	d.do = "Release"
	d.check = needed(reason, "say why it may go on")
	d.act = func(d *dialog) tea.Cmd { return m.release(h, reason.value()) }
	return d
}

// nameDialog asks who decides, on an account that several people share.
func (m *Root) nameDialog(then func() tea.Cmd) *dialog {
	d := &dialog{title: "Who are you?"}
	d.facts = []fact{{"ACCOUNT", fmt.Sprintf("%s is shared", safe.Of(firstOf(m.actor.OSUser, m.actor.Name, "this one")).String()), false}, {"WHY", "every decision keeps who made it; this is a label, not a login", false}}
	name := textField("Your name", "")
	d.fields = []*field{name}
	d.do = "That is me"
	d.check = needed(name, "a name that a colleague recognises")
	d.act = func(d *dialog) tea.Cmd {
		m.actor.Name, m.named = name.value(), true
		return then()
	}
	return d
}

// movedDialog shows how an operation differs from what was decided about.
func (m *Root) movedDialog(title string, e *ledger.MovedError) *dialog {
	d := &dialog{title: "Not done: it moved", head: title}
	d.facts = []fact{
		{"NOW", ticket.State(e.State) + " since " + ticket.Moment(e.At, m.at, m.loc), true},
		{"BY", ticket.Who(safe.Of(e.Actor).String()) + ticket.Colon(safe.Of(e.Reason).String()), false},
	}
	if e.NotFromThisOne {
		d.facts = append(d.facts, fact{"SO", fmt.Sprintf("there is nothing to %s from there", verbWords(e.Verb)), false})
	} else {
		d.facts = append(d.facts, fact{"YOU SAW", fmt.Sprintf("version %d; it is at version %d now", e.Seen, e.Version), false})
	}
	d.facts = append(d.facts, fact{"NOTHING", "was written or sent. Look again, then decide", false})
	return d
}

func verbWords(v string) string {
	switch v {
	case "deny":
		return "record as not landed"
	case "ack":
		return "mark as dealt with"
	}
	return safe.Of(v).String()
}
