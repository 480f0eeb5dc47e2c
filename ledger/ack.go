package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Truth is what a person says is true of an operation in conflict (VerbAck). It
// settles the operation, so that no check finds anything new in what was seen.
type Truth string

const (
	// TakenBack: an effect was taken back outside, as the reference shows. Committed
	// where another effect stands, else abandoned.
	TakenBack Truth = "taken_back"
	// BothWanted: every effect that is known was wanted. Committed.
	BothWanted Truth = "both_wanted"
	// LandedOnce: exactly one effect is this operation's. Committed, with its receipt.
	LandedOnce Truth = "landed_once"
	// NotLanded: no effect is this operation's. Failed, without proof.
	NotLanded Truth = "not_landed"
)

// Truths are all of them, as a person is asked.
var Truths = []Truth{TakenBack, BothWanted, LandedOnce, NotLanded}

// Words are the truth in a sentence.
func (t Truth) Words() string {
	return map[Truth]string{TakenBack: "taken back outside", BothWanted: "both were wanted", LandedOnce: "it landed once", NotLanded: "it did not land"}[t]
}

// Untrue says why a truth cannot be said of this record, or "".
func (r *Record) Untrue(t Truth) string {
	o := r.Operation
	switch {
	case o.Conflict == NoConflict:
		return "it is not in conflict"
	case r.State() == Pending:
		return "an attempt is in flight: its own answer comes first"
	case !slices.Contains(Truths, t):
		return fmt.Sprintf("%q is none of taken_back, both_wanted, landed_once, not_landed", t)
	case t == BothWanted && !o.several():
		return "one effect is known, and no second one"
	case t == NotLanded && answered(r.Attempts):
		return "its own answer says that it landed"
	}
	return ""
}

// answered reports whether an attempt's own answer, however late, says that it landed.
func answered(attempts []Attempt) bool {
	return slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Final() == OutcomeCommitted })
}

// several reports whether more than one effect is known, or may be there.
func (o *Operation) several() bool {
	return o.Effects > 1 || len(o.Receipts) > 1 || o.Conflict == ConflictMaybeTwice
}

// ack settles an operation in conflict by what a person says is true of it.
func (d Decision) ack(rec *Record, o *Operation) error {
	no := func(code, why, hint string) error {
		return &RefusedError{Verb: string(d.Verb), Code: code, Why: why, Hint: hint}
	}
	if o.Conflict == NoConflict {
		return moved(rec, string(d.Verb), d.Version, true)
	}
	if d.Truth == "" {
		return no("incomplete", "it needs what is true", "one of taken_back, both_wanted, landed_once, not_landed")
	}
	if why := rec.Untrue(d.Truth); why != "" {
		return no("refused", why, "say what else is true")
	}
	switch {
	case d.Truth == TakenBack && strings.TrimSpace(d.Reference) == "":
		return no("incomplete", "it needs the reference of what was taken back", "add --reference: the refund, the ticket, the commit")
	case d.Truth != TakenBack && strings.TrimSpace(d.Reason) == "":
		return no("incomplete", "it needs a reason", "add --reason TEXT")
	case d.Truth != LandedOnce && len(d.Receipts) > 0 || len(d.Receipts) > 1:
		return no("incomplete", "one receipt goes with landed_once, and none with another", "")
	case d.Truth == LandedOnce && len(d.Receipts) == 0 && len(o.Receipts) > 1:
		return no("incomplete", "several receipts are known: "+strings.Join(o.Receipts, ", "), "say which one it is: --receipt")
	}
	d.settleAs(rec, o)
	return nil
}

// settleAs makes a truth the record. Every receipt that is known is covered: a check
// that finds it again finds nothing new.
func (d Decision) settleAs(rec *Record, o *Operation) {
	several, before := o.several(), o.State
	o.Fact = ""
	for _, r := range o.Receipts {
		o.AckedReceipts = include(o.AckedReceipts, r)
	}
	switch d.Truth {
	case TakenBack:
		o.State = Abandoned
		if several {
			o.State = Committed
		}
	case BothWanted:
		o.State, o.Effects = Committed, max(o.Effects, 2)
	case LandedOnce:
		if len(d.Receipts) > 0 {
			o.claim(strings.TrimSpace(d.Receipts[0]))
			o.Receipts = []string{strings.TrimSpace(d.Receipts[0])}
			o.AckedReceipts = include(o.AckedReceipts, o.Receipts[0])
		}
		o.State, o.Effects = Committed, 1
		if o.Verdict == Twice && len(o.Receipts) > 0 {
			o.Verdict = Landed
		}
	case NotLanded:
		o.State, o.Effects, o.Receipts, o.Result = Failed, 0, nil, nil
	}
	o.Conflict, o.ConflictNote, o.PersonOnly = NoConflict, "", true
	if o.State != before {
		o.SettledAt, o.ByAnswer = rec.Now, false
	}
}

// claim adds a receipt on a person's word. It is theirs until evidence shows it too.
func (o *Operation) claim(receipt string) {
	if receipt != "" && !slices.Contains(o.Receipts, receipt) && !slices.Contains(o.AckedReceipts, receipt) {
		o.ClaimedReceipts = include(o.ClaimedReceipts, receipt)
	}
	o.Receipts = include(o.Receipts, receipt)
}

// undo puts an operation back in doubt, unless an attempt was sent since. What only
// a decision had said goes with it: its receipts, what it had dealt with, and the
// flags that stand on it alone.
func undo(rec *Record, o *Operation) error {
	if o.Moved != "" {
		return &RefusedError{Verb: "undo", Code: "refused", Why: "its history was moved to " + o.Moved}
	}
	for _, g := range rec.Allowed {
		if !g.ConsumedAt.IsZero() && g.ConsumedAt.After(o.SettledAt) {
			return &RefusedError{Verb: "undo", Code: "refused", Why: "another attempt was sent since"}
		}
	}
	for _, r := range o.AckedReceipts {
		o.Receipts = include(o.Receipts, r)
	}
	claimed := o.ClaimedReceipts
	o.Receipts = slices.DeleteFunc(slices.Clone(o.Receipts), func(r string) bool { return slices.Contains(claimed, r) })
	o.AckedReceipts, o.ClaimedReceipts = nil, nil
	if o.Effects = effects(*o, rec.Attempts); o.Verdict == Twice {
		o.Effects = max(o.Effects, 2)
	}
	switch {
	case o.Effects > 1 && o.Conflict == NoConflict:
		raise(o, ConflictTwice, fmt.Sprintf("%d effects are known", o.Effects))
	case o.Effects > 1:
	case o.Conflict == ConflictTwice, !answered(rec.Attempts) && (o.Conflict == ConflictMaybeTwice ||
		o.Conflict == ConflictDisputed && (o.Verdict == Landed || o.Verdict == NotThere && len(o.Receipts) == 0)):
		o.Conflict, o.ConflictNote = NoConflict, ""
	}
	o.State, o.PersonOnly, o.Doubted = Uncertain, true, true
	o.SettledAt = time.Time{}
	if o.DoubtedAt.IsZero() {
		o.DoubtedAt = rec.Now
	}
	o.ByAnswer = false
	return nil
}
