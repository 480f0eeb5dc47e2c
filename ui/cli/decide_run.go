package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/act"
)

// begin writes the run down before its first change, unless it is a rehearsal. A
// run that is known goes on where it stopped, with the versions it had seen then.
func (r *decisionRun) begin(ctx context.Context, args []string, items []act.Item, step act.Step) error {
	r.Run = act.New(r.store, ledger.DecisionRun{IdempotencyKey: r.flags.idempotencyKey, Digest: r.flags.digest(r.verb, args), Verb: r.verb, Actor: r.actor, CreatedAt: r.app.clock()}, items, step)
	r.Rehearsal = r.flags.dryRun
	err := r.Begin(ctx)
	if errors.Is(err, ledger.ErrKeyReused) {
		return &failure{Exit: exitKeyReused, Code: "key_reused", Message: fmt.Sprintf("--idempotency-key %q was used with another command", r.flags.idempotencyKey),
			Hint: "use a new key for a new decision", cause: err}
	}
	return err
}

// digest binds an idempotency key to the verb and everything that was said.
func (d *decideFlags) digest(verb string, args []string) string {
	b, _ := json.Marshal([]any{verb, args, strings.TrimSpace(d.reason), d.receipts, d.reference, d.truth, d.until, d.request})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// warn says that the run could not be kept. The decisions stand without it.
func (r *decisionRun) warn(err error) {
	if err != nil {
		r.app.warnf("the decisions stand, but how far the run has come could not be kept: %v", err)
	}
}
