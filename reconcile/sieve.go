package reconcile

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// sieveHolds is how long a check that told one operation from another is trusted
// to do so still.
const sieveHolds = time.Hour

// sieve tells why what was found may be anybody's: the check takes whatever the
// other side answers when it is asked for the token, and it answers the same to a
// token that was never sent. A parameter that the other side does not know, or
// no longer knows, has this effect. "" when the check can tell them apart.
func (e *Engine) sieve(ctx context.Context, k *policy.Kind, rec ledger.Record, held *holding, eager bool) string {
	if k.Idempotent || !k.Read.TrustsTheirSearch() {
		return ""
	}
	key := k.Name + "\x00" + held.digest
	free, err := e.sieves.making.lock(ctx, key)
	if err != nil {
		return err.Error()
	}
	defer free()
	began := e.now()
	if e.sieves.heldSince(key, began.Add(-sieveHolds)) {
		return ""
	}
	if last, tried := e.sieves.last(key); tried && !eager && began.Sub(last.at) < controlPause {
		return last.why
	}
	nobody := rec
	nobody.Operation.Token, nobody.Operation.Key, nobody.Operation.Receipts = ledger.NewToken(), ledger.NewToken(), nil
	f := e.look(ctx, k, nobody, func() error { return held.lasts(ctx, k) })
	switch {
	case len(f.effects) > 0:
		why := "this check finds something for a token that was never sent as well"
		e.sieves.note(key, began, failedControl{e.now(), why})
		return why
	case f.unanswered:
		return "whether this check finds something for a token that was never sent is not known: " + f.trouble
	}
	// To say that there is no such thing, some answer with an error, always the same.
	e.sieves.note(key, began, failedControl{})
	return ""
}
