package ledgertest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Hostile is text that a ledger keeps as it is, and that harms who takes it for more.
const Hostile = "'; DROP TABLE operations; --\x1b[2J\u202e\U0001F4A5\n\"\\"

// History gives a store a random history of so many operations, none of them in flight at its
// end: answers, reads, decisions, permissions and holds, with hostile text in all of it.
func History(t testing.TB, s ledger.Store, seed uint64, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	actor := ledger.Actor{Name: "pipeline " + Hostile, Machine: true}
	for i := range n {
		id := fmt.Sprintf("h%d-%06d", seed, i)
		need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: fmt.Sprintf("kind.%d", i%3), Key: id + Hostile,
			Token: "token " + id, Title: Hostile, Target: fmt.Sprintf("target %d", i%50), Input: json.RawMessage(`{"amount":1e2,"é":"\u0000` + id + `"}`), Fingerprint: fmt.Sprintf("f%d", i%40),
			Marks: ledger.Marks{Rules: "r", Values: []string{"mark " + id}}, Deadline: time.Hour, TokenSent: rng.IntN(2) == 0, Source: ledger.Source{Pipeline: "nightly " + Hostile}, Actor: actor}))(t)
		req := ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Actor: actor, Status: 200, Outcome: []ledger.Outcome{ledger.OutcomeCommitted,
			ledger.OutcomeCommitted, ledger.OutcomeFailed, ledger.OutcomeUncertain}[rng.IntN(4)]}
		switch req.Outcome {
		case ledger.OutcomeCommitted:
			req.Receipt, req.Result = "pi_"+id, json.RawMessage(`{"id": "`+id+`"}`)
		case ledger.OutcomeFailed:
			req.Proof = ledger.Refused
		default:
			req.ErrorClass, req.Error = ledger.ClassTimeout, Hostile
		}
		if _, err := ledger.Settle(ctx, s, req); err != nil {
			t.Fatal(err)
		}
		// A rule may refuse what follows: that leaves nothing.
		now := time.Now().Truncate(time.Millisecond)
		switch rng.IntN(4) {
		case 0:
			v := []ledger.Verdict{ledger.Landed, ledger.NotThere, ledger.Twice, ledger.CannotTell}[rng.IntN(4)]
			receipts := map[ledger.Verdict][]string{ledger.Landed: {"pi_1"}, ledger.Twice: {"pi_1", "pi_2"}}[v]
			_, _ = ledger.Observe(ctx, s, ledger.Observation{ChangeID: id + "-o", Version: 2, Settles: true, Actor: engine, Read: ledger.Read{ID: id + "-r", OperationID: id,
				BeganAt: now, EndedAt: now, Verdict: v, Found: len(receipts), Receipts: receipts, Reason: Hostile, Evidence: json.RawMessage(`{"status":200}`), Digest: "p1", Actor: "auto"}})
		case 1:
			d := ledger.Decision{ChangeID: id + "-e", ID: id, Version: 2, Reason: Hostile, Actor: maya, Verb: []ledger.Verb{ledger.VerbConfirm, ledger.VerbAbandon, ledger.VerbPark, ledger.VerbNote}[rng.IntN(4)]}
			if d.Verb == ledger.VerbPark {
				d.Until = ledger.Never
			}
			_, _ = ledger.Decide(ctx, s, d)
		case 2:
			_, _ = ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: id + "-g", AllowID: id + "-gr", OperationID: id, Version: 2, Sender: "http", Basis: ledger.BasisRiskAccepted,
				Actor: maya, Reason: Hostile, ExpiresAt: now.Add(15 * time.Minute)})
		}
	}
}
