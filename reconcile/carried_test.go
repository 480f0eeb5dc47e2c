package reconcile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const carriedPolicy = `
version: 1
defaults: { deadline: 10s, retry: { max: 3 } }
downstreams:
  pay: { base: %q, key: { header: Idempotency-Key, remembers: 2h } }
kinds:
  wrapped:
    downstream: pay
    token: argument
    lands_within: 1s
    visible_within: 0s
    resend: here
`

func (w *world) beginAs(kind string, input map[string]any, command *ledger.Command) ledger.BeginResult {
	w.Helper()
	w.n++
	text, _ := json.Marshal(input)
	res := need.Get(ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: kind, Key: fmt.Sprint(w.n),
		Token: ledger.NewToken(), Fingerprint: fmt.Sprintf("f-%d", w.n), Input: text, Command: command,
		Sender: "pipeline", TokenSent: true, KeyWorks: true, Deadline: time.Minute, Actor: pipeline,
	}))(w)
	return res
}

// A key makes a repeat safe only where the repeat carries it.
func TestI5_KeyThatIsNotSentAgainMakesNothingSafe(t *testing.T) {
	w := newWorld(t, carriedPolicy)
	for suffix, safe := range map[string]bool{"": false, "-{{key}}": true} {
		mark := filepath.Join(t.TempDir(), "sent")
		b := w.beginAs("wrapped", nil, &ledger.Command{Argv: []string{"touch", mark + suffix}})
		o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
		res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisKeySafe})
		written, _ := filepath.Glob(mark + "*")
		sent := res.Did == DidSend
		need.That(t, sent == safe && (len(written) > 0) == safe, "%q: %s, %v (%v)", suffix, res.Did, written, err)
		plan, err := w.engine.Plan(w.ctx, o.ID)
		need.That(t, err == nil && (safe || plan.Basis == ledger.BasisRiskAccepted), "plan: %q: %s %v", suffix, plan.Basis, err)
	}
}

// A recorded command that names neither its key nor its token carries neither,
// although it finds both in its environment.
func TestI6_EnvironmentIsNotSent(t *testing.T) {
	for name, argument := range map[string]string{"without": "x", "with": "{{token}}:{{key}}"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, carriedPolicy)
			script := filepath.Join(t.TempDir(), "die")
			need.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nkill -9 $$\n"), 0o700))
			b := w.beginAs("wrapped", nil, &ledger.Command{Argv: []string{script, argument}})
			o := w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.NeverSent, Status: -1})
			res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof})
			need.Must(t, err == nil && res.Operation.State == ledger.Uncertain, "%+v %v", res, err)
			carries := strings.Contains(argument, "{{")
			need.That(t, res.Attempt.TokenSent == carries && res.Attempt.KeyWorks == carries,
				"token sent: %t, key works: %t, want %t", res.Attempt.TokenSent, res.Attempt.KeyWorks, carries)
			plan, _ := w.engine.Plan(w.ctx, o.ID)
			need.That(t, (plan.Basis == ledger.BasisKeySafe) == carries, "%s: %s", plan.Basis, plan.Why)
		})
	}
}
