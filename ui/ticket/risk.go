package ticket

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// Fact is one labelled line of what a person is told before a decision.
type Fact struct {
	Label safe.Text
	Text  safe.Text
	Grave bool
}

// Tell is a fact, and Caution a grave one.
func Tell(label, format safe.Format, args ...any) Fact {
	return Fact{safe.Say(label), safe.Say(format, args...), false}
}

func Caution(label, format safe.Format, args ...any) Fact {
	return Fact{safe.Say(label), safe.Say(format, args...), true}
}

// Risks say what cannot be proven about a send without proof, and what it costs if
// it went the other way. Odds are for what is not known: where a person said it
// did not land, or two sides disagree, an average would make a word or a dispute
// look like a fact.
func (t Ticket) Risks(p reconcile.Plan) []Fact {
	o := &t.Record.Operation
	twice := Caution("IF IT LANDED", "it happens twice: %s", FullCost(p.Loss))
	var out []Fact
	switch {
	case len(p.Showing.Related) > 0:
		out = append(out, Caution("NOT ALONE", "%s", p.Why), Caution("IF SENT", "it may happen twice, or undo the later one: %s", FullCost(p.Loss)))
	case o.Conflict != ledger.NoConflict:
		out = append(out, Caution("IN CONFLICT", "%s%s", strings.ToLower(Conflict(o.Conflict)), Colon(o.ConflictNote)), twice)
	case t.State() == ledger.Failed:
		who, why, _ := Settled(t)
		out = append(out, Caution("NO PROOF", "that it did not land is only said, by %s%s", Who(who), Colon(why)), twice)
	default:
		out = append(out, Caution("NOBODY KNOWS", "whether it landed. Guess %s", t.Guess()), twice, Tell("ON AVERAGE", "%s", t.OnAverage()))
	}
	switch {
	case !t.Facts.HasRead && !t.Facts.SafeUntil.After(t.Now):
		out = append(out, Caution("NO NET", "no check, no key: a duplicate would go unseen"))
	case !t.Facts.HasRead:
		out = append(out, Caution("NO NET", "no check: a duplicate would go unseen"))
	}
	return out
}

// Warnings are what every decision about an operation must know: a hold, an
// allowed send, what up to most others on the same target became, and
// the newest remark of another person than me, who may be at it already.
func (t Ticket) Warnings(me string, most int) []Fact {
	var out []Fact
	if h := t.Record.HeldBy(); h != nil {
		out = append(out, Caution("HOLD", "by %s: %s", Who(h.Actor.Name), h.Reason))
	}
	if g := t.Record.OpenAllowed(); g != nil {
		out = append(out, Caution("ALLOWED SEND", "%s may send once until %s; a decision now takes that back", t.Pipeline(), t.at(g.ExpiresAt)))
	}
	for i, r := range t.Record.Related {
		switch {
		case i == most:
			out = append(out, Caution("", "and %d more", len(t.Record.Related)-most))
		case i > most:
		case r.Overtook:
			out = append(out, Caution("OVERTAKEN BY", "%s", t.Other(r)))
		default:
			out = append(out, Tell("SAME TARGET", "%s", t.Other(r)))
		}
	}
	for _, e := range slices.Backward(t.Events) {
		if e.Verb == "note" && e.Actor.Name != me {
			name := strings.ToUpper(Who(e.Actor.Name).String())
			return append(out, Fact{safe.Of(name), safe.Say("%q (%s)", e.Reason, t.at(e.At)), false})
		}
	}
	return out
}

// Other is another operation on the same target: what it is, where it stands, whose
// it is and since when.
func (t Ticket) Other(r ledger.Relation) safe.Text {
	what := safe.Say("%s, %s, %s %s", cmp.Or(r.Title, r.ID), State(r.State), cmp.Or(r.Source.Pipeline, "unknown"), t.at(r.CreatedAt))
	if r.Receipt == "" {
		return what
	}
	return safe.Say("%s, receipt %s", what, r.Receipt)
}

// ToType is a loss as a person types it to accept it: the word that the policy
// gives, or the plain number.
func ToType(c ledger.Cost) string {
	if c.Word != "" && !c.Guess {
		return c.Word
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", c.Value), ".00")
}

// Quoted is what is to be typed as a prompt names it: type none would be read as type nothing.
func Quoted(want string) string {
	if want != "" && want[0] >= '0' && want[0] <= '9' {
		return want
	}
	return `"` + want + `"`
}

// Enough reports whether a basis is more than a risk that a person takes: one y is asked.
func Enough(b ledger.Basis) bool { return b != "" && b != ledger.BasisRiskAccepted }

// Ground is why one more send is allowed, or what is risked by it, and what must be
// known before: me and most are those of Warnings.
func (t Ticket) Ground(p reconcile.Plan, me string, most int) []Fact {
	var out []Fact
	switch {
	case Enough(p.Basis):
		out = append(out, Tell("ALLOWED BECAUSE", "%s", safe.Of(p.Why).Or(Because(p.Basis, ""))))
	case p.Basis != "":
		out = t.Risks(p)
	}
	return append(out, t.Warnings(me, most)...)
}

// Sending is what goes out, but for its body, and as which attempt.
func (t Ticket) Sending(p reconcile.Plan) []Fact {
	o, send := &t.Record.Operation, safe.Of(p.WillSend)
	if p.Sender == "pipeline" {
		send = safe.Say("%s may send once, when it asks next", t.Pipeline())
	}
	same := safe.Say("same key %s", cmp.Or(o.KeyToSend(), "none"))
	if o.Token != "" {
		same = safe.Say("%s, same token %s", same, o.Token)
	}
	if p.Attempt > 0 {
		same = safe.Say("%s; attempt %d", same, p.Attempt)
	}
	out := []Fact{Tell("WILL SEND", "%s", send)}
	if p.Back != "" {
		out = append(out, Tell("", "it cannot be sent from here: %s", safe.Of(p.Back)))
	}
	out = append(out, Tell("", "%s", same))
	if p.FirstCheck {
		out = append(out, Tell("FIRST", "one more check; if it landed, nothing is sent"))
	}
	return append(out, Tell("UNDO", "impossible once sent"))
}
