package console

import (
	"fmt"
	"path/filepath"
	"strings"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// retryDialog shows exactly what would be sent, and asks.
func (m *Root) retryDialog(p reconcile.Plan, b *brief) *dialog {
	op := b.rec.Operation
	d := m.about(b, "Retry?")
	d.version = p.Record.Operation.Version
	proven := p.Basis == ledger.BasisAbsent || p.Basis == ledger.BasisKeySafe
	if proven {
		d.facts = append(d.facts, fact{"ALLOWED BECAUSE", firstOf(safe.Of(p.Why).String(), ticket.Because(p.Basis, "")), false})
		if !p.LapsesAt.IsZero() && p.LapsesAt.Before(ledger.Never) {
			d.until = p.LapsesAt
		}
	} else {
		d.title = "RETRY WITHOUT PROOF"
		d.facts = append(d.facts, m.riskFacts(p, b)...)
	}
	if p.OverridesMax {
		d.facts = append(d.facts, fact{"OVERRIDES", fmt.Sprintf("retry max %d%s", max(p.Max-1, 0), m.policyPlace(b)), true})
	}
	d.facts = append(d.facts, m.warnings(b)...)
	send := safe.Of(p.WillSend).String()
	if p.Sender == "pipeline" {
		send = firstOf(op.Source.Pipeline, "its pipeline") + " may send once, when it asks next"
	}
	if len(p.Body) > 0 {
		d.more = strings.Split(safe.Lines(p.Body), "\n")
		if proven && !p.OverridesMax {
			send += "   b: body"
		} else {
			send += "   ^b: body"
		}
	}
	d.facts = append(d.facts, fact{"WILL SEND", send, false})
	same := fmt.Sprintf("same key %s", firstOf(cut(op.Key, 24), "none"))
	if op.Token != "" {
		same += ", same token " + cut(op.Token, 24)
	}
	if p.Attempt > 0 {
		same += fmt.Sprintf("; attempt %d", p.Attempt)
		if p.Max >= p.Attempt {
			same += fmt.Sprintf("/%d", p.Max)
		}
	}
	d.facts = append(d.facts, fact{"", same, false})
	if p.FirstCheck {
		d.facts = append(d.facts, fact{"FIRST", "one more check; if it landed, nothing is sent", false})
	}
	d.facts = append(d.facts, fact{"UNDO", "impossible once sent", false})

	basis := p.Basis
	if !proven {
		basis = ledger.BasisRiskAccepted
	}
	request := reconcile.RetryRequest{ID: d.id, Version: d.version, Basis: basis, Showing: p.Showing, Actor: m.actor, ChangeID: ledger.NewID(), OverrideMax: p.OverridesMax}
	label := "send once"
	if p.Sender == "pipeline" {
		label = "allow one send"
	}
	if proven && !p.OverridesMax {
		d.yes = "y " + label
		d.act = func(d *dialog) tea.Cmd { return m.retry(request, d.head) }
		return d
	}
	reason := textField("Reason", "")
	d.fields = []*field{reason}
	d.do = strings.ToUpper(label[:1]) + label[1:]
	want := ticket.Typed(p.Loss.Value)
	var loss *field
	if !proven {
		loss = typedField(ticket.Fit(16, "Type "+want, "Type that loss"))
		d.fields = append(d.fields, loss)
	}
	d.check = func(*dialog) string {
		if reason.value() == "" {
			return "say why this risk is taken"
		}
		if loss != nil && strings.ReplaceAll(loss.value(), ",", "") != want {
			return "type " + want + ": what it costs when it had landed after all"
		}
		return ""
	}
	d.act = func(d *dialog) tea.Cmd {
		request.Reason, request.LossTyped = reason.value(), loss != nil
		return m.retry(request, d.head)
	}
	return d
}

// riskFacts say what nobody can prove, and what it costs if it went the other way.
// Odds are for what nobody knows: where somebody said it did not land, or two
// sides disagree, an average would make a word or a dispute look like a fact.
func (m *Root) riskFacts(p reconcile.Plan, b *brief) []fact {
	o, a := &b.rec.Operation, b.facts.Advice
	twice := fact{"IF IT LANDED", "it happens twice: " + ticket.FullCost(p.Loss), true}
	var out []fact
	switch {
	case len(p.Showing.Related) > 0:
		out = append(out, fact{"NOT ALONE", safe.Of(p.Why).String(), true}, fact{"IF SENT", "it may happen twice, or undo the later one: " + ticket.FullCost(p.Loss), true})
	case o.Conflict != ledger.NoConflict:
		out = append(out, fact{"IN CONFLICT", strings.ToLower(ticket.Conflict(o.Conflict)) + ticket.Colon(o.ConflictNote), true}, twice)
	case o.StateAt(m.at) == ledger.Failed:
		out = append(out, fact{"NO PROOF", "that it did not land is only said, by " + ticket.Who(o.Actor) + ticket.Colon(o.Reason), true}, twice)
	default:
		guess := fmt.Sprintf("whether it landed. Guess %s", ticket.Percent(a.Odds.P))
		if a.Odds.N > 0 {
			guess += fmt.Sprintf(" (%s, %.0f–%.0f%%)", plural(a.Odds.N, "case", "cases"), a.Odds.Low*100, a.Odds.High*100)
		} else {
			guess += ", from no case at all"
		}
		worse := "the same"
		if diff := a.RetryCost - a.LeaveCost; diff > 0 {
			worse = ticket.Full(round2(diff)) + " WORSE"
		} else if diff < 0 {
			worse = ticket.Full(round2(-diff)) + " better"
		}
		out = append(out, fact{"NOBODY KNOWS", guess, true}, twice,
			fact{"ON AVERAGE", fmt.Sprintf("send %s, leave %s: sending is %s", ticket.Full(round2(a.RetryCost)), ticket.Full(round2(a.LeaveCost)), worse), false})
	}
	switch {
	case !b.facts.HasRead && !b.facts.SafeUntil.After(m.at):
		out = append(out, fact{"NO NET", "no check, no key: a duplicate would go unseen", true})
	case !b.facts.HasRead:
		out = append(out, fact{"NO NET", "no check: a duplicate would go unseen", true})
	}
	return out
}

// policyPlace is where the policy says it, in brackets.
func (m *Root) policyPlace(b *brief) string {
	if b.facts.Pattern == "" {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", filepath.Base(b.facts.File), b.facts.Line)
}

// changedDialog shows how what would be sent differs from what was agreed to.
func changedDialog(title string, e *reconcile.ChangedError) *dialog {
	d := &dialog{title: "Not sent: it has changed", head: title, itself: true}
	d.facts = []fact{{"WHY", "what would be sent is not what was shown", true}}
	before := ""
	for _, line := range e.Difference() {
		sign, text, _ := strings.Cut(line, " ")
		label := map[string]string{"-": "SHOWN", "+": "NOW"}[sign]
		if sign == before {
			label = ""
		}
		d.facts, before = append(d.facts, fact{label, safe.Of(text).String(), false}), sign
	}
	d.facts = append(d.facts, fact{"NOTHING", "was sent. R shows it as it is now", false})
	return d
}
