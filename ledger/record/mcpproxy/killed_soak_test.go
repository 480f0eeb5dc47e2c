//go:build soak

package mcpproxy_test

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
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

// TestI10_ATaskEndsWithItsProcess: it is in flight for as long as the proxy says so, and
// no server has it after a kill.
func TestI10_ATaskEndsWithItsProcess(t *testing.T) {
	w := inAFile(t)
	w.rule.Deadline = 10 * time.Second
	p := w.process()
	p.ask("1", "task", `{}`)
	first := w.only()
	w.eventually("the deadline moves", func() bool { return w.only().DeadlineAt.After(first.DeadlineAt) })
	p.kill()
	o := w.only()
	need.That(t, o.State == ledger.Pending && time.Until(o.DeadlineAt) <= w.rule.Deadline, "%s until %s", o.State, o.DeadlineAt)
	w.eventually("it is in doubt", func() bool { rec := w.read(o.ID); return rec.State() == ledger.Uncertain })
}
