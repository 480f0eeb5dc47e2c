package ticket

import (
	"cmp"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

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
