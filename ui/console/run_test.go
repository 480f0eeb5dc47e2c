package console

import (
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/feed"
)

// outageRun has sam send twelve rows of the outage again, as far as what came of them.
func outageRun(t *testing.T, b *bench, came ...ledger.Came) *bench {
	t.Helper()
	rows := []int{17, 18, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	items := make([]ledger.RunItem, len(rows))
	for i, n := range rows {
		items[i] = ledger.RunItem{OperationID: outageRow(n), Version: 3, Kind: "stripe.charge", Title: fmt.Sprintf("charge cus_%d", n), Basis: ledger.BasisProof}
	}
	sam := ledger.Actor{Name: "sam"}
	run := ledger.DecisionRun{ID: "run-1", Verb: "retry", Actor: sam, Terms: ledger.RunTerms{Reason: "stripe timeout 02:13–02:19", Outage: b.m.outage.ID},
		Driver: ledger.RunDriver{Name: "sam", Holder: "his"}, CreatedAt: b.now}
	run, _, err := b.store.Run(t.Context(), run, items)
	need.OK(t, err)
	for n, c := range came {
		if n == ledger.RunCanaries || n > 0 && came[n-1].Trouble() {
			d := ledger.RunDrive{Actor: sam, Holder: "his", Decided: true, Seen: run.ChangedAt}
			run, err = b.store.ChangeRun(t.Context(), run, d.Rule)
			need.OK(t, err)
		}
		items[n].Came, items[n].Word = c, map[ledger.Came]string{ledger.CameUnclear: "no answer after 30.0 s", ledger.CameLanded: fmt.Sprintf("pi_%d", n)}[c]
		if c == ledger.CameMoved {
			items[n].By = "ana"
		}
		a := ledger.RunAdvance{Actor: sam, Holder: "his", Item: &items[n], Next: ledger.NextItem(items, n)}
		run, err = b.store.ChangeRun(t.Context(), run, a.Rule)
		need.OK(t, err)
	}
	b.send(feed.Changed{})
	return b
}

const (
	landed  = ledger.CameLanded
	unclear = ledger.CameUnclear
)

// runsOfAnOutage are a run that goes on, one that has stopped and one that is finished.
var runsOfAnOutage = map[string][]ledger.Came{
	"going":    {landed, landed, landed, landed, ledger.CameAlready},
	"stopped":  {landed, unclear},
	"finished": {unclear, unclear, landed, landed, ledger.CameAlready, ledger.CameAlready, landed, landed, landed, landed, ledger.CameMoved, landed},
}

// A run over an outage stands on the page of it, for everybody: how far it is, what it has
// stopped for, and in the end what became of every row, exceptions first, each opened
// with Enter. Esc leads back the way that was come.
func TestARunStandsOnThePageOfItsOutage(t *testing.T) {
	b := outageRun(t, outageBench(t, 100, 34, "downstream:stripe"), runsOfAnOutage["finished"]...)
	b.shows("Retry 12 by sam, 03:06:40: done", "12 = 7 landed + 2 landed already + 1 skipped (ana) + 2 unclear, checking 1m00s",
		"sent, no clear answer: charge cus_17: no answer after 30.0 s", "skipped, moved by ana: charge cus_10").hides("charge cus_4")
	narrow := outageRun(t, outageBench(t, 40, 10, "downstream:stripe"), runsOfAnOutage["finished"]...).keys("G")
	narrow.shows("▌  skipped, moved by ana")
	b.keys("G", "enter").shows("charge cus_10", "Needs you › charge cus_10").keys("esc").shows("OUTAGE stripe", "12 = 7 landed")
	b.keys("k", "k", "k", "enter").shows("Retry 12: done", "landed, receipt pi_11: charge cus_11", "▌sent, no clear").keys("j", "enter").shows("Checking › charge cus_18")
	b.keys("esc").shows("Retry 12: done").keys("esc").shows("OUTAGE stripe").hides("┌").keys("esc").shows("12 × stripe")
}

// What is on the page, and in the run's account, follows the ledger.
func TestARunIsFollowedLive(t *testing.T) {
	b := outageRun(t, outageBench(t, 100, 34, "downstream:stripe"), landed, landed)
	b.shows("12 = 2 landed + 10 to go").keys("p").shows("Retry 12: running", "12 = 2 landed + 10 to go", "P pause it")
	run, items, err := b.store.Account(t.Context(), "run-1")
	need.OK(t, err)
	items[2].Came = landed
	a := ledger.RunAdvance{Actor: ledger.Actor{Name: "sam"}, Holder: "his", Item: &items[2], Next: &items[3]}
	need.Get(b.store.ChangeRun(t.Context(), run, a.Rule))(t)
	b.send(feed.Changed{})
	b.shows("waits for a person", "12 = 3 landed + 9 to go", "G go on with 9").fast("G").shows("G go on with 9") // it did pause until just now
	b.keys("G").shows("12 = 3 landed + 9 left out")
}

// A run that is begun on the page of an outage ends there, and the page stays when
// nothing is left to do.
func TestARunEndsWhereItWasBegun(t *testing.T) {
	pace := act.Pace
	t.Cleanup(func() { act.Pace = pace })
	act.Pace = 0
	b := outageBench(t, 100, 34, "downstream:stripe")
	e := b.engine()
	for n := range 12 {
		e.plans[outageRow(n)] = reconcile.Plan{Basis: ledger.BasisProof, Sender: "http", Showing: reconcile.Showing{Digest: "shown"}}
	}
	b.keys("R").shows("Retry 12").text("12").keys("tab", "enter").shows("12 = 3 landed + 9 to go").wait(time.Second).keys("G")
	b.hides("┌").shows("Retry 12 by maya", "12 = 12 landed", "OUTAGE stripe")
	need.Must(t, len(e.retried) == 12, "%d sent", len(e.retried))
}

// Marked rows that are all of one outage stand on its page as a run, too.
func TestARunOverMarksIsOfTheirOutage(t *testing.T) {
	b := outageBench(t, 100, 34, "downstream:stripe")
	b.keys("enter", "space", "j", "space", "N").shows("Note 2").text("seen").keys("tab").text("2").keys("tab", "enter").shows("2 = 2 ")
	runs := need.Get(b.store.Runs(t.Context(), ledger.RunQuery{Limit: 9}))(t)
	need.Must(t, len(runs) == 1 && runs[0].Terms.Outage == b.m.feed.Outages[0].ID, "%+v", runs)
}

// :runs lists what indoubt runs --all does; Enter opens one, and Esc leads back.
func TestRunsAreListed(t *testing.T) {
	b := outageBench(t, 100, 34, "downstream:stripe")
	b.keys(":").text("runs").keys("enter").shows("no bulk run was begun").keys("esc")
	outageRun(t, b, runsOfAnOutage["stopped"]...)
	b.keys(":").text("runs").keys("enter").shows("Retry 12 by sam: stopped", "1 landed · 1 unclear").keys("enter").shows("Retry 12: stopped", "G go on with 10", "WHY")
	b.keys("enter").shows("› charge cus_18").keys("esc").shows("Retry 12: stopped").keys("esc").shows("┌ Runs").keys("esc").hides("┌").shows("OUTAGE stripe")
	most := runsAtMost
	t.Cleanup(func() { runsAtMost = most })
	b.keys(":").text("runs").keys("enter").hides("NEWEST").keys("esc")
	runsAtMost = 0
	b.keys(":").text("runs").keys("enter").shows("NEWEST ", "0; indoubt runs --all --limit 0 has more").hides("Retry 12 by sam: stopped ")
}

func TestGoldenRuns(t *testing.T) {
	for name, came := range runsOfAnOutage {
		for _, size := range [][2]int{{40, 10}, {80, 24}, {120, 40}, {160, 48}} {
			b := outageRun(t, outageBench(t, size[0], size[1], "downstream:stripe"), came...)
			golden(t, fmt.Sprintf("outage_run_%s_%dx%d", name, size[0], size[1]), b.screen())
			b.do(accountFor(b.m, ask.OpenRun{ID: "run-1"}))
			golden(t, fmt.Sprintf("run_%s_%dx%d", name, size[0], size[1]), b.screen())
		}
	}
}

// A run keeps the titles of its rows as they are: they become safe where they are shown.
func TestARunKeepsTitlesAsTheyAre(t *testing.T) {
	o := nightOptions()
	o.Store.(*memory).put(doubt(20, "x.post", "red \x1b[31m", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(1e6), amount(1e6)))
	b := newBench(t, 80, 24, o).judged(nightFacts).cursorOn(20).keys("space").cursorOn(5).keys("space")
	b.keys("N").shows(`worst red \x1b[31m`).text("looked").keys("tab").text("2").keys("tab", "enter")
	b.wait(time.Second).shows("Note 2: done")
	run := need.Get(b.store.Runs(t.Context(), ledger.RunQuery{Limit: 9}))(t)[0]
	_, items, err := b.store.Account(t.Context(), run.ID)
	need.OK(t, err)
	for _, it := range items {
		need.Equal(t, it.Title, b.op(it.OperationID).Title)
	}
	b.shows(`: red \x1b[31m`)
}

// Who only looks is not offered what the ledger would refuse, and who drives a run does not
// leave it for another.
func TestARunIsNotOfferedToWhoCannotDriveIt(t *testing.T) {
	b, e := sixProven(t)
	b.sixGo().shows("G go on with 3").keys("esc")
	o := nightOptions()
	o.Store, o.Engine, o.ReadOnly = b.store, e, true
	newBench(t, 80, 40, o).judged(nightFacts).keys("p").shows("Retry 6: waits", "HERE", "read-only").hides("G go on", "E ends it").keys("E", "G", "esc", "p").shows("Retry 6: waits")
	o.ReadOnly, o.Engine = false, nil
	newBench(t, 80, 40, o).judged(nightFacts).keys("p").shows("nothing can be sent from this console", "E ends it").hides("G go on")
	b.m.run = &act.Run{Account: act.Account{Record: ledger.DecisionRun{ID: "other", State: ledger.RunRunning}}}
	driven := b.m.run
	b.keys(":").text("runs").keys("enter", "enter", "G").shows("a bulk run is under way from here")
	need.That(t, b.m.run == driven && len(e.retried) == 3, "the run that goes on was left, %d sent", len(e.retried))
}
