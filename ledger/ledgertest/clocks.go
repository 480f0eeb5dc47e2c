package ledgertest

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// clocks sets the wall clock, and boots the host, behind the back of what waits.
func clocks(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*desk)
	}{
		{"EachBootWaitsForItself", waits},
		{"I8_AStepIsAnEvent", stepIsTold},
		{"ABackwardStepPutsNothingOff", stepPutsNothingOff},
		{"ABackwardStepEndsAnOutageOfTheFuture", stepEndsOutage},
		{"ABackwardStepLeavesAnOutage", stepLeavesOutage},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newDesk(t, open)) })
	}
}

// waits: what has been over since the end of an attempt is told by each boot for itself, from
// its first check that saw it.
func waits(d *desk) {
	o := d.doubt("k")
	seen := map[string]ledger.Steady{}
	for _, host := range []string{"host-a", "other-host-b", "host-a", "boot-1", "other-host-b"} {
		d.clock.Advance(time.Minute)
		d.clock.Set(time.Hour)
		d.clock.On(host)
		now := d.clock.Steady()
		rec := d.read(o.ID)
		waited, ok := rec.Waited(rec.Attempts[0])
		need.Must(d, rec.Steady == now && (seen[host].Boot != "") == ok, "on %s it is %v, and it was seen: %t", host, rec.Steady, ok)
		if ok {
			need.Equal(d, waited, now.At-seen[host].At, "waited on", host)
		} else {
			seen[host] = now
		}
		need.Equal(d, d.observe(o, ledger.CannotTell).Version, o.Version, "the version, seen")
	}
	// A check counts for the attempts that it saw over, and for no later one.
	o = d.allow(o, ledger.BasisRiskAccepted)
	o = d.settle(d.begun("k").Attempt.ID, ledger.OutcomeUncertain)
	for i, want := range []bool{true, false} {
		rec := d.read(o.ID)
		_, ok := rec.Waited(rec.Attempts[i])
		need.Must(d, ok == want, "attempt %d was seen: %t", i+1, ok)
	}
}

// stepIsTold: whoever is the first of several engines to see a step tells of it.
func stepIsTold(d *desk) {
	step := func(by time.Duration, want bool) {
		d.Helper()
		if first, err := d.s.Stepped(ctx, by); first != want || err != nil {
			d.Fatalf("a step of %s is told of: %t, %v; want %t", by, first, err, want)
		}
	}
	step(5*time.Minute+time.Second, true)
	d.clock.Advance(time.Second)
	step(5*time.Minute+2*time.Second, false) // another engine, which read its clocks at another time
	step(-10*time.Minute, true)
	info := need.Get(d.s.Info(ctx))(d)
	need.Must(d, info.Step == -10*time.Minute && info.SteppedAt.Equal(d.clock.Now()), "a step of %s at %s", info.Step, info.SteppedAt)
	d.clock.Advance(time.Minute)
	step(-10*time.Minute, true) // again
	want := []string{"forward by 5m1s", "back by 10m0s", "back by 10m0s"}
	for _, e := range d.events("") {
		if e.Verb != "clock" {
			continue
		}
		need.Must(d, len(want) > 0 && e.Reason == "the clock of this host was set "+want[0] && e.Actor.Name == "clock" && e.Actor.Machine && e.OperationID == "",
			"%+v, want %q", e, want)
		want = want[1:]
	}
	need.Must(d, len(want) == 0, "nobody was told %q", want)
}

func stepPutsNothingOff(d *desk) {
	o := d.doubt("k")
	d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: o.ID, Version: o.Version, Digest: "p", ReadAt: d.clock.Now().Add(time.Minute)}}))
	d.clock.Set(-24 * time.Hour)
	need.Get(d.s.Stepped(ctx, -24*time.Hour))(d)
	d.clock.Advance(6 * time.Minute)
	if rows, err := d.s.Due(ctx, "", d.clock.Now(), 10); len(rows) != 1 || err != nil {
		d.Fatalf("%d are due, %v", len(rows), err)
	}
}

func (d *desk) errors(keys ...string) {
	for _, key := range keys {
		d.settle(d.begun(key).Attempt.ID, ledger.OutcomeUncertain)
	}
}

// stepEndsOutage: an outage while the clock was ahead does not grow until then.
func stepEndsOutage(d *desk) {
	d.clock.Set(2 * time.Hour)
	d.errors("a", "b")
	d.clock.Set(-2 * time.Hour)
	d.wantAccounts("quiet: 2 = 2 open")
	d.errors("c", "d", "e", "f")
	d.wantAccounts("quiet: 2 = 2 open", "growing: 4 = 4 open")
}

// stepLeavesOutage: the clock is set back during an outage, again and again. What comes
// meanwhile is in it, and it is quiet until its newest error is no more to come.
func stepLeavesOutage(d *desk) {
	d.errors("a", "b")
	for _, key := range []string{"c", "d", "e", "f", "g", "h"} {
		d.clock.Advance(9 * time.Minute)
		d.errors(key)
	}
	d.clock.Set(-30 * time.Minute)
	d.errors("i")
	d.wantAccounts("quiet: 9 = 9 open")
	d.clock.Advance(10 * time.Minute)
	d.clock.Set(-30 * time.Minute)
	d.wantAccounts("quiet: 9 = 9 open")
	d.errors("j", "k", "l", "m")
	d.wantAccounts("quiet: 13 = 13 open")
}
