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
	o, state, say := &t.Record.Operation, t.State(), safe.Say
	settled := o.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned)
	switch inFlight := state == ledger.Pending; {
	case verb == Retry:
		return t.offRetry()
	case verb == Check:
		return t.offCheck()
	case verb == ledger.VerbAck && o.Conflict == ledger.NoConflict:
		return say("no conflict: nothing to deal with outside")
	case verb == ledger.VerbAck, verb == ledger.VerbNote:
		return safe.Text{}
	case verb == ledger.VerbPark && settled:
		return say("settled: it is out of the way already")
	case verb == ledger.VerbUndo && state == ledger.Uncertain:
		return say("nothing to undo: it is in doubt")
	case verb == ledger.VerbUndo && inFlight:
		return say("nothing to undo: an attempt is in flight until %s", t.at(o.DeadlineAt))
	case verb == ledger.VerbAbandon && inFlight:
		return say("an attempt is in flight until %s", t.at(o.DeadlineAt))
	case verb == ledger.VerbAbandon && state == ledger.Committed:
		return say("it landed: there is nothing to abandon")
	case verb == ledger.VerbAbandon && state == ledger.Abandoned:
		return say("it is abandoned already, by %s", Who(o.Actor))
	case (verb == ledger.VerbConfirm || verb == ledger.VerbDeny) && inFlight:
		return say("in flight until %s: its own answer comes first", t.at(o.DeadlineAt))
	case (verb == ledger.VerbConfirm || verb == ledger.VerbDeny) && state != ledger.Uncertain:
		return say("settled: %s, by %s. U puts it back in doubt first", State(state), Who(o.Actor))
	case inFlight:
		return say("in flight until %s", t.at(o.DeadlineAt))
	}
	return safe.Text{}
}

func (t Ticket) offRetry() safe.Text {
	o := &t.Record.Operation
	switch t.State() {
	case ledger.Pending:
		return safe.Say("an attempt is in flight until %s", t.at(o.DeadlineAt))
	case ledger.Committed:
		return safe.Say("it landed: sending again would do it twice")
	case ledger.Abandoned:
		return safe.Say("abandoned by %s. U puts it back in doubt first", Who(o.Actor))
	}
	if h := t.Record.HeldBy(); h != nil {
		return safe.Say("held by %s: %s. H releases", Who(h.Actor.Name), h.Reason)
	}
	return safe.Text{}
}

func (t Ticket) offCheck() safe.Text {
	switch {
	case t.Facts.Unasked != "":
		return safe.Say("no check is possible: %s", t.Facts.Unasked)
	case !t.Facts.HasRead:
		return safe.Say("no check: the policy has no `read` for %s", t.Kind())
	case t.State() == ledger.Pending:
		return safe.Say("in flight until %s", t.at(t.Record.Operation.DeadlineAt))
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
	case ledger.BasisAbsent, ledger.BasisKeySafe:
		return safe.Say("%s: %s; one y", what, Because(t.Facts.Basis, ""))
	}
	return safe.Say("%s at own risk: a reason, and type %s", what, ToType(t.Facts.Advice.Duplicate))
}

// Candidates are the receipts that the newest check showed without being able to
// tell whose they are, as they are written.
func (t Ticket) Candidates() []string {
	for _, r := range t.Record.Reads {
		if r.Control {
			continue
		}
		if r.Cause == ledger.CauseUnidentified || r.Cause == ledger.CauseShared || r.Cause == ledger.CauseOlder {
			return r.Receipts
		}
		break
	}
	return nil
}
