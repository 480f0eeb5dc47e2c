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

// fold looks for outages as who leads does, who has followed everything.
func (d *desk) fold(burst func(string) ledger.Burst) {
	d.Helper()
	ids := ledger.Each(d.events(""), func(e ledger.Event) string { return e.OperationID })
	d.ok(d.s.Fold(ctx, ids, ids, false, burst))
}

// outages are all of them, where two errors make one.
func (d *desk) outages() []ledger.Outage {
	d.Helper()
	d.fold(pairs)
	return d.listed()
}

func (d *desk) listed() []ledger.Outage {
	d.Helper()
	ins := need.Get(d.s.Outages(ctx, d.clock.Now(), 100))(d)
	d.ok(d.s.Sums(ctx, ins, d.clock.Now()))
	return ins
}

// wantAccounts compares the accounts and phases of all outages.
func (d *desk) wantAccounts(want ...string) {
	d.Helper()
	d.fold(pairs)
	d.wantListed(want...)
}

func (d *desk) wantListed(want ...string) {
	d.Helper()
	var got []string
	for _, i := range d.listed() {
		got = append(got, string(i.PhaseAt(d.clock.Now()))+": "+account(i))
	}
	need.Must(d, slices.Equal(got, want), "outages are %q\nwant          %q", got, want)
}

func (d *desk) changeOutage(verb string, mod func(*ledger.OutageChange)) (ledger.Outage, error) {
	c := ledger.OutageChange{ChangeID: d.id("change"), ID: d.listed()[0].ID, Verb: verb, Actor: maya, Reason: "their status page says so"}
	mod(&c)
	return d.s.ChangeOutage(ctx, c)
}

// outages follows one outage from its first error to its closing.
func outages(t *testing.T, open Open) {
	d := newDesk(t, open)
	five := func(string) ledger.Burst { return ledger.Burst{Scope: "downstream:stripe"} }
	want := func(accounts ...string) {
		d.Helper()
		d.fold(five)
		d.wantListed(accounts...)
	}
	fail := func(key string, outcome ledger.Outcome, mod ...func(*ledger.SettleRequest)) ledger.Operation {
		return d.settle(d.begun(key).Attempt.ID, outcome, mod...)
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
	want()
	ops = append(ops, fail("e", ledger.OutcomeUncertain))
	want("growing: 5 = 1 not_landed + 4 open")
	fail("refused", ledger.OutcomeFailed)
	late := d.begun("late")
	d.clock.Advance(2 * time.Minute) // its deadline passes, and a policy looks at it later
	need.Get(d.s.Expire(ctx, 10))(d)
	want("growing: 7 = 1 not_landed + 5 open + 1 refused")
	price := ledger.Pricing{OperationID: late.Operation.ID, Digest: "p1", Miss: ledger.Cost{Value: 420}, Duplicate: ledger.Cost{Word: "high"}}
	d.ok(d.s.Price(ctx, []ledger.Pricing{price, price}))

	one := d.listed()[0]
	if one.Scope != "downstream:stripe" || one.Downstream() != "stripe" || !slices.Equal(one.Kinds, []string{"card.charge"}) ||
		!slices.Equal(one.Pipelines, []string{"billing"}) || !slices.Equal(one.Classes, []string{"timeout", "deadline"}) {
		d.Fatalf("the outage is %+v", one)
	}
	if s := one.Fates[ledger.FateOpen]; s.Miss != 420 || s.TwiceWords != 1 || s.Twice != 0 {
		d.Fatalf("what is open costs %+v, want 420 and one word", s)
	}
	for _, o := range []ledger.Operation{refused, alone} {
		if in := d.read(o.ID).Outages; len(in) > 0 {
			d.Fatalf("%s is in %s", o.Key, in)
		}
	}
	a := need.Get(d.s.Outage(ctx, one.ID[:8], d.clock.Now()))(d)
	n, peak := 0, 0
	for _, m := range a.Minutes {
		n, peak = n+m.N, max(peak, m.N)
	}
	if n != 7 || peak < 4 || a.Errors() != 7 {
		d.Fatalf("the minutes have %d of %d errors, at most %d: %+v", n, a.Errors(), peak, a.Minutes)
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
	want("growing: 7 = 2 landed + 2 not_landed + 2 open + 1 refused")
	d.clock.Advance(11 * time.Minute)
	need.Must(d, len(d.read(fail("after the gap", ledger.OutcomeUncertain).ID).Outages) == 0, "an error after the gap is in it")
	want("over: 7 = 2 landed + 2 not_landed + 2 open + 1 refused") // the checks were answered
	again := d.allow(d.read(ops[1].ID).Operation, ledger.BasisProof)
	want("over: 7 = 2 landed + 1 not_landed + 3 open + 1 refused")
	d.clock.Advance(2 * time.Hour) // no one came for it
	want("over: 7 = 2 landed + 2 not_landed + 2 open + 1 refused")
	d.wantGroups("2 decide, 2 landed, 1 never_sent, 1 proven, 1 refused")
	again = d.allow(d.read(again.ID).Operation, ledger.BasisProof)
	d.settle(d.begun("b").Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_2"))
	want("over: 7 = 3 landed + 1 not_landed + 2 open + 1 refused")
	if s := d.listed()[0].Sum(); s.Resent != 1 || s.Unchecked != 1 || s.Doubled != 0 {
		d.Fatalf("%s was sent again, and no check has seen how often it landed: %+v", again.Key, s)
	}
	d.observe(d.read(again.ID).Operation, ledger.Landed, "pi_2")
	if s := d.listed()[0].Sum(); s.Unchecked != 0 {
		d.Fatalf("it was checked: %+v", s)
	}

	peopleAndOutages(d, ops[4])
}

// onlyOpenCosts counts what is open at the price that the list has, and without one.
func onlyOpenCosts(t *testing.T, open Open) {
	d := newDesk(t, open)
	late := d.settle(d.begun("late").Attempt.ID, ledger.OutcomeUncertain)
	d.settle(d.begun("never sent").Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.NeverSent })
	doubt := d.settle(d.begun("doubt").Attempt.ID, ledger.OutcomeUncertain)
	want := func(what string, of map[ledger.Fate]ledger.Sum) {
		d.Helper()
		if diff := cmp.Diff(of, d.outages()[0].Fates); diff != "" {
			d.Fatalf("%s (-want +is):\n%s", what, diff)
		}
	}
	want("no policy has seen it", map[ledger.Fate]ledger.Sum{ledger.FateNotLanded: {N: 1}, ledger.FateOpen: {N: 2, Unpriced: 2}})
	for _, o := range []ledger.Operation{late, doubt} {
		d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: o.ID, Digest: "p1", Miss: ledger.Cost{Value: 7}, Duplicate: ledger.Cost{Word: "high"}}}))
	}
	want("it is priced", map[ledger.Fate]ledger.Sum{ledger.FateNotLanded: {N: 1}, ledger.FateOpen: {N: 2, Miss: 14, TwiceWords: 2}})
	until := d.clock.Now().Add(time.Minute)
	d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: doubt.ID, Digest: "p1", Miss: ledger.Cost{Value: 7}, Duplicate: ledger.Cost{Word: "high"}, DecideAt: until}}))
	want("one has checks to come", map[ledger.Fate]ledger.Sum{ledger.FateNotLanded: {N: 1}, ledger.FateChecking: {N: 1, Miss: 7, TwiceWords: 1},
		ledger.FateOpen: {N: 1, Miss: 7, TwiceWords: 1}})
	d.clock.Advance(time.Minute)
	want("its time has come", map[ledger.Fate]ledger.Sum{ledger.FateNotLanded: {N: 1}, ledger.FateOpen: {N: 2, Miss: 14, TwiceWords: 2}})
	d.settle(d.read(late.ID).Attempts[0].ID, ledger.OutcomeCommitted)
	want("one has settled", map[ledger.Fate]ledger.Sum{ledger.FateLanded: {N: 1}, ledger.FateNotLanded: {N: 1}, ledger.FateOpen: {N: 1, Miss: 7, TwiceWords: 1}})
}

// outagesSince names the outages that something was written about.
func outagesSince(t *testing.T, open Open) {
	d := newDesk(t, open)
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
	d.settle(d.begun("a").Attempt.ID, ledger.OutcomeUncertain)
	want("one error", 0)
	b := d.settle(d.begun("b").Attempt.ID, ledger.OutcomeUncertain)
	d.fold(pairs)
	want("the error that opens one", 1)
	in := d.listed()[0].ID
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

// nobodyFollowed has outages opened from history, by two who follow and do no more than one.
func nobodyFollowed(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.errors("a")
	d.clock.Advance(time.Minute)
	d.errors("b", "c")
	d.clock.Advance(time.Hour)
	d.errors("d")
	d.clock.Advance(time.Minute)
	d.errors("e")
	d.clock.Advance(time.Minute)
	need.Must(d, len(d.listed()) == 0, "there is an outage that nobody opened")
	for range 2 {
		d.ok(d.s.Fold(ctx, nil, nil, true, pairs))
		d.wantListed("growing: 2 = 2 open", "quiet: 3 = 3 open")
		d.fold(pairs)
	}
	var told []string
	for _, e := range d.events("") {
		if e.Outage != "" {
			told = append(told, e.Verb+": "+e.Reason)
		}
	}
	if want := []string{"outage_opened: 2 errors within 5m", "outage_opened: 2 errors within 5m"}; !slices.Equal(told, want) {
		d.Fatalf("told is %q, want %q", told, want)
	}
	before := need.Get(d.s.Info(ctx))(d).LastSeq
	d.ok(d.s.Fold(ctx, nil, nil, true, pairs))
	need.Must(d, need.Get(d.s.Info(ctx))(d).LastSeq == before, "what is folded again is told again")
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

// fold looks for outages, in both stores.
func (g *game) fold(*rapid.T) {
	g.both(func(s ledger.Store) (string, error) { return "", s.Fold(ctx, g.ids, g.ids, false, pairs) })
}

// outage is a person's change of an outage, on both stores.
func (g *game) outage(rt *rapid.T) {
	ins := g.plain.listed()
	if len(ins) == 0 {
		rt.Skip()
	}
	c := ledger.OutageChange{ChangeID: g.id("c"), ID: rapid.SampledFrom(ins).Draw(rt, "outage").ID, Actor: maya, Reason: "because",
		Until: g.real.clock.Now().Add(time.Hour), Verb: rapid.SampledFrom([]string{ledger.OutageNoted, ledger.OutageTaken}).Draw(rt, "verb")}
	g.both(func(s ledger.Store) (string, error) {
		in, err := s.ChangeOutage(ctx, c)
		return fmt.Sprint(in.ID, " ", in.TakenBy, " ", in.TakenUntil.UTC()), err
	})
}

// compareOutages compares every outage in both stores, and its sums with the
// operations that are in it.
func (g *game) compareOutages() {
	now := g.real.clock.Now()
	of := func(d *desk) (out []ledger.OutageAccount) {
		for _, in := range d.listed() {
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
	for _, rec := range need.Get(g.real.s.Records(ctx, g.ids))(g.rt) {
		for _, id := range rec.Outages {
			members[id]++
		}
	}
	for _, in := range real {
		if n := members[in.ID]; in.Errors() != n {
			g.rt.Fatalf("%d operations are in it, %s", n, account(in.Outage))
		}
	}
}
