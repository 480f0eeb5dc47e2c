//go:build unix

package cli_test

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// A pipeline that is stopped with its answer in hand reports it late; the
// operation was found to have landed meanwhile, and the two agree.
func TestI9_E2E_AStoppedPipelineReportsLate(t *testing.T) {
	s := newSite(t)
	op, attempt := s.begin("charge", "k1", chargeInput, "--token-sent")
	s.charge("k1", op.Token)
	s.ahead = time.Minute // the deadline has passed
	s.wantState(s.show(op.ID), "uncertain")
	s.must(0, "check", op.ID)
	found := s.show(op.ID)
	s.wantState(found, "committed")
	s.must(0, "settle", attempt, "--outcome", "committed", "--receipt", deref(found.Receipt))
	after := s.show(op.ID)
	s.wantState(after, "committed")
	if deref(after.Attempts[0].LateOutcome) != "committed" || after.Effects != 1 || deref(after.Conflict) != "" {
		t.Errorf("effects %d, conflict %q, attempts %+v", after.Effects, deref(after.Conflict), after.Attempts)
	}
}

// A pipeline that is stopped and reports late that it failed, after a check had
// found the effect: kept, and shown as disputed.
func TestI9_E2E_LateDisagreementIsShown(t *testing.T) {
	s := newSite(t)
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	attempt := s.handle(op.ID)
	s.must(0, "deny", seen(op), "--reason", "not in the dashboard")
	s.do("settle", attempt, "--outcome", "committed", "--receipt", "pi_1")
	after := s.show(op.ID)
	if after.Lane != "conflict" || deref(after.Conflict) == "" {
		t.Errorf("lane %s, conflict %q: somebody was wrong and nobody is told", after.Lane, deref(after.Conflict))
	}
}

// A policy that has just been broken keeps no recorder from writing down what came
// back: the doubt that would be left is not the pipeline's. The answer itself is
// not kept, because the broken file says what in it is secret.
func TestI9_E2E_ABrokenPolicyLosesNoOutcome(t *testing.T) {
	s := newSite(t)
	op, attempt := s.begin("charge", "k1", chargeInput, "--token-sent")
	s.writePolicy("version: 1\nkinds: [broken")
	settle := []string{"settle", attempt, "--outcome", "committed", "--receipt", "ch_1", "--result", `{"card":"4242"}`}
	need.Contains(t, s.must(0, settle...).Err, "policy") // that it is broken
	s.must(1, "begin", "--kind", "charge", "--key", "k2", "--input", chargeInput)
	s.writePolicy(kinds)
	after := s.show(op.ID)
	s.wantState(after, "committed")
	if deref(after.Receipt) != "ch_1" || strings.Contains(string(after.Result), "4242") {
		t.Errorf("receipt %q, result %s", deref(after.Receipt), after.Result)
	}
	need.Equal(t, s.must(0, append(settle, "--json")...).Status.Effect, "noop", "the same again")
}
