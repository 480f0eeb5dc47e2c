//go:build unix

package cli_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
)

// A write that was applied and whose answer was cut off: in doubt, then found,
// then never done again.
func TestE2E_AppliedAndCut(t *testing.T) {
	s := newSite(t)
	s.down.Meet(faults.Trouble{Fault: faults.CommitAndCut, Times: 1})

	if r := s.run("post", "k1", s.curl("hello")); r.Exit != 106 || r.Status.Error.Code != "in_doubt" {
		t.Fatalf("run: exit %d, status %+v\n%s", r.Exit, r.Status, r.Err)
	}
	op := s.only()
	s.wantState(op, "uncertain")
	need.Equal(t, deref(op.ErrorClass), "reset", "error class")

	s.must(0, "check")
	op = s.only()
	s.wantState(op, "committed")
	if !strings.HasPrefix(deref(op.Receipt), "post_") {
		t.Errorf("receipt %q", deref(op.Receipt))
	}

	if r := s.run("post", "k1", s.curl("hello")); r.Exit != 0 || r.Status.Effect != "noop" || !r.Status.OK {
		t.Errorf("the same run again: exit %d, status %+v\n%s", r.Exit, r.Status, r.Err)
	}
	s.wantEffects("hello", 1)
}

// A run that asks for it looks at once whether what it has left in doubt landed.
func TestE2E_ADoubtIsCheckedAtOnce(t *testing.T) {
	s := newSite(t)
	for key, c := range map[string]struct {
		fault   faults.Fault
		exit    int
		says    string
		effects int
	}{
		"landed": {faults.CommitAndCut, 0, "checked: found", 1},
		"cut":    {faults.CutBefore, 106, "checked: none found", 0},
	} {
		s.down.Meet(faults.Trouble{Fault: c.fault, Times: 1})
		r := s.run("post", key, append([]string{"--reconcile"}, s.curl(key)...))
		if r.Exit != c.exit || !strings.Contains(r.Err, c.says) || r.Status.OK != (c.exit == 0) {
			t.Errorf("%s: exit %d, want %d; status %+v\n%s", key, r.Exit, c.exit, r.Status, r.Err)
		}
		s.wantEffects(key, c.effects)
	}
}

// A finished key prints what the command printed when it ran.
func TestE2E_TheStoredResultIsPrinted(t *testing.T) {
	s := newSite(t)
	first := s.run("post", "k1", s.curl("hello"))
	again := s.run("post", "k1", s.curl("hello"))
	need.That(t, first.Exit == 0 && again.Exit == 0 && again.Out == first.Out && strings.Contains(first.Out, "post_"),
		"first: exit %d %q; again: exit %d %q\n%s", first.Exit, first.Out, again.Exit, again.Out, again.Err)
	need.That(t, again.Status.Effect == "noop", "status %+v, want effect noop", again.Status)
	s.wantEffects("hello", 1)
}

// A write that was cut off before it was applied is not there, once the bounds have passed and
// the check finds one that was sent before it and one that was sent after it. It is then sent
// again under the same key and token.
func TestE2E_CutBeforeItWasApplied(t *testing.T) {
	s := newSite(t)
	if r := s.run("post", "k0", s.curl("before")); r.Exit != 0 {
		t.Fatalf("the write before: exit %d\n%s", r.Exit, r.Err)
	}
	s.down.Meet(faults.Trouble{Fault: faults.CutBefore, Times: 1})
	if r := s.run("post", "k1", s.curl("hello")); r.Exit != 106 {
		t.Fatalf("run: exit %d\n%s", r.Exit, r.Err)
	}
	var op operation
	for _, one := range s.list() {
		if one.State == "uncertain" {
			op = one
		}
	}
	s.must(6, "check", op.ID) // too early
	s.ahead = 2 * time.Second
	s.must(6, "check", op.ID) // late enough, and nothing later is there to be found
	unseen := s.show(op.ID)
	s.wantState(unseen, "uncertain")
	need.Must(t, unseen.Reads[len(unseen.Reads)-1].Verdict == "not_seen", "%+v", unseen.Reads)

	if r := s.run("post", "k2", s.curl("after")); r.Exit != 0 {
		t.Fatalf("the write after: exit %d\n%s", r.Exit, r.Err)
	}
	s.must(0, "check", op.ID)
	denied := s.show(op.ID)
	s.wantState(denied, "failed")
	if denied.Lane != "not_landed" || denied.Attempts[0].Proof == nil || *denied.Attempts[0].Proof != "not_there" {
		t.Errorf("lane %s, attempts %+v", denied.Lane, denied.Attempts)
	}
	s.wantEffects("hello", 0)

	s.must(0, "retry", seen(denied), "--reason", "it is not there")
	done := s.show(op.ID)
	s.wantState(done, "committed")
	need.That(t, done.Key == op.Key && done.Token == op.Token && len(done.Attempts) == 2,
		"I4: key %s → %s, token %s → %s, %d attempts", op.Key, done.Key, op.Token, done.Token, len(done.Attempts))
	s.wantEffects(op.Token, 1)
	s.wantEffects("hello", 1)
}

// Where the policy states no bounds, no wait proves anything.
func TestI6_E2E_WithoutBoundsNothingIsProven(t *testing.T) {
	s := newSite(t)
	if r := s.run("boundless", "k0", s.curl("control")); r.Exit != 0 {
		t.Fatalf("control: exit %d\n%s", r.Exit, r.Err)
	}
	s.down.Meet(faults.Trouble{Fault: faults.CutBefore, Times: 1})
	if r := s.run("boundless", "k1", s.curl("hello")); r.Exit != 106 {
		t.Fatalf("run: exit %d\n%s", r.Exit, r.Err)
	}
	for _, op := range s.list() {
		if op.State != "uncertain" {
			continue
		}
		s.ahead = time.Hour
		s.must(6, "check", op.ID)
		s.wantState(s.show(op.ID), "uncertain")
		return
	}
	t.Error("nothing is in doubt")
}

// Three ways in which a check that finds nothing is not to be believed.
func TestI6_E2E_ABlindCheckProvesNothing(t *testing.T) {
	cases := []struct {
		name  string
		begin []string
		blind func(s *site)
	}{
		{"a renamed field", []string{"--token-sent"}, func(s *site) {
			s.down.Meet(faults.Trouble{Fault: faults.Rename, FromName: "metadata", To: "meta"})
		}},
		{"another account's key", []string{"--token-sent"}, func(s *site) { s.writePolicy(strings.ReplaceAll(kinds, "E2E_KEY", "E2E_OTHER_KEY")) }},
		{"a cached answer", []string{"--token-sent"}, func(s *site) { s.down.Meet(faults.Trouble{Fault: faults.Stale}) }},
		{"a list cut short", []string{"--token-sent"}, func(s *site) { s.down.Meet(faults.Trouble{Fault: faults.Truncate, Limit: 1}) }},
		{"a token that was never sent", nil, func(*site) {}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.control()
			op := s.doubtful("charge", "k1", chargeInput, c.begin...)
			s.must(6, "check", op.ID) // too early
			c.blind(s)
			s.ahead = 2 * time.Second
			s.must(6, "check", op.ID)
			got := s.show(op.ID)
			s.wantState(got, "uncertain")
			last := got.Reads[len(got.Reads)-1]
			need.That(t, last.Verdict == "cannot_tell" && last.Reason != "" && !strings.Contains(last.Reason, "too early"), "reads %+v", got.Reads)
		})
	}
	t.Run("and a sound one does", func(t *testing.T) {
		s := newSite(t)
		s.control()
		op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
		s.must(6, "check", op.ID) // too early
		s.ahead = 2 * time.Second
		s.must(0, "check", op.ID)
		s.wantState(s.show(op.ID), "failed")
	})
}

// After undo only a person settles, whatever a check finds.
func TestI12_E2E_UndoneIsForPeople(t *testing.T) {
	s := newSite(t)
	s.control()
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.must(0, "confirm", seen(op), "--reason", "seen in the dashboard")
	s.must(0, "undo", seen(s.show(op.ID)), "--reason", "that was another customer")
	s.wantState(s.show(op.ID), "uncertain")

	s.ahead = 2 * time.Second
	s.must(6, "check", op.ID) // a sound check that finds nothing: "not there now"
	s.wantState(s.show(op.ID), "uncertain")

	s.charge("", op.Token)
	s.must(6, "check", op.ID) // and one that finds it
	s.do("check")
	after := s.show(op.ID)
	s.wantState(after, "uncertain")
	need.That(t, after.Lane == "decide" || after.Lane == "conflict",
		"lane %s: only a person settles it now", after.Lane)
}

// A check that finds what a person said is not there raises a conflict and
// changes nothing; after that only a person settles it.
func TestI9_E2E_AContradictionIsShownAndLeftAlone(t *testing.T) {
	s := newSite(t)
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.charge("k1", op.Token)
	s.must(0, "deny", seen(op), "--reason", "not in the dashboard")
	s.do("check", op.ID)
	after := s.show(op.ID)
	s.wantState(after, "failed")
	if deref(after.Conflict) != "disputed" || after.Lane != "conflict" {
		t.Errorf("conflict %q, lane %s", deref(after.Conflict), after.Lane)
	}
	s.do("check")
	s.do("check", op.ID)
	if again := s.show(op.ID); again.State != "failed" || again.Version != after.Version {
		t.Errorf("automation moved it: %s, version %d after %d", again.State, again.Version, after.Version)
	}
	s.do("retry", seen(after), "--reason", "again")
	s.wantEffects(op.Token, 1)
}

// What a person said to have landed is not there when a check looks: that is no
// proof, and moves nothing.
func TestI12_E2E_NotThereNow(t *testing.T) {
	s := newSite(t)
	s.control()
	op := s.doubtful("charge", "k1", chargeInput, "--token-sent")
	s.must(0, "confirm", seen(op), "--reason", "seen in the dashboard")
	s.eventually("it says that it is not there now", func() bool {
		r := s.do("check", op.ID)
		return strings.Contains(r.Out+r.Err, "not there now")
	})
	s.wantState(s.show(op.ID), "committed")
}

// charge does at the downstream what an attempt does whose answer gets lost.
func (s *site) charge(key, token string) {
	s.Helper()
	body := strings.TrimSuffix(chargeInput, "}") + fmt.Sprintf(`,"metadata":{"indoubt":%q}}`, token)
	req := need.Get(http.NewRequest(http.MethodPost, s.down.URL()+"/v1/payment_intents", strings.NewReader(body)))(s)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ownKey)
	req.Header.Set("Idempotency-Key", key)
	resp := need.Get(http.DefaultClient.Do(req))(s)
	resp.Body.Close()
	need.Must(s, resp.StatusCode == http.StatusOK, "a charge was answered with %d", resp.StatusCode)
}

// control is a charge that landed: a check of its kind has to find it before it may say
// that another one is not there.
func (s *site) control() {
	s.Helper()
	op := s.doubtful("charge", "control", chargeInput, "--token-sent")
	s.charge("control", op.Token)
	s.must(0, "check", op.ID)
}
