package reconcile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
)

// A check that does not look for the token may find what another operation made
// that wants the same: one effect settles one of them, not both.
func TestI2_EffectOfATwinIsNotOurs(t *testing.T) {
	text := strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1)
	for name, tc := range map[string]struct {
		text    string
		outcome ledger.Outcome // of the twin
		receipt string
		effects int
		want    ledger.Verdict
	}{
		"the twin's own":                  {text, ledger.OutcomeCommitted, "ch_1", 1, ledger.Inconclusive},
		"the twin's, as far as we know":   {text, ledger.OutcomeCommitted, "", 1, ledger.Inconclusive},
		"nobody knows whose":              {text, ledger.OutcomeUncertain, "", 1, ledger.Inconclusive},
		"the twin's is another":           {text, ledger.OutcomeCommitted, "ch_9", 1, ledger.Landed},
		"the twin never was":              {text, ledger.OutcomeFailed, "", 1, ledger.Landed},
		"searched by token":               {payPolicy, ledger.OutcomeCommitted, "ch_9", 1, ledger.Landed},
		"it is safe to repeat, so no one": {strings.Replace(text, "    send:", "    idempotent: true\n    send:", 1), ledger.OutcomeCommitted, "ch_1", 1, ledger.Landed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.text)
			begin := func() ledger.BeginResult {
				w.n++
				res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
					ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: fmt.Sprintf("k-%d", w.n),
					Token: ledger.NewToken(), Fingerprint: "the same", Input: json.RawMessage(`{"amount":420}`),
					Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: pipeline,
				})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			twin, ours := begin(), begin()
			w.side.apply(charge{Ref: ours.Operation.Token, Amount: 420})
			s := ledger.SettleRequest{Outcome: tc.outcome, Receipt: tc.receipt, Status: -1}
			switch tc.outcome {
			case ledger.OutcomeFailed:
				s.Proof = ledger.NeverSent
			case ledger.OutcomeUncertain:
				s.ErrorClass = ledger.ClassTimeout
			}
			w.settle(twin, s)
			o := w.settle(ours, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
			w.later(pastProof)
			r := w.read(o.ID)
			if r.Read.Verdict != tc.want || tc.want == ledger.Inconclusive && (r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "wants the same")) {
				t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
			}
		})
	}
}

// Who else wants the same is not known of what was recorded without a fingerprint,
// as plain SQL may do.
func TestI2_WithoutAFingerprintNoTwinIsKnown(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1))
	res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: "k", Token: ledger.NewToken(),
		Input: json.RawMessage(`{"amount":420}`), Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: pipeline,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.side.apply(charge{Ref: res.Operation.Token, Amount: 420})
	o := w.settle(res, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	w.later(pastProof)
	if r := w.read(o.ID); r.Read.Verdict != ledger.Inconclusive || !strings.Contains(r.Read.Reason, "without a fingerprint") {
		t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
	}
}

// Nor is an effect ours that a twin made while the question was on its way.
func TestI2_EffectOfATwinThatCameMeanwhileIsNotOurs(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "x.ref == token", "x.amount == input.amount", 1))
	begin := func(key string) ledger.BeginResult {
		res, err := ledger.Begin(w.ctx, w.store, ledger.BeginRequest{
			ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: key,
			Token: ledger.NewToken(), Fingerprint: "the same", Input: json.RawMessage(`{"amount":420}`),
			Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: pipeline,
		})
		if err != nil {
			t.Error(err)
		}
		return res
	}
	o := w.settle(begin("ours"), ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
	w.later(pastProof)
	var once sync.Once
	w.side.onList = func(s *side, _ http.ResponseWriter, _ *http.Request) bool {
		once.Do(func() {
			twin := begin("twin")
			s.apply(charge{Ref: twin.Operation.Token, Amount: 420})
		})
		return false
	}
	if r := w.read(o.ID); r.Read.Verdict != ledger.Inconclusive || r.Operation.State != ledger.Uncertain || !strings.Contains(r.Read.Reason, "wants the same") {
		t.Errorf("%s: %s, and it is %s", r.Read.Verdict, r.Read.Reason, r.Operation.State)
	}
}
