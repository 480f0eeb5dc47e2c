package ledger

import (
	"encoding/json"
	"slices"
	"strings"
)

// moved makes the error that refuses a change of a record that is not as seen.
func moved(rec *Record, verb string, seen int64, state bool) *MovedError {
	o := rec.Operation
	return &MovedError{ID: o.ID, Verb: verb, Seen: seen, Version: o.Version, State: rec.State(),
		Actor: o.Actor, Reason: o.Reason, At: o.UpdatedAt, NotFromThisOne: state}
}

// HeldBy is a hold that covers the record's operation now, or nil: one on begins before any other.
func (r *Record) HeldBy() *Hold { return covering(r.Holds, r.Operation.Kind, r.Now) }

// voided closes every open permission: it was given for a situation that is gone.
func voided(rec *Record, why string) []Allowed {
	var out []Allowed
	for _, g := range rec.Allowed {
		if g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() {
			g.VoidedAt, g.VoidReason = rec.Now, why
			out = append(out, g)
		}
	}
	return out
}

// with replaces or appends one attempt.
func with(attempts []Attempt, a Attempt) []Attempt {
	out := slices.Clone(attempts)
	for i := range out {
		if out[i].ID == a.ID {
			out[i] = a
			return out
		}
	}
	return append(out, a)
}

// include is a list with one more receipt, unless it has it or there is none.
func include(list []string, receipt string) []string {
	if receipt == "" || slices.Contains(list, receipt) {
		return list
	}
	return append(slices.Clone(list), receipt)
}

// learn adds a receipt that an answer or a check shows, also one that a person named before.
func learn(o *Operation, receipt string) {
	o.Receipts = include(o.Receipts, receipt)
	if slices.Contains(o.ClaimedReceipts, receipt) {
		o.ClaimedReceipts = slices.DeleteFunc(slices.Clone(o.ClaimedReceipts), func(r string) bool { return r == receipt })
	}
}

// covered reports whether an acknowledgement has covered every receipt known.
func covered(o Operation) bool {
	if len(o.AckedReceipts) == 0 {
		return false
	}
	return dealtWith(o, o.Receipts)
}

// dealtWith reports whether an acknowledgement has covered these receipts.
func dealtWith(o Operation, receipts []string) bool {
	return !slices.ContainsFunc(receipts, func(r string) bool { return !slices.Contains(o.AckedReceipts, r) })
}

// raise puts a flag up, unless a graver one is up already.
func raise(o *Operation, c Conflict, why string) {
	if c.rank() >= o.Conflict.rank() {
		o.Conflict, o.ConflictNote = c, why
	}
}

// note leaves who changed the operation, when and why.
func note(rec *Record, o *Operation, a Actor, reason string) {
	o.Actor, o.Reason, o.UpdatedAt = a.Name, reason, rec.Now
	o.touch(a)
}

// touch keeps a person among those who acted on the operation.
func (o *Operation) touch(a Actor) {
	name := strings.Join(strings.Fields(a.Name), " ")
	if a.Machine || name == "" || slices.Contains(strings.Split(o.Hands, "\n"), name) {
		return
	}
	o.Hands = strings.TrimPrefix(o.Hands+"\n"+name, "\n")
}

func detail(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only names, texts and numbers come here
	}
	return b
}
