package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pairs makes an outage of two errors.
func pairs(string) ledger.Burst {
	return ledger.Burst{Scope: "downstream:stripe", Errors: 2, Within: 5 * time.Minute, Gap: 10 * time.Minute}
}

// account is an outage's sum in words, as "3 = 1 landed + 2 open".
func account(i ledger.Outage) string {
	var of []string
	for _, f := range ledger.Fates {
		if n := i.Fates[f].N; n > 0 {
			of = append(of, fmt.Sprintf("%d %s", n, f))
		}
	}
	return fmt.Sprintf("%d = %s", i.Errors(), strings.Join(of, " + "))
}

func (d *desk) outages() []ledger.Outage {
	d.Helper()
	ins := need.Get(d.s.Outages(ctx, d.clock.Now(), 100))(d)
	d.ok(d.s.Sums(ctx, ins, d.clock.Now()))
	return ins
}

// wantAccounts compares the accounts and phases of all outages.
func (d *desk) wantAccounts(want ...string) {
	d.Helper()
	var got []string
	for _, i := range d.outages() {
		got = append(got, string(i.PhaseAt(d.clock.Now()))+": "+account(i))
	}
	need.Must(d, slices.Equal(got, want), "outages are %q\nwant          %q", got, want)
}

func (d *desk) changeOutage(verb string, mod func(*ledger.OutageChange)) (ledger.Outage, error) {
	c := ledger.OutageChange{ChangeID: d.id("change"), ID: d.outages()[0].ID, Verb: verb, Actor: maya, Reason: "their status page says so"}
	mod(&c)
	return d.s.ChangeOutage(ctx, c)
}

// outages follows one outage from its first error to its closing.
func outages(t *testing.T, open Open) {
	d := newDesk(t, open)
	stripe := func(r *ledger.SettleRequest) {
		r.Bursts = func(string) ledger.Burst { return ledger.Burst{Scope: "downstream:stripe"} }
	}
	fail := func(key string, outcome ledger.Outcome, mod ...func(*ledger.SettleRequest)) ledger.Operation {
		return d.settle(d.begun(key).Attempt.ID, outcome, append(mod, stripe)...)
	}
	neverSent := func(r *ledger.SettleRequest) { r.Proof = ledger.NeverSent }

	refused := fail("refused before", ledger.OutcomeFailed)
	alone := fail("alone", ledger.OutcomeUncertain)
	d.clock.Advance(11 * time.Minute)
	var ops []ledger.Operation
	for _, key := range []string{"a", "b", "c"} {
		ops = append(ops, fail(key, ledger.OutcomeUncertain))
	}
	ops = append(ops, fail("d", ledger.OutcomeFailed, neverSent))
	d.wantAccounts()
	ops = append(ops, fail("e", ledger.OutcomeUncertain))
	d.wantAccounts("growing: 5 = 1 not_landed + 4 open")
	fail("refused", ledger.OutcomeFailed)
	late := d.begun("late")
	d.clock.Advance(2 * time.Minute) // its deadline passes, and a policy looks at it later
	need.Get(d.s.Expire(ctx, 10))(d)
	d.wantAccounts("growing: 6 = 1 not_landed + 4 open + 1 refused")
	price := ledger.Pricing{OperationID: late.Operation.ID, Digest: "p1", Burst: ledger.Burst{Scope: "downstream:stripe"}, Miss: ledger.Cost{Value: 420}, Duplicate: ledger.Cost{Word: "high"}}
	d.ok(d.s.Price(ctx, []ledger.Pricing{price, price}))
	d.wantAccounts("growing: 7 = 1 not_landed + 5 open + 1 refused")

	one := d.outages()[0]
	if one.Scope != "downstream:stripe" || one.Downstream() != "stripe" || !slices.Equal(one.Kinds, []string{"card.charge"}) ||
		!slices.Equal(one.Pipelines, []string{"billing"}) || !slices.Equal(one.Classes, []string{"timeout", "deadline"}) {
		d.Fatalf("the outage is %+v", one)
	}
	if s := one.Fates[ledger.FateOpen]; s.Miss != 420 || s.TwiceWords != 1 || s.Twice != 0 {
		d.Fatalf("what is open costs %+v, want 420 and one word", s)
	}
	for _, o := range []ledger.Operation{refused, alone} {
		if in := d.read(o.ID).Operation.Outage; in != "" {
			d.Fatalf("%s joined %s", o.Key, in)
		}
	}
	a := need.Get(d.s.Outage(ctx, one.ID[:8], d.clock.Now()))(d)
	n := 0
	for _, m := range a.Minutes {
		n += m.N
	}
	if n != 7 || a.Peak().N < 4 || a.Errors() != 7 {
		d.Fatalf("the minutes have %d of %d errors, at most %d: %+v", n, a.Errors(), a.Peak().N, a.Minutes)
	}
	if g := a.Groups[0]; g.Sum.N != 5 || g.Kind != "card.charge" || g.Group != ledger.GroupDecide || g.Fate != ledger.FateOpen {
		d.Fatalf("the largest group is %+v", g)
	}
	rows := everything(d, d.s, ledger.Query{Filter: d.filter("outage:" + one.ID), Now: d.clock.Now()}, 3)
	need.Must(d, len(rows) == 7, "%d rows are of the outage, want 7", len(rows))

	// What becomes of its operations is counted where it is now.
	d.observe(ops[0], ledger.Landed, "pi_1")
	d.observe(ops[1], ledger.NotThere)
	d.settle(d.read(ops[2].ID).Attempts[0].ID, ledger.OutcomeCommitted) // late
	d.decide(d.decide(ops[4], ledger.VerbAbandon), ledger.VerbUndo)
	d.wantAccounts("growing: 7 = 2 landed + 2 not_landed + 2 open + 1 refused")
	d.clock.Advance(11 * time.Minute)
	need.Must(d, fail("new outage", ledger.OutcomeUncertain).Outage == "", "an error after the gap joined")
	d.wantAccounts("over: 7 = 2 landed + 2 not_landed + 2 open + 1 refused") // the checks were answered
	need.Get(d.s.Expire(ctx, 10))(d)
	again := d.grant(d.read(ops[1].ID).Operation, ledger.BasisProof)
	d.wantAccounts("over: 7 = 2 landed + 1 not_landed + 3 open + 1 refused")
	d.clock.Advance(2 * time.Hour) // no one came for it
	d.wantAccounts("over: 7 = 2 landed + 2 not_landed + 2 open + 1 refused")
	d.wantGroups("2 decide, 2 landed, 1 never_sent, 1 proven, 1 refused")
	again = d.grant(d.read(again.ID).Operation, ledger.BasisProof)
	d.settle(d.begun("b").Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_2"), stripe)
	d.wantAccounts("over: 7 = 3 landed + 1 not_landed + 2 open + 1 refused")
	if s := d.outages()[0].Sum(); s.Resent != 1 || s.Unchecked != 1 || s.Doubled != 0 {
		d.Fatalf("%s was sent again, and no check has seen how often it landed: %+v", again.Key, s)
	}
	d.observe(d.read(again.ID).Operation, ledger.Landed, "pi_2")
	if s := d.outages()[0].Sum(); s.Unchecked != 0 {
		d.Fatalf("it was checked: %+v", s)
	}

	peopleAndOutages(d, ops[4])
}

// settledUnpriced are errors that settle before a policy prices them: they are counted
// apart until one does, and then keep that price.
func settledUnpriced(t *testing.T, open Open) {
	d := newDesk(t, open)
	stripe := func(r *ledger.SettleRequest) { r.Bursts = pairs }
	late := d.settle(d.begun("late").Attempt.ID, ledger.OutcomeUncertain, stripe)
	sent := d.settle(d.begun("never sent").Attempt.ID, ledger.OutcomeFailed, stripe, func(r *ledger.SettleRequest) { r.Proof = ledger.NeverSent })
	doubt := d.settle(d.begun("doubt").Attempt.ID, ledger.OutcomeUncertain, stripe)
	d.settle(d.read(late.ID).Attempts[0].ID, ledger.OutcomeCommitted)
	want := func(what string, of map[ledger.Fate]ledger.Sum) {
		d.Helper()
		if diff := cmp.Diff(of, d.outages()[0].Fates); diff != "" {
			d.Fatalf("%s (-want +is):\n%s", what, diff)
		}
		a := need.Get(d.s.Outage(ctx, d.outages()[0].ID, d.clock.Now()))(d)
		groups := ledger.Sum{}
		for _, g := range a.Groups {
			groups = groups.Add(g.Sum)
		}
		if groups != a.Sum() {
			d.Fatalf("%s: the groups are %+v, all %+v", what, groups, a.Sum())
		}
	}
	want("no policy has seen it", map[ledger.Fate]ledger.Sum{ledger.FateLanded: {N: 1, Unpriced: 1}, ledger.FateNotLanded: {N: 1, Unpriced: 1}, ledger.FateOpen: {N: 1, Unpriced: 1}})
	keys := func(digest string) (keys []string) {
		d.Helper()
		ops := need.Get(d.s.Unpriced(ctx, digest, 100))(d)
		for _, o := range ops {
			keys = append(keys, o.Key)
		}
		return sorted(keys)
	}
	if got := keys("p1"); !slices.Equal(got, []string{"doubt", "late", "never sent"}) {
		d.Fatalf("unpriced are %q", got)
	}
	price := func(o ledger.Operation, miss ledger.Cost) ledger.Pricing {
		return ledger.Pricing{OperationID: o.ID, Digest: "p1", Miss: miss, Duplicate: ledger.Cost{Value: 2 * miss.Value}, DecideAt: ledger.Never, ReadAt: ledger.Never}
	}
	stale := price(late, ledger.Cost{Value: 7})
	stale.Version = late.Version // it has settled since
	d.ok(d.s.Price(ctx, []ledger.Pricing{stale, price(sent, ledger.Cost{Value: 20})}))
	want("one is priced, one as it was before", map[ledger.Fate]ledger.Sum{ledger.FateLanded: {N: 1, Unpriced: 1}, ledger.FateNotLanded: {N: 1, Miss: 20, Twice: 40}, ledger.FateOpen: {N: 1, Unpriced: 1}})
	d.ok(d.s.Price(ctx, []ledger.Pricing{price(d.read(late.ID).Operation, ledger.Cost{Word: "high"}), price(doubt, ledger.Cost{})}))
	priced := map[ledger.Fate]ledger.Sum{ledger.FateLanded: {N: 1, MissWords: 1}, ledger.FateNotLanded: {N: 1, Miss: 20, Twice: 40}, ledger.FateOpen: {N: 1}}
	want("all are priced, one at nothing", priced)
	if got := keys("p1"); len(got) > 0 {
		d.Fatalf("%q have a price", got)
	}
	if got := keys("p2"); !slices.Equal(got, []string{"doubt"}) {
		d.Fatalf("another policy prices %q, want only what is open", got)
	}
}

// outagesSince names the outages that something was written about.
func outagesSince(t *testing.T, open Open) {
	d := newDesk(t, open)
	burst := func(r *ledger.SettleRequest) { r.Bursts = pairs }
	var place ledger.Cursor
	want := func(after string, n int) (ids []string) {
		d.Helper()
		events, next := d.follow(place, 100)
		for _, limit := range []int{len(events) - 1, len(events), 100} {
			found, all, err := d.s.OutagesSince(ctx, place, limit)
			d.ok(err)
			if ids = found; all != (limit >= len(events)) || all && len(ids) != n {
				d.Fatalf("after %s: %d of %d events name %q, all: %t", after, limit, len(events), ids, all)
			}
		}
		place = next
		return ids
	}
	d.begun("other")
	want("what is of none", 0)
	d.settle(d.begun("a").Attempt.ID, ledger.OutcomeUncertain, burst)
	want("one error", 0)
	b := d.settle(d.begun("b").Attempt.ID, ledger.OutcomeUncertain, burst)
	want("the error that opens one", 1)
	in := d.outages()[0].ID
	for what, do := range []func(){
		func() { d.decide(b, ledger.VerbNote) },
		func() { d.observe(d.read(b.ID).Operation, ledger.Landed, "pi_1") },
		func() {
			need.Get(d.changeOutage(ledger.OutageNoted, func(*ledger.OutageChange) {}))(d)
		},
	} {
		do()
		if ids := want(fmt.Sprint("change ", what), 1); ids[0] != in {
			d.Fatalf("change %d is about %q, want %s", what, ids, in)
		}
		d.begun(fmt.Sprint("other ", what))
		want("what is of none again", 0)
	}
	if _, _, err := d.s.OutagesSince(ctx, "x", 1); !errors.As(err, new(*ledger.CursorError)) {
		d.Fatalf("a place that is none: %v", err)
	}
}

// latecomers join when they are priced, and one event an outage says so.
func latecomers(t *testing.T, open Open) {
	d := newDesk(t, open)
	price := func(keys ...string) {
		var prices []ledger.Pricing
		for _, key := range keys {
			o := need.Get(d.s.Read(ctx, ledger.Locator{Kind: "card.charge", Key: key}))(d)
			prices = append(prices, ledger.Pricing{OperationID: o.Operation.ID, Digest: "p1", Burst: pairs("")})
		}
		d.ok(d.s.Price(ctx, prices))
	}
	expire := func(keys ...string) (newest time.Time) {
		for _, key := range keys {
			newest = d.begun(key).Operation.DeadlineAt
		}
		d.clock.Advance(2 * time.Minute)
		need.Get(d.s.Expire(ctx, 10))(d)
		return newest
	}
	told := func() (all []ledger.Event) {
		for _, e := range d.events("") {
			if e.Outage != "" {
				all = append(all, e)
			}
		}
		return all
	}
	expire("a", "b")
	price("a", "b")
	if all := told(); len(all) != 1 || all[0].Verb != ledger.OutageOpened {
		d.Fatalf("two errors that open an outage leave %+v", all)
	}
	newest := expire("c", "d", "e").UTC().Format(time.RFC3339)
	changed := d.s.Watch(t.Context())
	price("e", "c", "a", "d")
	select {
	case <-changed:
	case <-time.After(time.Minute):
		d.Fatalf("no one is told that errors joined")
	}
	all := told()
	if len(all) != 2 || all[1].Verb != ledger.OutageJoined || all[1].Outage != all[0].Outage || all[1].Reason != "3 errors until "+newest ||
		string(all[1].Detail) != `{"errors":3,"until":"`+newest+`"}` || !all[1].Actor.Machine {
		d.Fatalf("three errors that join leave %+v", all[1:])
	}
	price("e", "c", "a", "d")
	price("b")
	if n := len(told()); n != 2 {
		d.Fatalf("the same prices again leave %d more events", n-2)
	}

	// Those that join one by one are in the account, and not in the history.
	for i := range 60 {
		key := fmt.Sprint("one ", i)
		expire(key)
		price(key)
	}
	a := need.Get(d.s.Outage(ctx, all[0].Outage, d.clock.Now()))(d)
	if n := len(a.Events); n != 1 || a.Events[0].Verb != ledger.OutageOpened || a.Errors() != 65 {
		d.Fatalf("%s, with %d events: %+v", account(a.Outage), n, a.Events)
	}
}

// peopleAndOutages is what people do with an outage.
func peopleAndOutages(d *desk, o ledger.Operation) {
	now := d.clock.Now()
	for range 2 { // the same again changes nothing
		_, err := d.changeOutage(ledger.OutageTaken, func(c *ledger.OutageChange) { c.ChangeID, c.Until = "taken", now.Add(time.Hour) })
		d.ok(err)
	}
	if in := d.outages()[0]; in.TakenAt(now) != "maya" || in.TakenAt(now.Add(2*time.Hour)) != "" {
		d.Fatalf("taken by %q until %s", in.TakenBy, in.TakenUntil)
	}
	refused := func(verb string, mod func(*ledger.OutageChange)) {
		d.Helper()
		if _, err := d.changeOutage(verb, mod); !errors.As(err, new(*ledger.RefusedError)) {
			d.Fatalf("%s: %v, want a refusal", verb, err)
		}
	}
	refused(ledger.OutageNoted, func(c *ledger.OutageChange) { c.Reason = " " })
	refused(ledger.OutageNoted, func(c *ledger.OutageChange) { c.Actor = billing })
	need.Get(d.changeOutage(ledger.OutageNoted, func(*ledger.OutageChange) {}))(d)
	ran := ledger.DecisionRun{ID: d.id("run"), Verb: "retry", Actor: maya, Terms: ledger.RunTerms{Reason: "over", Outage: d.outages()[0].ID}, CreatedAt: now}
	_, _, err := d.s.Run(ctx, ran, []ledger.RunItem{{OperationID: o.ID, Version: o.Version, Kind: o.Kind, Title: o.Title}})
	d.ok(err)
	a := need.Get(d.s.Outage(ctx, d.outages()[0].ID, now))(d)
	if a.LastRun() != ran.ID {
		d.Fatalf("its newest run is %q, want %s", a.LastRun(), ran.ID)
	}
	var verbs []string
	for _, e := range a.Events {
		verbs = append(verbs, strings.TrimPrefix(e.Verb, "outage_"))
	}
	if want := []string{"opened", "over", "taken", "noted", "run"}; !slices.Equal(verbs, want) {
		d.Fatalf("its history is %q, want %q", verbs, want)
	}
	if _, err := d.s.Outage(ctx, "ffffffff", now); !errors.Is(err, ledger.ErrNotFound) {
		d.Fatalf("an outage that is not there: %v", err)
	}
}

func (d *desk) filter(text string) ledger.Filter {
	d.Helper()
	return need.Get(ledger.ParseFilter(text))(d)
}

// outage is a person's change of an outage, on both stores.
func (g *game) outage(rt *rapid.T) {
	ins := g.plain.outages()
	if len(ins) == 0 {
		rt.Skip()
	}
	c := ledger.OutageChange{ChangeID: g.id("c"), ID: rapid.SampledFrom(ins).Draw(rt, "outage").ID, Actor: maya, Reason: "because",
		Until: g.real.clock.Now().Add(time.Hour), Verb: rapid.SampledFrom([]string{ledger.OutageNoted, ledger.OutageTaken}).Draw(rt, "verb")}
	g.both(func(s ledger.Store) (string, error) {
		in, err := s.ChangeOutage(ctx, c)
		return account(in), err
	})
}

// compareOutages compares every outage in both stores, and its sums with the
// operations that are in it.
func (g *game) compareOutages() {
	now := g.real.clock.Now()
	of := func(d *desk) (out []ledger.OutageAccount) {
		for _, in := range d.outages() {
			a := need.Get(d.s.Outage(ctx, in.ID, now))(g.rt)
			if account(a.Outage) != account(in) {
				g.rt.Fatalf("listed as %s, alone %s", account(in), account(a.Outage))
			}
			minutes := 0
			for _, m := range a.Minutes {
				minutes += m.N
			}
			if minutes != in.Errors() {
				g.rt.Fatalf("%d errors in its minutes, %s", minutes, account(in))
			}
			a.Events = nil
			a.Scope += " " + string(a.PhaseAt(now))
			a.AnsweredAt = time.Time{}
			for f, s := range a.Fates {
				a.Fates[f] = unpriced(s)
			}
			for i := range a.Groups {
				a.Groups[i].Sum = unpriced(a.Groups[i].Sum)
			}
			out = append(out, a)
		}
		return out
	}
	real := of(g.real)
	if diff := cmp.Diff(of(g.plain), real, seeing...); diff != "" {
		g.rt.Fatalf("outages differ from memory's (-memory +store):\n%s", diff)
	}
	g.compareLists(real)
	members := map[string]int{}
	for _, e := range g.plain.s.(*Memory).ops {
		members[e.op.Row().Outage]++
	}
	for _, in := range real {
		if n := members[in.ID]; in.Errors() != n {
			g.rt.Fatalf("%d operations are in it, %s", n, account(in.Outage))
		}
	}
}
