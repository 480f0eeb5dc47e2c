package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"

	"pgregory.net/rapid"
)

// wantGroups compares the groups of the newest outage, as "2 said, 1 held by maya",
// and returns its account.
func (d *desk) wantGroups(want string) ledger.OutageAccount {
	d.Helper()
	a := need.Get(d.s.Outage(ctx, d.outages()[0].ID, d.clock.Now()))(d)
	var got []string
	for _, g := range a.Groups {
		said := fmt.Sprintf("%d %s", g.Sum.N, g.Group)
		if g.By != "" {
			said += " by " + g.By
		}
		got = append(got, said)
	}
	slices.SortFunc(got, func(a, b string) int {
		if a[0] != b[0] {
			return int(b[0]) - int(a[0])
		}
		return strings.Compare(a, b)
	})
	if strings.Join(got, ", ") != want {
		d.Fatalf("the groups are %s\nwant           %s", strings.Join(got, ", "), want)
	}
	return a
}

// outageGroups puts operations of one outage where they count apart, and takes them
// from there again.
func outageGroups(t *testing.T, open Open) {
	d := newDesk(t, open)
	op := map[string]ledger.Operation{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		op[key] = d.settle(d.begun(key).Attempt.ID, ledger.OutcomeUncertain)
	}
	d.wantGroups("6 decide")
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		op[key] = d.observe(op[key], ledger.NotThere)
	}
	op["f"] = d.decide(op["f"], ledger.VerbDeny)
	d.wantGroups("5 proven, 1 said")

	other := d.settle(d.begun("e again", sameAs("e")).Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_e"))
	a := d.wantGroups("4 proven, 1 elsewhere, 1 said")
	if len(a.Elsewhere) != 1 || a.Elsewhere[0].Operation != op["e"].ID || a.Elsewhere[0].Other.ID != other.ID || !a.Elsewhere[0].Other.SettledAt.Equal(other.SettledAt) {
		d.Fatalf("%+v, want that %s landed as %s at %s", a.Elsewhere, op["e"].ID, other.ID, other.SettledAt)
	}
	d.decide(op["a"], ledger.VerbPark)
	d.allow(op["b"], ledger.BasisProof)
	d.wantGroups("2 proven, 1 elsewhere, 1 parked by maya, 1 said, 1 unfetched by billing")
	sam := ledger.Actor{Name: "sam"}
	run, _, err := d.s.Run(ctx, ledger.DecisionRun{ID: d.id("run"), Verb: "retry", Actor: sam}, []ledger.RunItem{{OperationID: op["c"].ID, Version: op["c"].Version}, {OperationID: op["d"].ID, Version: op["d"].Version}})
	d.ok(err)
	d.wantGroups("2 running by sam, 1 elsewhere, 1 parked by maya, 1 said, 1 unfetched by billing")
	d.halt(run, sam, true)
	d.clock.Advance(ledger.FetchPatience)
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "downstream:card", Kinds: []string{"card.charge"}, Actor: sam, Reason: "their page", ChangeID: d.id("change")}))
	d.wantGroups("3 held by sam, 1 elsewhere, 1 overdue by billing, 1 parked by maya")
	d.clock.Advance(time.Hour)
	d.wantGroups("5 held by sam, 1 elsewhere")
	d.ok(d.s.LiftHold(ctx, ledger.Lift{Scope: "downstream:card", Actor: sam, Reason: "it is up", ChangeID: d.id("change")}))
	d.wantGroups("4 proven, 1 elsewhere, 1 said")

	first := d.retry(d.read(op["b"].ID).Operation, ledger.BasisProof).After
	d.settle(first.LiveAttempt, ledger.OutcomeCommitted, withReceipt("pi_b"), func(r *ledger.SettleRequest) { r.Already = true })
	if a = d.wantGroups("3 proven, 1 elsewhere, 1 landed, 1 said"); a.Already != 1 || !a.CheckedAt.IsZero() {
		d.Fatalf("%d were there already, checked at %s", a.Already, a.CheckedAt)
	}
	d.observe(d.read(first.ID).Operation, ledger.Landed, "pi_b")
	rec := d.read(first.ID)
	if a = d.wantGroups("3 proven, 1 elsewhere, 1 landed, 1 said"); !a.CheckedAt.Equal(rec.Reads[0].EndedAt) || a.CheckedAt.IsZero() {
		d.Fatalf("checked at %s, want %s", a.CheckedAt, rec.Reads[0].EndedAt)
	}
}

// compareLists compares what is in outages and what is in none with what the lists count,
// and each group with the rows that its filter selects.
func (g *game) compareLists(ins []ledger.OutageAccount) {
	now, s := g.real.clock.Now(), g.real.s
	rows := func(tab ledger.Tab, filter string) int {
		return len(everything(g.real, s, ledger.Query{Tab: tab, Filter: g.real.filter(filter), Now: now}, 7))
	}
	for _, in := range ins {
		groups := map[ledger.Group]int{}
		for _, x := range in.Groups {
			groups[x.Group] += x.Sum.N
		}
		for group, n := range groups {
			if got := rows(group.Tab(), "outage:"+in.ID+" group:"+string(group)); got != n {
				g.rt.Fatalf("%d in group %s, and its filter selects %d", n, group, got)
			}
		}
	}
	c := need.Get(s.Counts(ctx, now))(g.rt)
	for tab, n := range map[ledger.Tab]int{ledger.TabNeedsYou: c.NeedsYou, ledger.TabChecking: c.Checking, ledger.TabInFlight: c.InFlight, ledger.TabParked: c.Parked, ledger.TabSettled: c.Settled} {
		if in, others := rows(tab, "outage:any"), rows(tab, "-outage:any"); in+others != n {
			g.rt.Fatalf("%s: %d in outages and %d in none, the list counts %d", tab, in, others, n)
		}
	}
}

// run begins a bulk run over some operations as they are, or ends the newest, on both
// stores.
func (g *game) run(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "end") {
		halt := ledger.RunHalt{Actor: maya, End: true}
		g.both(func(s ledger.Store) (string, error) {
			open, err := s.Runs(ctx, ledger.RunQuery{Open: true, Limit: 1})
			if err != nil || len(open) == 0 {
				return "", err
			}
			_, err = s.ChangeRun(ctx, open[0], halt.Rule)
			return open[0].ID, err
		})
		g.last = nil
		return
	}
	run := ledger.DecisionRun{ID: g.id("run"), Verb: "retry", Actor: ledger.Actor{Name: rapid.SampledFrom([]string{"maya", "sam"}).Draw(rt, "who")}}
	var items []ledger.RunItem
	for _, id := range g.ids {
		items = append(items, ledger.RunItem{OperationID: id, Version: g.version(rt, id)})
	}
	g.both(func(s ledger.Store) (string, error) {
		r, _, err := s.Run(ctx, run, items)
		return r.ID, err
	})
	g.last = nil
}
