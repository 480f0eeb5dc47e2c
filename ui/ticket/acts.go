package ticket

import (
	"indoubt/ledger"
	"indoubt/ui/safe"
)

// What a person can have done besides writing a decision.
const (
	Retry ledger.Verb = "retry" // sent once more
	Check ledger.Verb = "check" // read at the other side
)

// Off says why a verb cannot be done about the operation as it stands; empty where
// it can.
func (t Ticket) Off(verb ledger.Verb) safe.Text {
	state := t.State()
	settles := verb == ledger.VerbConfirm || verb == ledger.VerbDeny
	who, _, _ := Settled(t)
	switch {
	case verb == Check && !t.Facts.unasked(t.Kind()).Empty():
		return t.Facts.unasked(t.Kind())
	case verb == ledger.VerbAck && t.Row.Conflict == ledger.NoConflict:
		return safe.Say("no conflict: nothing to deal with")
	case state == ledger.Pending && verb != ledger.VerbNote:
		return safe.Say("in flight until %s: its own answer comes first", t.at(t.Row.DeadlineAt))
	case state == ledger.Abandoned && (settles || verb == Retry || verb == ledger.VerbAbandon):
		return safe.Say("abandoned by %s. U restores it first", Who(who))
	case settles && state != ledger.Uncertain:
		return safe.Say("settled: %s, by %s. U puts it back in doubt first", State(state), Who(who))
	case verb == ledger.VerbAbandon && state == ledger.Committed:
		return safe.Say("it landed: there is nothing to abandon")
	case verb == ledger.VerbPark && t.Row.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned):
		return safe.Say("settled: it is out of the way already")
	case verb == ledger.VerbUndo && state == ledger.Uncertain:
		return safe.Say("nothing to undo: it is in doubt")
	case verb == ledger.VerbUndo && t.Record.Operation.Moved != "":
		return safe.Say("its history was moved to %s", t.Record.Operation.Moved)
	case verb == Retry:
		return t.offRetry()
	}
	return safe.Text{}
}

// unasked says why no check of this kind can be made; empty where one can.
func (f Facts) unasked(kind safe.Text) safe.Text {
	switch {
	case f.Unasked != "":
		return safe.Say("no check is possible: %s", f.Unasked)
	case !f.HasRead:
		return safe.Say("no check: the policy has no `read` for %s", kind)
	}
	return safe.Text{}
}

func (t Ticket) offRetry() safe.Text {
	if t.State() == ledger.Committed {
		return safe.Say("it landed: sending again would do it twice")
	}
	if gone := t.Record.Operation.Gone(); gone != "" {
		return safe.Say("%s: what it says is not kept", gone)
	}
	if h := t.Record.HeldBy(); h != nil {
		return safe.Say("held by %s: %s. H releases", Who(h.Actor.Name), h.Reason)
	}
	return safe.Text{}
}

// WouldRetry says what a retry would do now.
func (t Ticket) WouldRetry() safe.Text {
	what := safe.Say("sends once more")
	if t.Facts.Via == "pipeline" {
		what = safe.Say("lets %s send once more", t.Pipeline())
	}
	switch t.Facts.Basis {
	case ledger.BasisProof, ledger.BasisKeySafe, ledger.BasisNotSeen:
		return safe.Say("%s: %s; one y", what, Because(t.Facts.Basis, ""))
	}
	return safe.Say("%s at own risk: a reason, and type %s", what, Quoted(ToType(t.Facts.Advice.Duplicate)))
}

// Candidates are the receipts that the newest check showed without being able to
// tell whose they are, as they are written.
func (t Ticket) Candidates() []string {
	if len(t.Record.Reads) == 0 {
		return nil
	}
	switch r := t.Record.Reads[0]; r.Cause {
	case ledger.CauseUnidentified, ledger.CauseShared, ledger.CauseOlder:
		return r.Receipts
	}
	return nil
}
