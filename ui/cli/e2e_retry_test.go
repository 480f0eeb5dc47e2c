//go:build unix

package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
	"indoubt/reconcile/drill"
)

// failing is a downstream with the troubles of tests in its way.
type failing struct {
	*drill.Downstream
	*faults.Way
}

func (d *failing) Meet(troubles ...faults.Trouble) { d.Way.Meet(troubles...) }
func (d *failing) Recover()                        { d.Way.Recover() }
func (d *failing) Hung() int                       { return d.Way.Hung() }

const chargeInput = `{"amount":42000,"currency":"usd","customer":"cus_9"}`

// The sender's check leaves a connection open; the charge that follows is
// applied and cut. It must not be sent again behind the sender's back.
func TestI3_E2E_OneTransmissionOnAKeptConnection(t *testing.T) {
	for _, fault := range []faults.Fault{faults.CommitAndCut, faults.CommitAndClose, faults.CommitAndVanish} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t)
			op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
			s.down.Meet(faults.Trouble{Fault: fault, Times: 1})
			s.must(6, "retry", seen(op), "--reason", "the key is remembered")
			after := s.show(op.ID)
			s.wantState(after, "uncertain")
			if n := len(after.Attempts); n != 2 || deref(after.Attempts[1].Outcome) != "uncertain" {
				t.Errorf("attempts %+v", after.Attempts)
			}
			sent := 0
			for _, q := range s.down.Requests() {
				if q.Method == http.MethodPost {
					sent++
					need.That(t, q.Key == "k1" && strings.Contains(q.Body, op.Token),
						"I4: sent under key %q: %s", q.Key, q.Body)
				}
			}
			need.That(t, sent == 1, "%d transmissions, want 1", sent)
			s.wantEffects(op.Token, 1)
		})
	}
}

// A downstream that is not there was never sent anything: the retry failed, the
// first attempt stays as unknown as it was.
func TestI2_E2E_NobodyListens(t *testing.T) {
	s := newSite(t)
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.down.Stop()
	if r := s.do("retry", seen(op), "--reason", "the key is remembered"); r.Exit == 0 {
		t.Errorf("exit 0 without a downstream: %s", r.Out)
	}
	after := s.show(op.ID)
	s.wantState(after, "uncertain")
	s.wantEffects(op.Token, 0)
}

// A refusal says that this attempt had no effect, not that an earlier one had none.
func TestI2_E2E_ARefusedRetryProvesNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		answer string
		state  string
	}{
		{"400", 400, "", "uncertain"},
		{"409 that says nothing", 409, "", "uncertain"},
		{"409 that says it is there", 409, `{"error":{"code":"already_there"}}`, "committed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
			s.down.Meet(faults.Trouble{Fault: faults.Refuse, Status: c.status, Answer: c.answer})
			r := s.do("retry", seen(op), "--reason", "the key is remembered")
			if want := map[string]int{"uncertain": 6, "committed": 0}[c.state]; r.Exit != want {
				t.Errorf("exit %d, want %d\n%s%s", r.Exit, want, r.Out, r.Err)
			}
			after := s.show(op.ID)
			s.wantState(after, c.state)
			need.Equal(t, len(after.Attempts), 2, after.Attempts, "attempts")
		})
	}
}

// What a pipeline calls failed without proof is in doubt.
func TestI2_E2E_FailedNeedsProof(t *testing.T) {
	s := newSite(t)
	_, attempt := s.begin("charge", "k1", chargeInput, "--token-sent")
	for _, more := range [][]string{nil, {"--error", "HTTP 409 already there"}, {"--error", "exit status 1"}, {"--error", "timed out", "--error-class", "timeout"}} {
		r := s.do(append([]string{"settle", attempt, "--outcome", "failed"}, more...)...)
		if op := s.only(); op.State == "failed" || op.State == "committed" || r.Exit != 2 {
			t.Errorf("%q: state %s, exit %d\n%s", more, op.State, r.Exit, r.Err)
		}
		if again := s.do("begin", "--kind", "charge", "--key", "k1", "--input", chargeInput); again.Exit == 0 {
			t.Errorf("%q: the next begin may send", more)
		}
	}
}

// A decision is bound to what was seen.
func TestI7_E2E_AStaleDecisionIsRefused(t *testing.T) {
	s := newSite(t)
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.must(0, "confirm", seen(op), "--reason", "seen")
	r := s.must(4, "deny", seen(op), "--reason", "not seen")
	need.That(t, strings.Contains(r.Err, "maya"), "it does not say who moved it: %s", r.Err)
	s.wantState(s.show(op.ID), "committed")
}
