package ask

import (
	"cmp"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Retry shows exactly what would be sent, and asks.
func (c Case) Retry(p reconcile.Plan) *dialog.Dialog {
	d := c.about("Retry?")
	d.Version = p.Record.Operation.Version
	d.Sends = true
	proven := p.Basis == ledger.BasisAbsent || p.Basis == ledger.BasisKeySafe
	if proven {
		d.Add("ALLOWED BECAUSE", "%s", safe.Of(p.Why).Or(ticket.Because(p.Basis, "")))
		if !p.LapsesAt.IsZero() && p.LapsesAt.Before(ledger.Never) {
			d.Until = p.LapsesAt
		}
	} else {
		d.Title, d.Risk = safe.Say("RETRY WITHOUT PROOF"), true
		d.Put(c.told().Risks(p)...)
	}
	if p.OverridesMax {
		place := c.told().Place()
		if !place.Empty() {
			place = safe.Say(" (%s)", place)
		}
		d.Warn("OVERRIDES", "retry max %d%s", max(p.Max-1, 0), place)
	}
	c.warn(d)
	asked := !proven || p.OverridesMax // for a reason, and a button instead of one y
	c.willSend(d, p, asked)
	request := reconcile.RetryRequest{ID: d.ID, Version: d.Version, Basis: p.Basis, Showing: p.Showing, OverrideMax: p.OverridesMax}
	label := "send once"
	if p.Sender == "pipeline" {
		label = "allow one send"
	}
	if !asked {
		d.Yes = "y " + label
		d.Submit = func(time.Time) (dialog.Action, string) { return Send{request, d.Head}, "" }
		return d
	}
	reason := dialog.TextField("Reason", "")
	d.Fields, d.Do = []*dialog.Field{reason}, strings.ToUpper(label[:1])+label[1:]
	want := ticket.ToType(p.Loss)
	var loss *dialog.Field
	if !proven {
		request.Basis, request.LossTyped = ledger.BasisRiskAccepted, true
		loss = dialog.TypedField(ticket.Fit(16, "Type "+want, "Type that loss"))
		d.Fields = append(d.Fields, loss)
	}
	d.Submit = func(time.Time) (dialog.Action, string) {
		if loss != nil && reason.Value() != "" && strings.ReplaceAll(loss.Value(), ",", "") != want {
			return nil, "type " + want + ": what it costs when it had landed after all"
		}
		request.Reason = reason.Value()
		return Send{request, d.Head}, missing(reason, "say why this risk is taken")
	}
	return d
}

// willSend adds what goes out, and as which attempt.
func (c Case) willSend(d *dialog.Dialog, p reconcile.Plan, asked bool) {
	t := c.told()
	op, send := &t.Record.Operation, safe.Of(p.WillSend)
	if p.Sender == "pipeline" {
		send = safe.Say("%s may send once, when it asks next", t.Pipeline())
	}
	if len(p.Body) > 0 {
		d.More = safe.Each(strings.Split(p.Body, "\n"))
		if asked {
			send = safe.Say("%s   ^b: body", send)
		} else {
			send = safe.Say("%s   b: body", send)
		}
	}
	d.Add("WILL SEND", "%s", send)
	same := safe.Say("same key %s", cmp.Or(draw.Cut(op.Key, 24), "none"))
	if op.Token != "" {
		same = safe.Say("%s, same token %s", same, draw.Cut(op.Token, 24))
	}
	if p.Attempt > 0 {
		same = safe.Say("%s; attempt %d", same, p.Attempt)
		if p.Max >= p.Attempt {
			same = safe.Say("%s/%d", same, p.Max)
		}
	}
	d.Add("", "%s", same)
	if p.FirstCheck {
		d.Add("FIRST", "one more check; if it landed, nothing is sent")
	}
	d.Warn("UNDO", "impossible once sent")
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
