//go:build soak

package cli_test

import (
	"strings"
	"testing"

	"indoubt/ledger/ledgertest/faults"
)

// The answer of an attempt that comes after its deadline is its own: it never
// settles a later one.
func TestI9_E2E_ALateAnswerBelongsToItsAttempt(t *testing.T) {
	s := newSite(t)
	s.writePolicy(strings.Replace(kinds, "deadline: 6s", "deadline: 20s", 1)) // two commands are run meanwhile
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	first := s.handle(op.ID)
	s.down.Meet(faults.Trouble{Fault: faults.HangBefore, Times: 1})
	second := s.start("retry", seen(op), "--reason", "the key is remembered")
	s.eventually("the second attempt is in flight", func() bool { return s.down.Hung() == 1 })

	s.must(0, "settle", first, "--outcome", "committed", "--receipt", "pi_late")
	during := s.show(op.ID)
	if during.State != "pending" || deref(during.Attempts[0].LateOutcome) != "committed" {
		t.Errorf("state %s, attempts %+v: the late answer is the first attempt's, the second is still live", during.State, during.Attempts)
	}
	second.finish() // gives up at its timeout
	after := s.show(op.ID)
	s.wantState(after, "committed")
	if deref(after.Receipt) != "pi_late" || deref(after.Attempts[1].Outcome) != "uncertain" {
		t.Errorf("receipt %q, attempts %+v", deref(after.Receipt), after.Attempts)
	}
}
