package ask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/console/dialog"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

const needReference = "a reference: the refund, the ticket, the commit"

// inBulk are the truths that can be said of several at once, and their short names.
var inBulk = map[string]ledger.Truth{"taken back": ledger.TakenBack, "both wanted": ledger.BothWanted, "landed once": ledger.LandedOnce}

// Ack asks what is true of a conflict.
func (c Case) Ack() *dialog.Dialog {
	d := c.about("Dealt with: what is true?")
	c.wasInConflict(d)
	rec := c.told().Record
	d.Next = map[string]*dialog.Dialog{}
	for i, truth := range ledger.Truths {
		key := fmt.Sprint(i + 1)
		if why := rec.Untrue(truth); why != "" {
			d.Put(ticket.Fact{Label: safe.Of(key), Text: safe.Say("%s: not here, %s", truth.Words(), why)})
			continue
		}
		d.Put(ticket.Fact{Label: safe.Of(key), Text: safe.Say("%s: %s", truth.Words(), c.becomes(truth))})
		d.Next[key] = c.dealtWith(truth)
	}
	return d
}

// wasInConflict adds what a conflict is about.
func (c Case) wasInConflict(d *dialog.Dialog) {
	o := &c.told().Record.Operation
	d.Add("WAS", "%s%s", strings.ToLower(ticket.Conflict(o.Conflict)), ticket.Colon(o.ConflictNote))
	if len(o.Receipts) > 0 {
		d.Add("COVERS", "%s; a receipt found later raises it again", ticket.List(o.Receipts))
	}
	c.warn(d)
}

// becomes says what a truth makes of the operation.
func (c Case) becomes(truth ledger.Truth) safe.Text {
	o := &c.told().Record.Operation
	switch truth {
	case ledger.TakenBack:
		if o.Effects > 1 || len(o.Receipts) > 1 || o.Conflict == ledger.ConflictMaybeTwice {
			return safe.Say("one stands; its reference is asked")
		}
		return safe.Say("nothing stands, and the same again is refused; its reference is asked")
	case ledger.BothWanted:
		return safe.Say("it landed, and every effect stays")
	case ledger.LandedOnce:
		return safe.Say("one effect is this one's, with its receipt")
	}
	return safe.Say("what was found is not this one's; sending again is at own risk")
}

// dealtWith asks for what a truth needs, and for no more.
func (c Case) dealtWith(truth ledger.Truth) *dialog.Dialog {
	title := truth.Words()
	d := c.about("What is true?")
	d.Title = safe.Say("%s?", strings.ToUpper(title[:1])+title[1:])
	c.wasInConflict(d)
	d.Add("WILL", "settle it: %s. indoubt takes nothing back itself", c.becomes(truth))
	d.Add("UNDO", "U puts it back in doubt")
	o := &c.told().Record.Operation
	reason, reference := dialog.TextField("How do you know", "").Must(), dialog.TextField("Reference", "").Must()
	receipt := dialog.TextField("Receipt", "")
	d.Fields, d.Do = []*dialog.Field{reason}, "Settle it"
	known := func(given []string) bool { return len(given) == 1 && slices.Contains(o.Receipts, given[0]) }
	switch truth {
	case ledger.TakenBack:
		d.Fields = []*dialog.Field{reference, dialog.TextField("What was done", "")}
		reason = d.Fields[1]
	case ledger.LandedOnce:
		if len(o.Receipts) == 1 {
			receipt = dialog.TextField("Receipt", writeReceipts(o.Receipts))
		}
		receipt.MustWhere(func() bool { return len(o.Receipts) > 1 })
		reason.MustWhere(func() bool { given, _ := readReceipts(receipt.Value()); return !known(given) })
		d.Fields = []*dialog.Field{receipt, reason}
	}
	d.Submit = func(time.Time) (dialog.Action, dialog.Fault) {
		dec := ledger.Decision{Verb: ledger.VerbAck, Truth: truth, Reason: reason.Value(), Reference: reference.Value()}
		given, why := readReceipts(receipt.Value())
		if truth == ledger.LandedOnce {
			dec.Receipts = given
		}
		fault := dialog.Fault{Why: why, At: receipt}
		switch {
		case why != "":
		case truth == ledger.TakenBack:
			fault = missing(reference, needReference)
		case truth == ledger.LandedOnce && len(o.Receipts) > 1 && receipt.Value() == "":
			fault.Why = "which of them it is: " + ticket.List(o.Receipts).String()
		case truth == ledger.LandedOnce && len(dec.Receipts) > 1:
			fault.Why = "one receipt: it landed once"
		case known(given) && dec.Reason == "":
			dec.Reason = "it is " + receipt.Value()
		default:
			fault = missing(reason, "say how you know: it is read when it was wrong")
		}
		return c.decide(dec, safe.Say("dealt with")), fault
	}
	return d
}
