package ask

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/console/detail"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Retry shows exactly what would be sent, and asks.
func (c Case) Retry(p reconcile.Plan) *dialog.Dialog {
	d := c.about("Retry?")
	d.Version = p.Record.Operation.Version
	proven := p.Basis == ledger.BasisAbsent || p.Basis == ledger.BasisKeySafe
	if proven {
		d.Add("ALLOWED BECAUSE", cmp.Or(safe.Of(p.Why).String(), ticket.Because(p.Basis, "")))
		if !p.LapsesAt.IsZero() && p.LapsesAt.Before(ledger.Never) {
			d.Until = p.LapsesAt
		}
	} else {
		d.Title = "RETRY WITHOUT PROOF"
		c.risk(d, p)
	}
	if p.OverridesMax {
		place := ""
		if c.Facts.Pattern != "" {
			place = fmt.Sprintf(" (%s:%d)", filepath.Base(c.Facts.File), c.Facts.Line)
		}
		d.Warn("OVERRIDES", fmt.Sprintf("retry max %d%s", max(p.Max-1, 0), place))
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
	want := ticket.Typed(p.Loss.Value)
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
	op := c.Rec.Operation
	send := safe.Of(p.WillSend).String()
	if p.Sender == "pipeline" {
		send = cmp.Or(op.Source.Pipeline, "its pipeline") + " may send once, when it asks next"
	}
	if len(p.Body) > 0 {
		d.More = strings.Split(safe.Lines(p.Body), "\n")
		if asked {
			send += "   ^b: body"
		} else {
			send += "   b: body"
		}
	}
	d.Add("WILL SEND", send)
	same := "same key " + cmp.Or(draw.Cut(op.Key, 24), "none")
	if op.Token != "" {
		same += ", same token " + draw.Cut(op.Token, 24)
	}
	if p.Attempt > 0 {
		same += fmt.Sprintf("; attempt %d", p.Attempt)
		if p.Max >= p.Attempt {
			same += fmt.Sprintf("/%d", p.Max)
		}
	}
	d.Add("", same)
	if p.FirstCheck {
		d.Add("FIRST", "one more check; if it landed, nothing is sent")
	}
	d.Add("UNDO", "impossible once sent")
}

// risk adds what cannot be proven, and what it costs if it went the other way. Odds
// are for what no one knows: where a person said it did not land, or two sides
// disagree, an average would make a word or a dispute look like a fact.
func (c Case) risk(d *dialog.Dialog, p reconcile.Plan) {
	o, a := &c.Rec.Operation, c.Facts.Advice
	twice := "it happens twice: " + ticket.FullCost(p.Loss)
	switch {
	case len(p.Showing.Related) > 0:
		d.Warn("NOT ALONE", safe.Of(p.Why).String())
		d.Warn("IF SENT", "it may happen twice, or undo the later one: "+ticket.FullCost(p.Loss))
	case o.Conflict != ledger.NoConflict:
		d.Warn("IN CONFLICT", strings.ToLower(ticket.Conflict(o.Conflict))+ticket.Colon(o.ConflictNote))
		d.Warn("IF IT LANDED", twice)
	case o.StateAt(c.Now) == ledger.Failed:
		d.Warn("NO PROOF", "that it did not land is only said, by "+ticket.Who(o.Actor)+ticket.Colon(o.Reason))
		d.Warn("IF IT LANDED", twice)
	default:
		guess := fmt.Sprintf("whether it landed. Guess %s", ticket.Percent(a.Odds.P))
		if a.Odds.N > 0 {
			guess += fmt.Sprintf(" (%s, %.0f–%.0f%%)", draw.Plural(a.Odds.N, "case", "cases"), a.Odds.Low*100, a.Odds.High*100)
		} else {
			guess += ", from no case at all"
		}
		full := func(v float64) string { return ticket.Full(detail.Round(v)) }
		worse := "the same"
		if diff := a.RetryCost - a.LeaveCost; diff > 0 {
			worse = full(diff) + " WORSE"
		} else if diff < 0 {
			worse = full(-diff) + " better"
		}
		d.Warn("NOBODY KNOWS", guess)
		d.Warn("IF IT LANDED", twice)
		d.Add("ON AVERAGE", fmt.Sprintf("send %s, leave %s: sending is %s", full(a.RetryCost), full(a.LeaveCost), worse))
	}
	switch {
	case !c.Facts.HasRead && !c.Facts.SafeUntil.After(c.Now):
		d.Warn("NO NET", "no check, no key: a duplicate would go unseen")
	case !c.Facts.HasRead:
		d.Warn("NO NET", "no check: a duplicate would go unseen")
	}
}

// Changed shows how what would be sent differs from what was agreed to.
func Changed(title string, e *reconcile.ChangedError) *dialog.Dialog {
	d := &dialog.Dialog{Title: "Not sent: it has changed", Head: title, Itself: true}
	d.Warn("WHY", "what would be sent is not what was shown")
	before := ""
	for _, line := range e.Difference() {
		sign, text, _ := strings.Cut(line, " ")
		label := map[string]string{"-": "SHOWN", "+": "NOW"}[sign]
		if sign == before {
			label = ""
		}
		d.Add(label, safe.Of(text).String())
		before = sign
	}
	d.Add("NOTHING", "was sent. R shows it as it is now")
	return d
}
