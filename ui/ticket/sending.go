package ticket

import (
	"cmp"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

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
