//go:build unix

package cli_test

import (
	"testing"
	"time"

	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
)

// Whoever is killed while it sends leaves an operation that is in doubt once its deadline
// has passed. The same again sends nothing, and a check finds what landed.
func TestI10_E2E_AKilledSenderLeavesADoubt(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		attempts int
		start    func(s *site) (args []string)
		again    func(s *site) result
	}{
		"run": {text: "hello", attempts: 1, start: func(s *site) []string {
			return append([]string{"run", "--kind", "quick", "--key", "k1"}, s.curl("hello")...)
		}, again: func(s *site) result { return s.run("quick", "k1", s.curl("hello")) }},
		"retry": {text: "cus_9", attempts: 2, start: func(s *site) []string {
			return []string{"retry", seen(s.doubtful("charge", "k1", chargeInput, "--token-sent")), "--reason", "the key is remembered"}
		}, again: func(s *site) result { return s.do("begin", "--kind", "charge", "--key", "k1", "--input", chargeInput) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			args := c.start(s)
			s.down.Meet(faults.Trouble{Fault: faults.CommitAndHang, Times: 1})
			p := s.start(args...)
			s.eventually("the write is under way", func() bool { return s.down.Hung() == 1 })
			need.OK(t, p.cmd.Process.Kill())
			p.finish()
			if r := c.again(s); r.Exit%100 != 7 && r.Exit%100 != 6 {
				t.Errorf("the same while nobody knows: exit %d, want 7 or 6", r.Exit)
			}
			s.ahead = time.Minute // the deadline has passed
			op := s.only()
			s.wantState(op, "uncertain")
			need.Equal(t, len(op.Attempts), c.attempts, op.Attempts, "attempts")
			s.must(0, "check")
			s.wantState(s.only(), "committed")
			s.wantEffects(c.text, 1)
		})
	}
}
