package ticket

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/ui/safe"
)

// Tone is how a sentence sounds.
type Tone int

const (
	Plain Tone = iota
	Good       // nothing to do
	Sure       // a fact that asks for an act
	Warn       // a guess, or a person's word
	Bad        // what must not be
)

// Known says in one sentence what is fact and what is guess.
func (t Ticket) Known() (safe.Text, Tone) {
	o, say := &t.Record.Operation, safe.Say
	if t.Now.Before(o.ParkedUntil) {
		why := Colon(o.Reason)
		if o.Reason == string(ledger.VerbPark) { // no one gave one
			why = safe.Text{}
		}
		return say("parked until %s%s", t.at(o.ParkedUntil), why), Plain
	}
	switch o.Conflict {
	case ledger.ConflictDisputed, ledger.ConflictMaybeTwice, ledger.ConflictDifferent:
		// What is recorded is just what is disputed.
		return safe.Of(o.ConflictNote).Or(safe.Of(strings.ToLower(Conflict(o.Conflict)))), Bad
	}
	who, why, _ := Settled(t)
	by := say("%s%s", Who(who), Colon(why))
	switch t.State() {
	case ledger.Committed:
		text, tone := say("it landed"), Good
		if o.Effects > 1 {
			text = say("it happened %d times", o.Effects)
			tone = Bad
		}
		if len(o.Receipts) > 0 {
			text = say("%s, receipt %s", text, List(o.Receipts))
		}
		if t.Facts.Lag > 0 {
			text = say("%s, not yet seen %s after its end", text, t.Facts.Lag.Round(time.Second))
		}
		if t.Facts.LagNear {
			text, tone = say("%s, near its policy's times", text), max(tone, Warn)
		}
		return say("%s (%s)", text, by), tone
	case ledger.Failed:
		if !Proven(*t.Record) {
			return say("it is said not to have landed, without proof (%s)", by), Warn
		}
		if !o.Doubted { // it was refused, and its pipeline knows
			return say("it did not land (%s)", by), Good
		}
		return say("it did not land (%s)", by), Sure
	case ledger.Abandoned:
		return say("%s. It will not be sent: abandoned by %s. U restores", left{t}.fact(), by), Plain
	case ledger.Pending:
		return say("an attempt is in flight; nothing to decide yet"), Plain
	}
	switch o.Verdict {
	case ledger.Landed:
		return say("a check found it; a person settles it"), Sure
	case ledger.NotThere:
		return say("a check found none now; a person settles it"), Plain
	case ledger.Twice:
		return say("a check found more than one"), Bad
	case ledger.Different:
		return say("a check found one, but different"), Bad
	}
	if (later{t}).came() {
		return say("whether it landed is not known; %s", later{t}.instead()), Warn
	}
	if r, unseen := ledger.Unseen(t.Record.Reads, len(t.Record.Attempts)); unseen && t.Facts.Basis == ledger.BasisNotSeen {
		return say("not seen: looked at %s, sees its siblings", t.at(r.BeganAt)), Warn
	}
	odds := t.Facts.Advice.Odds
	if odds.N == 0 {
		return say("nothing, and no earlier case to guess from (%s assumed)", Percent(odds.P)), Warn
	}
	if odds.Why != "" {
		return say("nothing. %s (%s) is a guess: %s", Percent(odds.P), between(odds), odds.Why), Warn
	}
	return say("nothing. %s is a guess from %s (%s)", Percent(odds.P), Plural(odds.N, "case", "cases"), between(odds)), Warn
}

// left is a ticket of an operation that was abandoned.
type left struct{ Ticket }

// fact is what is known of it, and since when.
func (t left) fact() safe.Text {
	o := &t.Record.Operation
	switch {
	case o.Fact == ledger.Failed && !Proven(*t.Record):
		return safe.Say("it is said not to have landed, without proof (%s)", t.at(o.SettledAt))
	case o.Fact == ledger.Failed:
		return safe.Say("it did not land (%s, %s)", proofs[t.Record.Attempts[len(t.Record.Attempts)-1].Proof], t.at(o.SettledAt))
	case o.Fact == "" && len(o.Receipts) > 0:
		return safe.Say("it landed, receipt %s, and was taken back", List(o.Receipts))
	case o.Fact == "":
		return safe.Say("it was taken back")
	case o.Verdict == ledger.Landed:
		return safe.Say("a check found it, and no one has confirmed it")
	}
	return safe.Say("whether it landed is not known")
}

var proofs = map[ledger.Proof]string{ledger.NeverSent: "never sent", ledger.Refused: "refused", ledger.ProofNotThere: "not there"}

// Settled is who said what is recorded of the operation, why and when. Who parked it since,
// allowed a send, or undid that it was abandoned, changed it last and said nothing of the
// kind.
func Settled(t Ticket) (who, why string, at time.Time) {
	o := &t.Record.Operation
	aside := false // the newest change said nothing of it
	for _, e := range slices.Backward(t.Events) {
		if !aside && e.Reason == o.Reason && e.Actor.Name == o.Actor {
			if aside = e.Verb == string(ledger.VerbPark) || e.Verb == "allow" || restored(e); !aside {
				break
			}
		}
		if aside && !restored(e) && (e.To == o.State && e.From != e.To || e.Conflict != ledger.NoConflict || e.Verb == string(ledger.VerbAck)) {
			return e.Actor.Name, e.Reason, e.At
		}
	}
	return o.Actor, o.Reason, o.UpdatedAt
}

// restored reports whether an event undid that an operation was abandoned.
func restored(e ledger.Event) bool {
	return e.Verb == string(ledger.VerbUndo) && e.From == ledger.Abandoned
}

// Guess is a chance and what it rests on, as a dialog says it.
func (t Ticket) Guess() safe.Text {
	odds := t.Facts.Advice.Odds
	switch {
	case odds.N == 0:
		return safe.Say("%s, from no case at all", Percent(odds.P))
	case odds.Others > 0:
		return safe.Say("%s (%s; %s)", Percent(odds.P), odds.Why, between(odds))
	}
	return safe.Say("%s (%s, %s)", Percent(odds.P), Plural(odds.N, "case", "cases"), between(odds))
}

func between(o advice.Odds) safe.Text { return safe.Say("%.0f–%.0f%%", o.Low*100, o.High*100) }

// later tells of the operation that came later on a ticket's target.
type later struct{ Ticket }

// came reports whether it landed or may have, and this one is still open.
func (t later) came() bool {
	if state := t.State(); state != ledger.Uncertain && state != ledger.Failed || t.Row.Conflict != ledger.NoConflict {
		return false
	}
	if t.Record == nil {
		return t.Row.Overtaken
	}
	return t.Record.Overtaken() != nil
}

// instead says which it is, and when it landed in place of this one, or may have.
func (t later) instead() safe.Text {
	r := t.Record.Overtaken()
	name := cmp.Or(r.Title, r.ID)
	if r.State != ledger.Committed {
		return safe.Say("%s may have landed instead, %s", name, t.at(r.CreatedAt))
	}
	return safe.Say("%s landed instead, %s", name, t.at(cmp.Or(r.SettledAt, r.CreatedAt)))
}
