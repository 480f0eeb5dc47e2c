package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"indoubt/ledger"
	"indoubt/policy"
)

// maxOthers is among how many other operations it is looked for one that may have
// made what was found.
const maxOthers = 500

// whose tells why what was found may be another operation's: the check does not
// look for the token, and another one has the same key, or wants the same. "" when
// it is ours. shared tells that it is safe to repeat and there, and that another one
// that wants the same may have made it all the same.
func (e *Engine) whose(ctx context.Context, k *policy.Kind, rec ledger.Record, found []policy.Effect) (why string, shared bool) {
	o, by := rec.Operation, k.Read.OwnBy()
	doubt, one := o.StateAt(rec.Now) == ledger.Uncertain, len(found) == 1 && found[0].Same
	switch {
	case by == policy.OwnByToken, one && k.Read.JudgesToken() && o.Token != "":
		return "", false
	case !doubt && known(o, found):
		return "", false
	}
	if k.Idempotent && o.State == ledger.Committed && by != policy.OwnByToken {
		return "what is safe to repeat may be there more than once", false
	}
	repeats := k.Idempotent && one && doubt // it is there, whichever of those made it that want the same
	if by == policy.OwnByContent && o.Fingerprint == "" && !repeats {
		return "it was recorded without a fingerprint of its input, so others that want the same are not known: this check does not look for the token", false
	}
	// Whoever made what the answer shows was in the ledger before it came, though
	// not always before it was asked for.
	ids, err := e.o.Store.Namesakes(ctx, o.ID, maxOthers)
	full := len(ids) == maxOthers
	if err == nil && by == policy.OwnByContent {
		var more []string
		var most bool
		more, most, err = e.besides(ctx, k, e.policy().Digest())
		ids, full = append(ids, more...), full || most && !k.Read.ComparesAll(o)
	}
	var others []ledger.Record
	if err == nil {
		slices.Sort(ids)
		others, err = e.o.Store.Records(ctx, slices.Compact(ids))
	}
	if err != nil {
		return "another operation may have made it, and the ledger did not tell: " + err.Error(), false
	}
	for _, other := range others {
		p := other.Operation
		full = full && (by == policy.OwnByContent || p.Key == o.Key)
		switch {
		case p.ID == o.ID, !e.sameSide(k, p.Kind), neverActed(other), elsewhere(other, found):
		case repeats && by == policy.OwnByContent && sameWish(o, p):
			shared = true
		case by == policy.OwnByKey && p.Key == o.Key:
			return fmt.Sprintf("%s has the same key and may have made it: this check does not look for the token", p.ID), false
		case by == policy.OwnByContent && k.Read.Alike(o, p):
			return fmt.Sprintf("%s wants the same and may have made it: this check does not look for the token", p.ID), false
		}
	}
	if full && !(repeats && by == policy.OwnByContent) {
		return "so many others are there that one of them may have made it: this check does not look for the token", false
	}
	return "", shared
}

// known tells whether all that was found is recorded as ours.
func known(o ledger.Operation, found []policy.Effect) bool {
	return !slices.ContainsFunc(found, func(f policy.Effect) bool { return f.Receipt == "" || !slices.Contains(o.Receipts, f.Receipt) })
}

// sameSide tells whether a kind acts where this one is looked for.
func (e *Engine) sameSide(k *policy.Kind, name string) bool {
	if name == k.Name {
		return true
	}
	other := e.policy().Kind(name)
	return other.Downstream == nil || k.Downstream == nil || other.Downstream.Name == k.Downstream.Name
}

// sameWish tells whether two operations of one kind want the same.
func sameWish(a, b ledger.Operation) bool {
	return a.Kind == b.Kind && (a.Fingerprint != "" && a.Fingerprint == b.Fingerprint || bytes.Equal(a.Input, b.Input))
}

// elsewhere tells whether all that an operation did is known, by its own answer and
// never in doubt, and none of it is what was found.
func elsewhere(rec ledger.Record, found []policy.Effect) bool {
	o := rec.Operation
	return o.State == ledger.Committed && o.ByAnswer && !o.Doubted && len(o.Receipts) > 0 && len(o.Receipts) >= o.Effects &&
		!slices.ContainsFunc(found, func(f policy.Effect) bool { return f.Receipt == "" || slices.Contains(o.Receipts, f.Receipt) })
}

// neverActed tells whether every attempt is known to have had no effect.
func neverActed(rec ledger.Record) bool {
	return rec.Operation.State == ledger.Failed && !slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool {
		return a.Proof != ledger.ProvenAbsent && (a.Final() != ledger.OutcomeFailed || a.Proof == "")
	})
}
