package reconcile

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A leader that dies costs ten seconds at most: then another checks.
func TestADeadLeaderCostsTenSeconds(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		w.run(w.engine)
		eventually(t, "it leads", func() bool { return w.engine.leads("downstream:pay") })
		need.Get(w.store.Lead(w.ctx, "dies", ledger.RankEngine, []string{ledger.LeadLedger, "downstream:pay"}))(t)
		died := time.Now()
		eventually(t, "it is known", func() bool { return !w.engine.leads("downstream:pay") })
		o := w.doubt("pay", 420, 420)
		eventually(t, "settled", func() bool { return w.get(o.ID).Operation.State == ledger.Committed })
		took := time.Since(died)
		need.That(t, took >= ledger.LeadLasts && took <= 10*time.Second, "another checks after %s", took)
	})
}

// A console leads only where no engine does, and takes the lead back.
func TestAConsoleGivesWayToAnEngine(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		w.run(w.engine)
		eventually(t, "the console leads", func() bool { return w.engine.leads("downstream:pay") })
		engine := w.another(Options{Program: "engine"})
		leave := w.run(engine)
		eventually(t, "the engine leads", func() bool { return engine.leads("downstream:pay") && !w.engine.leads("downstream:pay") })
		o := w.doubt("pay", 420, 420)
		s := need.Get(w.another(Options{Program: "check"}).Once(w.ctx, nil))(t)
		need.That(t, len(s.Read) == 0 && len(s.Leaders) == 2 && s.Leaders[0].Scope == "downstream:pay" && s.Leaders[0].Holder == engine.holder, "%+v", s)
		eventually(t, "settled", func() bool { return w.get(o.ID).Operation.State == ledger.Committed })
		leave()
		eventually(t, "the console leads again", func() bool { return w.engine.leads("downstream:pay") })
	})
}

// What one process knows of who leads counts for it also where its clock and the ledger's differ.
func TestWhoLeadsIsToldByTheLedgersClock(t *testing.T) {
	w := newWorld(t, payPolicy)
	other := w.another(Options{})
	other.o.Clock = func() time.Time { return w.now().Add(time.Hour) }
	w.leading()
	other.Claim()
	other.onlyReads(w.ctx)
	need.That(t, !other.leads("downstream:pay") && other.lead.unchecked("downstream:pay").Equal(ledger.Never), "two lead")
}
