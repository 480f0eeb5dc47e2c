//go:build soak

package mcpproxy_test

import (
	"testing"
	"time"

	"indoubt/ledger"
)

// TestI10_AKilledProxy leaves its call pending, and in doubt after its deadline.
func TestI10_AKilledProxy(t *testing.T) {
	w := inAFile(t)
	w.rule.Deadline = 4 * time.Second
	first := w.process()
	first.call("1", "silent", `{"a":1}`)
	w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	first.kill()
	first.wait()
	c := w.client()
	c.ask("1", "silent", `{"a":1}`).wantOutcome(t, "unknown") // it waited for the deadline
	w.wantState(w.only(), ledger.Uncertain)
	w.wantEffects(1)
}
