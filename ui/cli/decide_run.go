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
)

// record writes the run down before its first change. A run that is known goes
// on where it stopped, with the versions it had seen then.
func (r *decisionRun) record(ctx context.Context, args []string, all []target, found []*ledger.Record) error {
	some := false
	var ops []string
	for i, rec := range found {
		if rec != nil {
			some = true
			ops = append(ops, fmt.Sprintf("%s@%d", rec.Operation.ID, r.versions[rec.Operation.ID]))
			all[i].id = rec.Operation.ID
		}
	}
	if !some {
		return nil
	}
	run := ledger.DecisionRun{ID: ledger.NewID(), IdempotencyKey: r.flags.idempotencyKey, Digest: r.flags.digest(r.verb, args), Verb: r.verb,
		Actor: r.actor, Operations: ops, CreatedAt: r.began}
	recorded, known, err := r.store.Run(ctx, run)
	if err != nil {
		if errors.Is(err, ledger.ErrKeyReused) {
			return &failure{Exit: exitKeyReused, Code: "key_reused", Message: fmt.Sprintf("--idempotency-key %q was used with another command", r.flags.idempotencyKey),
				Hint: "use a new key for a new decision", cause: err}
		}
		return err
	}
	r.id, r.known, r.finished = recorded.ID, known, recorded.Done
	if !recorded.CreatedAt.IsZero() {
		r.began = recorded.CreatedAt
	}
	if known {
		for _, op := range recorded.Operations {
			if id, version, given := cutVersion(op); given {
				r.versions[id] = version
			}
		}
	}
	return nil
}

// digest binds an idempotency key to the verb and everything that was said.
func (d *decideFlags) digest(verb string, args []string) string {
	b, _ := json.Marshal([]any{verb, args, strings.TrimSpace(d.reason), d.receipts, d.reference, d.until, d.request})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// changeID is the same for the same operation of the same run.
func (r *decisionRun) changeID(operationID string) string {
	if r.id == "" {
		return ledger.NewID()
	}
	return ledger.DeriveID(r.id, operationID)
}

// done reports whether this run has changed the operation already.
func (r *decisionRun) done(ctx context.Context, operationID string) (bool, error) {
	if !r.known {
		return false, nil
	}
	after, id := int64(0), r.changeID(operationID)
	for {
		events, err := r.store.Events(ctx, operationID, after, maxEvents)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if after = e.Seq; e.ID == id {
				return true, nil
			}
		}
		if len(events) < maxEvents {
			return false, nil
		}
	}
}

// progress keeps how far the run has come. The decisions stand without it.
func (r *decisionRun) progress(ctx context.Context, done int, results []resultJSON, last bool) {
	if r.id == "" {
		return
	}
	var result json.RawMessage
	if last {
		outcome := make(map[string]string, len(results))
		for _, one := range results {
			outcome[one.Asked] = one.Effect
			if one.Error != nil {
				outcome[one.Asked] = one.Error.Code
			}
		}
		result, _ = json.Marshal(outcome)
	}
	if err := r.store.Progress(context.WithoutCancel(ctx), r.id, done, result); err != nil {
		r.app.warnf("the decisions stand, but how far the run has come could not be kept: %v", err)
	}
}
