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
	r := refusal{t}
	switch verb {
	case ledger.VerbConfirm, ledger.VerbDeny:
		return r.settling()
	case ledger.VerbAbandon:
		return r.abandon()
	case ledger.VerbPark:
		return r.park()
	case ledger.VerbUndo:
		return r.undo()
	case Retry:
		return r.retry()
	case Check:
		return r.check()
	case ledger.VerbAck:
		switch {
		case t.Row.Conflict == ledger.NoConflict:
			return safe.Say("no conflict: nothing to deal with")
		case t.State() == ledger.Pending:
			return safe.Say("in flight until %s: its own answer comes first", t.at(t.Row.DeadlineAt))
		}
	}
	return safe.Text{}
}

// refusal says of each verb why the ticket does not allow it; empty where it does.
type refusal struct{ Ticket }

func (r refusal) settling() safe.Text {
	switch state := r.State(); state {
	case ledger.Uncertain:
		return safe.Text{}
	case ledger.Pending:
		return safe.Say("in flight until %s: its own answer comes first", r.at(r.Row.DeadlineAt))
	case ledger.Abandoned:
		return r.left()
	default:
		who, _, _ := Settled(r.Ticket)
		return safe.Say("settled: %s, by %s. U puts it back in doubt first", State(state), Who(who))
	}
}

// left says who abandoned it, and how it is taken up again.
func (r refusal) left() safe.Text {
	who, _, _ := Settled(r.Ticket)
	return safe.Say("abandoned by %s. U restores it first", Who(who))
}

func (r refusal) abandon() safe.Text {
	switch r.State() {
	case ledger.Pending:
		return safe.Say("an attempt is in flight until %s", r.at(r.Row.DeadlineAt))
	case ledger.Committed:
		return safe.Say("it landed: there is nothing to abandon")
	case ledger.Abandoned:
		return safe.Say("it is abandoned already, by %s", Who(r.Row.Actor))
	}
	return safe.Text{}
}

func (r refusal) park() safe.Text {
	switch state := r.State(); {
	case state == ledger.Pending:
		return safe.Say("in flight until %s", r.at(r.Row.DeadlineAt))
	case r.Row.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned):
		return safe.Say("settled: it is out of the way already")
	}
	return safe.Text{}
}

func (r refusal) undo() safe.Text {
	switch r.State() {
	case ledger.Uncertain:
		return safe.Say("nothing to undo: it is in doubt")
	case ledger.Pending:
		return safe.Say("nothing to undo: an attempt is in flight until %s", r.at(r.Row.DeadlineAt))
	}
	if moved := r.Record.Operation.Moved; moved != "" {
		return safe.Say("its history was moved to %s", moved)
	}
	return safe.Text{}
}

func (r refusal) retry() safe.Text {
	o := &r.Record.Operation
	switch r.State() {
	case ledger.Pending:
		return safe.Say("an attempt is in flight until %s", r.at(o.DeadlineAt))
	case ledger.Committed:
		return safe.Say("it landed: sending again would do it twice")
	case ledger.Abandoned:
		return r.left()
	}
	if gone := o.Gone(); gone != "" {
		return safe.Say("%s: what it says is not kept", gone)
	}
	if h := r.Record.HeldBy(); h != nil {
		return safe.Say("held by %s: %s. H releases", Who(h.Actor.Name), h.Reason)
	}
	return safe.Text{}
}

func (r refusal) check() safe.Text {
	switch {
	case r.Facts.Unasked != "":
		return safe.Say("no check is possible: %s", r.Facts.Unasked)
	case !r.Facts.HasRead:
		return safe.Say("no check: the policy has no `read` for %s", r.Kind())
	case r.State() == ledger.Pending:
		return safe.Say("in flight until %s", r.at(r.Record.Operation.DeadlineAt))
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
