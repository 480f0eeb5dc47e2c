package ask

import (
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/console/dialog"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Retry shows exactly what would be sent, and asks.
func (c Case) Retry(p reconcile.Plan) *dialog.Dialog {
	d := c.about("Retry?")
	d.Version = p.Record.Operation.Version
	d.Sends = true
	enough := ticket.Enough(p.Basis)
	if !enough {
		d.Title = safe.Say("RETRY WITHOUT PROOF")
	} else if !p.LapsesAt.IsZero() && p.LapsesAt.Before(ledger.Never) {
		d.Until = p.LapsesAt
	}
	d.Put(c.told().Ground(p, c.Me, 2)...)
	d.Put(c.told().Sending(p)...)
	if p.Body != "" { // whole, and last: it may be longer than the screen
		d.Rest = append([]safe.Text{safe.Say("BODY")}, ticket.Body(p.Body)...)
	}
	request := reconcile.RetryRequest{ID: d.ID, Version: d.Version, Basis: p.Basis, Showing: p.Showing}
	label := "send once"
	if p.Sender == "pipeline" {
		label = "allow one send"
	}
	if enough {
		d.Yes = "y " + label
		d.Submit = func(time.Time) (dialog.Action, dialog.Fault) { return Send{request, d.Head}, dialog.Fault{} }
		return d
	}
	want := ticket.ToType(p.Loss)
	reason := dialog.TextField("Reason", "").Must()
	loss := dialog.TypedField(ticket.Fit(16, "Type "+ticket.Quoted(want), "Type that loss")).Must()
	d.Fields, d.Do = []*dialog.Field{reason, loss}, strings.ToUpper(label[:1])+label[1:]
	request.Basis, request.LossTyped = ledger.BasisRiskAccepted, true
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		if reason.Value() != "" && strings.ReplaceAll(loss.Value(), ",", "") != want {
			return nil, dialog.Fault{Why: "type " + ticket.Quoted(want) + ": what it costs when it had landed after all", At: loss}
		}
		request.Reason = reason.Value()
		return Send{request, d.Head}, missing(reason, "say why this risk is taken")
	}
	return d
}

// Changed shows how what would be sent differs from what was agreed to.
func Changed(title safe.Text, e *reconcile.ChangedError) *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("Not sent: it has changed"), Head: title, Itself: true}
	d.Warn("WHY", "what would be sent is not what was shown")
	before := ""
	for _, line := range e.Difference() {
		sign, text, _ := strings.Cut(line, " ")
		label := map[string]safe.Format{"-": "SHOWN", "+": "NOW"}[sign]
		if sign == before {
			label = ""
		}
		d.Add(label, "%s", text)
		before = sign
	}
	d.Add("NOTHING", "was sent. R shows it as it is now")
	return d
}
