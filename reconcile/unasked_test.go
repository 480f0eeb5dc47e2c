package reconcile

import (
	"os"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// lane is where an engine's price puts an operation.
func (w *world) lane(id string) ledger.Lane {
	rec := w.get(id)
	return rec.Row().LaneAt(w.now())
}

// What no process has the secret for is for a person after ten minutes, and heals by
// itself: it is checked when the secret is back.
func TestAMissingSecretIsTheirsAndHeals(t *testing.T) {
	w := newWorldAlone(t, strings.Replace(payPolicy, "headers: {", `headers: { X-Key: "${env.UNASKED_KEY}",`, 1))
	t.Setenv("UNASKED_KEY", "")
	os.Unsetenv("UNASKED_KEY")
	o := w.doubt("pay", 420, 420)
	e := w.newEngine(Options{})
	w.run(e)
	eventually(t, "it leads the rest", func() bool { return e.leads(ledger.LeadLedger) && !e.leads("downstream:pay") })
	eventually(t, "another may have the secret", func() bool { return w.lane(o.ID) == ledger.LaneReading })
	w.pass(nobodyFor)
	eventually(t, "for a person", func() bool { return w.lane(o.ID) == ledger.LaneDecide })
	plan, err := w.engine.Plan(w.ctx, o.ID)
	need.That(t, err == nil && !plan.FirstCheck, "a check is promised before a retry: %v", err)
	need.That(t, plan.Sender == "pipeline" && strings.Contains(plan.Back, "UNASKED_KEY"), "sent by %s, because %s", plan.Sender, plan.Back)
	os.Setenv("UNASKED_KEY", "k")
	w.pass(time.Minute)
	eventually(t, "found", func() bool { return w.get(o.ID).Operation.State == ledger.Committed })
}

// The program of a check that is not there is no answer to wait for with an ever
// longer pause.
func TestAMissingProgramHeals(t *testing.T) {
	program := t.TempDir() + "/look"
	text := payPolicy[:strings.Index(payPolicy, "    read:")]
	shows := "found: json.filter(x, x.ref == token)"
	if !strings.Contains(payPolicy, "found:") {
		shows = "list: json\n      mark: it.ref"
	}
	w := newWorld(t, text+"    read:\n      command: ["+program+", \"${token}\"]\n      "+shows+"\n      complete: \"true\"\n      receipt: it.id\n")
	o := w.unseen("pay", 420)
	w.run(w.newEngine(Options{}))
	eventually(t, "for a person", func() bool { return w.lane(o.ID) == ledger.LaneDecide })
	need.Equal(t, len(w.get(o.ID).Reads), 0, "checks were made with a program that is not there")
	script := "#!/bin/sh\necho '[{\"ref\":\"'$1'\",\"id\":\"ch_9\",\"amount\":420}]'\n"
	need.OK(t, os.WriteFile(program, []byte(script), 0o700))
	w.pass(time.Minute)
	eventually(t, "found", func() bool { return len(w.get(o.ID).Reads) > 0 })
}

// An engine that lacks a secret knows so before it takes the lead of a console that has it, and
// leaves the promise of that one.
func TestAnEngineWithoutTheSecretTakesNoLead(t *testing.T) {
	w := newWorldAlone(t, strings.Replace(payPolicy, "headers: {", `headers: { X-Key: "${env.UNASKED_KEY}",`, 1))
	t.Setenv("UNASKED_KEY", "k")
	o := w.doubt("pay", 420)
	rich, poor := w.leading(), w.newEngine(Options{Program: "engine"})
	need.Get(rich.priceBatch(w.ctx))(t)
	os.Unsetenv("UNASKED_KEY")
	poor.Claim()
	need.That(t, !poor.onlyReads(w.ctx) && poor.leads(ledger.LeadLedger) && !poor.leads("downstream:pay"), "it leads all or nothing")
	led := need.Get(w.store.Leaders(w.ctx))(t)
	need.That(t, len(led.All) == 2 && led.All[0].Scope == "downstream:pay" && led.All[0].Holder == rich.holder, "%+v", led.All)
	pol := w.inForce()
	q := poor.priced(pol.Kind("pay"), pol.Digest(), w.get(o.ID))
	need.That(t, q.DecideAt.After(w.now()), "a person is asked from %v on", q.DecideAt)
}

// What a process finds that does not lead is priced by the one that does.
func TestOnlyWhoLeadsPrices(t *testing.T) {
	w := newWorld(t, payPolicy)
	e, other := w.leading(), w.newEngine(Options{Program: "check"})
	o := w.doubt("pay", 420, 421)
	need.Get(e.priceBatch(w.ctx))(t)
	res := need.Get(other.ReadNow(w.ctx, o.ID))(t)
	p := w.get(o.ID).Pricing
	need.That(t, res.Read.Verdict == ledger.Different && p.Digest == "" && p.Reads == 0, "%s %+v", res.Read.Verdict, p)
	need.Get(e.priceBatch(w.ctx))(t)
	p = w.get(o.ID).Pricing
	need.That(t, p.Digest != "" && p.Rank == 420, "%+v", p)
}
