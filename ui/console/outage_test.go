package console

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/reconcile"
	"indoubt/ui/console/feed"
)

// outageRow is the id of a row of the outage.
func outageRow(n int) string { return fmt.Sprintf("0198ff00-0000-7000-8000-%012d", n) }

var outageImage ledgertest.Image

// outageOptions are those of the night with an outage of stripe: 20 charges that got no answer
// within six minutes, of which twelve did not land, five landed and three cannot be told yet.
func outageOptions(t testing.TB) Options {
	return optionsOf(tonight(begin(&outageImage, night, func(s *memory) { fillOutage(t, s) })))
}

func fillOutage(t testing.TB, s *memory) {
	fillNight(s)
	ctx, began := context.Background(), night.Add(-53*time.Minute)
	must := func(err error) {
		t.Helper()
		need.OK(t, err)
	}
	actor := ledger.Actor{Name: "billing", Machine: true}
	const n, burst = 20, 4 // so many open an outage, with the one of the night
	ids := make([]string, n)
	attempts := make([]string, n)
	for i := range n {
		s.set(began.Add(time.Duration(i*i) * time.Second * 360 / (n * n)))
		r, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: outageRow(i), AttemptID: ledger.NewID(), Kind: "stripe.charge", Key: fmt.Sprintf("out-%d", i), Title: fmt.Sprintf("charge cus_%d", i),
			Token: fmt.Sprintf("tok-%d", i), Source: ledger.Source{Pipeline: "billing"}, Actor: actor, Deadline: 2 * time.Minute, TokenSent: true})
		must(err)
		ids[i], attempts[i] = r.Operation.ID, r.Attempt.ID
		_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempts[i], Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Error: "no answer", Status: -1, TokenSent: true, Actor: actor})
		must(err)
		if i+1 == burst {
			foldOutages(t, s)
		}
	}
	foldOutages(t, s)
	s.set(night.Add(-40 * time.Minute))
	for i := range n {
		switch {
		case i < 12:
			at := night.Add(-40 * time.Minute)
			_, err := ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: 2, Settles: true, Actor: ledger.Actor{Name: "checks", Machine: true},
				Read: ledger.Read{ID: ledger.NewID(), OperationID: ids[i], BeganAt: at, EndedAt: at, Verdict: ledger.NotThere, Reason: "none found"}})
			must(err)
		case i < 17:
			_, err := ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: ids[i], Version: 2, Verb: ledger.VerbConfirm, Receipts: []string{fmt.Sprintf("pi_%d", i)}, Actor: ledger.Actor{Name: "sam"}})
			must(err)
		}
	}
	var prices []ledger.Pricing
	for i, id := range ids {
		p := ledger.Pricing{OperationID: id, Digest: "d", Downstream: "stripe", Miss: ledger.Cost{Value: 100}, Duplicate: ledger.Cost{Value: 200}, Rank: 100, DecideAt: ledger.Never, ReadAt: night.Add(time.Minute)}
		if i >= 17 {
			prices = append(prices, p)
		} else if i < 12 {
			p.Odds = 0
			prices = append(prices, p)
		}
	}
	must(s.Price(ctx, prices))
	s.set(night)
	foldOutages(t, s)
}

// foldOutages looks for outages as who leads does.
func foldOutages(t testing.TB, s *memory) {
	var ids []string
	for _, e := range need.Get(s.History(t.Context(), ledger.HistoryQuery{Limit: 10_000}))(t) {
		ids = append(ids, e.OperationID)
	}
	need.OK(t, s.Fold(t.Context(), ids, ids, false, func(kind string) ledger.Burst {
		if kind == "stripe.charge" {
			return ledger.Burst{Scope: "downstream:stripe"}
		}
		return ledger.Burst{}
	}))
}

func outageBench(t *testing.T, w, h int, filter string) *bench {
	o := outageOptions(t)
	o.Filter = filter
	return newBench(t, w, h, o).judged(nightFacts)
}

// An outage is one row; Enter tells of it, a group's Enter lists its operations, and Esc
// leads back the same way.
func TestAnOutageIsOneRow(t *testing.T) {
	b := outageBench(t, 100, 30, "")
	b.shows("12 × stripe timeout 02:13–02:19", "18 NEED YOU").hides("charge cus_3 ")
	b.keys("j").shows("21 = 6 landed + 12 did not land + 3 being checked", "nobody is on it", "cannot tell yet")
	b.keys("X").shows("X is off: this is an outage: ↵ leads to its rows")
	b.keys("enter").hides("X is off").shows("OUTAGE stripe · timeout · billing · 02:13–02:19", "21 errors in 6 min", "none sent twice", "WHAT IS TRUE", "NOT IN IT  6 need you, 1 of them in conflict", "18 NEED YOU: 12 one outage, 6 others")
	b.keys("W").shows("maya is on it", "maya: taken: on it until 05:06:").tickOver(10 * time.Second).shows("W give it back")
	b.keys("esc").shows("W give it back").keys("enter", "W").shows("nobody is on it").tickOver(10 * time.Second).shows("W I am on it")
	b.keys("N").text("their status page is green").keys("enter").shows("noted: their status page is green")
	b.keys("j", "enter").shows("charge cus_17", "charge cus_19").hides("charge cus_3 ")
	b.keys("esc").shows("OUTAGE stripe").keys("esc").shows("12 × stripe timeout")
}

// The line for an alert opens on its outage.
func TestAFilterOpensItsOutage(t *testing.T) {
	outageBench(t, 100, 30, "downstream:stripe").shows("OUTAGE stripe").keys("esc").shows("12 × stripe")
	outageBench(t, 100, 30, "source:billing kind:stripe.* since:30m").shows("OUTAGE stripe")
	b := outageBench(t, 100, 30, "kind:legacy.charge")
	b.hides("OUTAGE")
	id := "outage:" + b.m.feed.Outages[0].ID // as a notice says it
	outageBench(t, 100, 30, id).shows("OUTAGE stripe")
	outageBench(t, 100, 30, "-"+id).hides("OUTAGE stripe")
}

// One key asks about a whole group, and the frozen set is that group and nothing else.
func TestOneKeyForAGroup(t *testing.T) {
	b := outageBench(t, 100, 34, "downstream:stripe")
	b.keys("P").shows("Park 12", "Type 12").keys("esc")
	b.keys("j", "c").shows("checked 3 · 3 cannot tell")
	b.keys("j", "P").shows("P is off: there is nothing to do about these")
	need.Lacks(t, b.screen(), "marked")
}

// What is parked or held leaves the group that the key acts on, and the groups with what
// is not in the outage stay what NEED YOU counts.
func TestWhatWaitsIsAGroupOfItsOwn(t *testing.T) {
	b := outageBench(t, 100, 34, "downstream:stripe").shows("18 NEED YOU", "    12  did not land", "NOT IN IT  6 need you")
	sam, ctx, id := ledger.Actor{Name: "sam"}, context.Background(), "0198ff00-0000-7000-8000-000000000000"
	park := ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: b.op(id).Version, Verb: ledger.VerbPark, Reason: "after lunch", Until: night.Add(time.Minute), Actor: sam}
	need.Get(ledger.Decide(ctx, b.m.o.Store, park))(t)
	b.send(feed.Changed{})
	b.shows("17 NEED YOU", "    11  did not land", "     1  parked by sam", "NOT IN IT  6 need you")
	b.keys("R").shows("of 11").keys("esc")
	need.OK(t, b.m.o.Store.Hold(ctx, ledger.Hold{Scope: "kind:stripe.charge", Actor: sam, Reason: "their page", ChangeID: "hold"}))
	b.send(feed.Changed{})
	b.shows("    11  did not land, held by sam", "17 NEED YOU", "NOT IN IT  6 need you")
	b.keys("R").shows("R is off")
	need.OK(t, b.m.o.Store.LiftHold(ctx, ledger.Lift{Scope: "kind:stripe.charge", Actor: sam, Reason: "it is up", ChangeID: "lift"}))
	b.send(feed.Changed{})
	b.shows("    11  did not land", "     1  parked by sam")
	b.tickOver(2*time.Minute).shows("19 NEED YOU", "    12  did not land", "NOT IN IT  7 need you").hides("parked by sam") // no one wrote anything
}

func TestGoldenOutage(t *testing.T) {
	for _, size := range [][2]int{{40, 10}, {80, 24}, {120, 40}, {160, 48}} {
		for shot, keys := range map[string][]string{
			"outage": nil, "outage_rows": {"enter"}, "outage_member": {"enter", "enter"},
			"outage_retry": {"R"}, "outage_abandon": {"A"}, "outage_park": {"P"},
		} {
			b := outageBench(t, size[0], size[1], "downstream:stripe")
			for n := range 12 {
				b.m.o.Engine.(*fakeEngine).plans[fmt.Sprintf("0198ff00-0000-7000-8000-%012d", n)] = reconcile.Plan{Basis: ledger.BasisProof, Sender: "http", Showing: reconcile.Showing{Digest: "shown"}}
			}
			golden(t, fmt.Sprintf("%s_%dx%d", shot, size[0], size[1]), b.keys(keys...).screen())
		}
		b := outageBench(t, size[0], size[1], "").keys("j")
		golden(t, fmt.Sprintf("outage_row_%dx%d", size[0], size[1]), b.screen())
		golden(t, fmt.Sprintf("parked_%dx%d", size[0], size[1]), b.keys("j", "P", "enter", "enter", "5").screen())
	}
}

// On an account that several people use, the first decision about an outage asks who
// decides, too, and then goes on.
func TestAnOutageAsksWhoDecides(t *testing.T) {
	for _, key := range []string{"W", "R", "P"} {
		b := outageBench(t, 100, 34, "downstream:stripe")
		b.m.o.AskName = true
		b.keys(key).shows("Who")
		need.That(t, !strings.Contains(b.screen(), "is on it") || strings.Contains(b.screen(), "nobody is on it"), "%s was carried out without a name", key)
	}
	b := outageBench(t, 100, 34, "downstream:stripe")
	b.m.o.AskName = true
	b.keys("W").text("vera").keys("enter").shows("vera is on it")
}

// An operation whose deadline passed in it counts on the screen, though it stays where it is
// in the lists.
func TestAnOutageGrowsByADeadline(t *testing.T) {
	b := outageBench(t, 100, 30, "")
	s := b.store
	s.set(night.Add(-48 * time.Minute))
	_, err := ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: outageRow(20), AttemptID: ledger.NewID(), Kind: "stripe.charge", Key: "late", Title: "charge cus_20",
		Token: "tok-20", Source: ledger.Source{Pipeline: "billing"}, Actor: ledger.Actor{Name: "billing", Machine: true}, Deadline: 10 * time.Millisecond, TokenSent: true})
	need.OK(t, err)
	s.set(night)
	time.Sleep(11 * time.Millisecond) // by the steady clock too
	_, err = s.Expire(t.Context(), 10)
	need.OK(t, err)
	b.send(feed.Changed{})
	b.wait(5 * time.Second).keys("j").shows("22 = 6 landed + 12 did not land + 3 being checked + 1 to look at")
}

// Where a filter is about several outages, the list shows them and no other, the dearest
// first, and says so.
func TestAFilterOfSeveralOutages(t *testing.T) {
	o := outageOptions(t)
	s := o.Store.(*memory)
	actor := ledger.Actor{Name: "billing", Machine: true}
	var prices []ledger.Pricing
	for i := range 6 {
		s.set(night.Add(-30*time.Minute + time.Duration(i)*time.Second))
		r, err := ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: outageRow(40 + i), AttemptID: ledger.NewID(), Kind: "tax.report", Key: fmt.Sprint("tax-", i), Title: fmt.Sprint("report ", i),
			Source: ledger.Source{Pipeline: "billing"}, Actor: actor, Deadline: 2 * time.Minute})
		if err == nil {
			_, err = ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: r.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.Class5xx, Status: 502, Actor: actor})
		}
		need.OK(t, err)
		prices = append(prices, ledger.Pricing{OperationID: r.Operation.ID, Digest: "d", Miss: ledger.Cost{Value: 900}, Duplicate: ledger.Cost{Value: 1}, Rank: 900, DecideAt: night.Add(-20 * time.Minute), ReadAt: ledger.Never})
	}
	need.OK(t, s.Price(t.Context(), prices))
	s.set(night)
	foldOutages(t, s)
	for _, size := range [][2]int{{80, 24}, {160, 48}} {
		o.Filter = "source:billing"
		b := newBench(t, size[0], size[1], o).judged(nightFacts)
		golden(t, fmt.Sprintf("outages_%dx%d", size[0], size[1]), b.screen())
		b.shows("2 outages match source:billing, the dearest first: ↵ opens one").hides("mail Welcome").keys("enter").shows("OUTAGE tax.report")
	}
}

// A group that is larger than one run takes is not cut in silence.
func TestAGroupLargerThanOneRun(t *testing.T) {
	most := groupAtMost
	t.Cleanup(func() { groupAtMost = most })
	groupAtMost = 10
	b := outageBench(t, 100, 34, "downstream:stripe")
	b.keys("P").shows("Park 10", "LEFT OUT         2 more: one run takes 10; the same key again takes them").keys("esc")
	groupAtMost = 12
	b.keys("P").shows("Park 12").hides("LEFT OUT").keys("esc")
	check := checkAtMost
	t.Cleanup(func() { checkAtMost = check })
	checkAtMost = 2
	b.keys("j", "c").shows("checked 2 of 3, the rest in their turn · 2 cannot tell")
	checkAtMost = 3
	b.keys("c").shows("checked 3 · 3 cannot tell")
}

// What is typed after / is a term of its own beside the filter of a group, and what y says
// it has copied of a page is its first line.
func TestTheFilterOfAGroupIsAddedTo(t *testing.T) {
	b := outageBench(t, 100, 34, "downstream:stripe")
	b.keys("y").shows("copied the page of this outage, if your terminal allows it: # stripe · timeout").hides(`\n`)
	need.Contains(t, b.copy[0], "21 = 6 landed", "\n\n21 errors in 6 min", "|\n| 12 | did not land |", "\n- 2026-07-14 ")
	need.Lacks(t, b.copy[0], `\n`)
	b.keys("enter").shows("charge cus_3").keys("/").text("cus_3").keys("enter").shows("charge cus_3").hides("charge cus_4")
	need.Contains(t, b.m.table.Filter.Text, "group:proven cus_3")
}

// A line that came under the cursor by itself takes no act, and the dialog names the group.
func TestTheGroupThatIsAskedAboutIsNamed(t *testing.T) {
	b := outageBench(t, 100, 34, "downstream:stripe").keys("j").shows("▌     3  cannot tell yet")
	b.keys("P").shows("Park 3", "OF               cannot tell yet").keys("esc")
	for n := 17; n < 20; n++ {
		need.Get(ledger.Decide(t.Context(), b.store, ledger.Decision{ChangeID: ledger.NewID(), ID: outageRow(n), Version: 2, Verb: ledger.VerbConfirm, Receipts: []string{fmt.Sprint("pi_", n)}, Actor: ledger.Actor{Name: "sam"}}))(t)
	}
	b.send(feed.Changed{})
	b.keys("P").shows("P is off: there is nothing to do about these")
	for n := range 12 {
		need.Get(ledger.Decide(t.Context(), b.store, ledger.Decision{ChangeID: ledger.NewID(), ID: outageRow(n), Version: 3, Verb: ledger.VerbUndo, Reason: "x", Actor: ledger.Actor{Name: "sam"}}))(t)
	}
	b.keys("g").shows("▌    12")
	for n := range 12 {
		need.Get(ledger.Decide(t.Context(), b.store, ledger.Decision{ChangeID: ledger.NewID(), ID: outageRow(n), Version: 4, Verb: ledger.VerbDeny, Reason: "x", Actor: ledger.Actor{Name: "sam"}}))(t)
	}
	b.send(feed.Changed{})
	b.keys("P").shows("another line has just come under the cursor").wait(2*time.Second).keys("P").shows("Park 12", "OF               said not to have landed")
}

// What no check can tell is advised row by row, and R on its line asks about it: what has no
// key is left out.
func TestAGroupThatNoCheckCanTell(t *testing.T) {
	o := outageOptions(t)
	s := o.Store.(*memory)
	var prices []ledger.Pricing
	for n := 17; n < 20; n++ {
		p := s.row(outageRow(n)).Pricing
		p.OperationID, p.DecideAt, p.ReadAt = outageRow(n), night.Add(-time.Minute), ledger.Never
		prices = append(prices, p)
	}
	need.OK(t, s.Price(t.Context(), prices))
	o.Filter = "downstream:stripe"
	e := o.Engine.(*fakeEngine)
	e.plans[outageRow(17)] = reconcile.Plan{Basis: ledger.BasisKeySafe, Sender: "http"}
	b := newBench(t, 100, 34, o).judged(nightFacts).keys("j").shows("no check can tell", "as each row advises", "R asks about those", "whose key is remembered")
	b.keys("R").shows("Retry 1", "1 of 3, frozen", "2: without proof: by itself only").keys("esc").shows("▌     3  no check can tell")
}

// The line for an alert opens on its outage, also where there are more of them than one
// list folds.
func TestAFilterFindsItsOutageAmongMany(t *testing.T) {
	o := outageOptions(t)
	s := o.Store.(*memory)
	for n := range 30 {
		kind := fmt.Sprintf("shop%d.order", n)
		for i := range 5 {
			s.set(night.Add(-30*time.Minute + time.Duration(n)*time.Second))
			r := need.Get(ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: outageRow(100 + 10*n + i), AttemptID: ledger.NewID(), Kind: kind, Key: fmt.Sprint(kind, i),
				Title: fmt.Sprint(kind, " ", i), Source: ledger.Source{Pipeline: "shop"}, Actor: ledger.Actor{Name: "shop", Machine: true}, Deadline: 2 * time.Minute}))(t)
			need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: r.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.Class5xx, Status: 502,
				Actor: ledger.Actor{Name: "shop", Machine: true}}))(t)
		}
	}
	s.set(night)
	foldOutages(t, s)
	for _, kind := range []string{"shop0.order", "shop7.order", "shop29.order"} {
		o.Filter = "kind:" + kind
		newBench(t, 120, 40, o).judged(nightFacts).shows("OUTAGE " + kind)
	}
	o.Filter = ""
	b := newBench(t, 120, 40, o).judged(nightFacts).hides("OUTAGE")
	b.keys("/").text("kind:shop3.order").keys("enter").shows("5 × shop3.order server error").hides("stripe timeout")
}

// The foot of an outage has the keys that do something to the line under the cursor, and
// the way out.
func TestTheFootOfAnOutage(t *testing.T) {
	b := outageBench(t, 80, 24, "downstream:stripe")
	b.shows("R send the group", "A abandon", "c check these", "esc back", "? help")
	b.keys("G").shows("R send the group", "esc back").hides("A abandon", "P park", "c check these") // these landed
	o := outageOptions(t)
	o.Filter, o.Engine = "downstream:stripe", nil
	newBench(t, 80, 24, o).judged(nightFacts).shows("A abandon", "N note").hides("R send the group", "c check")
}

// A secret that several downstreams lack stands once in the header, and on the page of an
// outage in the header's words.
func TestAMissingSecretIsSaidOnce(t *testing.T) {
	o := outageOptions(t)
	o.Filter = "downstream:stripe"
	lacks := func(name string) reconcile.Health {
		return reconcile.Health{Downstream: name, State: reconcile.StateNoKey, Why: "SHOP_KEY"}
	}
	o.Engine.(*fakeEngine).health = []reconcile.Health{lacks("bank"), lacks("stripe")}
	b := newBench(t, 80, 24, o).judged(nightFacts).hides("no_key")
	need.Equal(t, strings.Count(b.screen(), "no key: SHOP_KEY"), 1)
	newBench(t, 160, 48, o).judged(nightFacts).shows("bank, stripe no key: SHOP_KEY")
}

// When the last row of an outage is settled elsewhere, its row says so at once, though a hand
// is at the keys, and no figure of before stays on the screen.
func TestAFinishedOutageIsOverAtOnce(t *testing.T) {
	for _, size := range [][2]int{{40, 12}, {80, 24}, {120, 40}, {200, 60}} {
		b := outageBench(t, size[0], size[1], "").keys("j").shows("12 ×")
		settle := func(from, to int) {
			for n := from; n < to; n++ {
				op := b.op(outageRow(n))
				d := ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbAbandon, Reason: "made by hand", Actor: ledger.Actor{Name: "sam"}}
				need.Get(ledger.Decide(t.Context(), b.store, d))(t)
			}
			b.wait(time.Second)
			b.send(feed.Changed{})
		}
		settle(0, 11)
		b.shows("1 ×").hides("12 ×")
		settle(11, 12)
		b.hides(" × ").shows("nothing to do")
		settle(17, 20)
		b.shows("over, 21 settled").hides("3 being checked")
		b.keys("j").hides("over, 21 settled")
	}
}
