package ledgertest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// lists checks pages, filters and counts against the rows themselves, while
// the clock moves rows from one list to the next.
func lists(t *testing.T, open Open) {
	d := newDesk(t, open)
	furnish(d)
	for turn, pass := range []time.Duration{0, time.Minute, 9 * time.Minute, time.Hour, 24 * time.Hour} {
		d.clock.Advance(pass)
		if !Racing || turn == 1 {
			checkLists(d, d.s, orders, filters, turn)
		}
	}
	// Everything that is overdue is written down; no list may change by that.
	before := need.Get(d.s.Counts(ctx, d.clock.Now()))(d)
	need.Get(d.s.Expire(ctx, 1000))(d)
	after := need.Get(d.s.Counts(ctx, d.clock.Now()))(d)
	need.Must(d, before.NeedsYou == after.NeedsYou && before.InFlight == after.InFlight && before.All == after.All,
		"writing deadlines down moved the counts from %+v to %+v", before, after)
	checkLists(d, d.s, orders[:1], filters[:5], 5)
}

// furnish fills a ledger with at least one operation for every lane.
func furnish(d *desk) {
	var prices []ledger.Pricing
	price := func(o ledger.Operation, rank float64, decide time.Duration, word string) {
		prices = append(prices, ledger.Pricing{OperationID: o.ID, Digest: "p1", Downstream: "stripe", Title: "charge " + o.Key,
			Duplicate: ledger.Cost{Value: 2 * rank}, Miss: ledger.Cost{Value: rank, Word: word}, Rank: rank,
			DecideAt: d.clock.Now().Add(decide), ReadAt: ledger.Never})
	}
	for i := range 6 {
		n := func(what string) string { return fmt.Sprintf("%s %d", what, i) }
		kind := func(r *ledger.BeginRequest) {
			r.Kind = []string{"card.charge", "card.refund", "mail.send"}[i%3]
			r.Source.Pipeline = []string{"billing", "signup"}[i%2]
		}
		d.begun(n("in flight"), kind, func(r *ledger.BeginRequest) { r.Deadline = time.Duration(i+1) * 10 * time.Minute })
		d.settle(d.begun(n("fine"), kind).Attempt.ID, ledger.OutcomeCommitted, withReceipt(n("pi")))
		d.settle(d.begun(n("refused"), kind).Attempt.ID, ledger.OutcomeFailed)
		price(d.doubt(n("decide"), kind), float64(100+i/2), 0, "")
		price(d.doubt(n("checking"), kind), float64(10*i), time.Duration(i)*time.Minute, "high")
		price(d.observe(d.doubt(n("not landed"), kind), ledger.NotThere), float64(50+i), 0, "")
		price(d.observe(d.doubt(n("twice"), kind), ledger.Twice, n("pi_a"), n("pi_b")), float64(i), 0, "")
		price(d.observe(d.doubt(n("different"), kind), ledger.Different, n("pi_c")), float64(i), 0, "")
		price(d.decide(d.doubt(n("parked"), kind), ledger.VerbPark, func(dec *ledger.Decision) {
			dec.Until = d.clock.Now().Add(time.Duration(i+1) * 20 * time.Minute)
		}), 7, 0, "")
		price(d.allow(d.doubt(n("allowed"), kind), ledger.BasisRiskAccepted), 8, 0, "")
		d.decide(d.doubt(n("dropped"), kind), ledger.VerbAbandon)
		d.doubt(n("unpriced"), kind)
		d.begun(n("overdue"), kind, func(r *ledger.BeginRequest) { r.Deadline = 10 * time.Millisecond })
	}
	d.ok(d.s.Price(ctx, prices))
}

var tabs = []ledger.Tab{ledger.TabAll, ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight, ledger.TabSettled, ledger.TabParked}

var orders = []ledger.Order{"", ledger.OrderLoss, ledger.OrderNewest, ledger.OrderOldest}

var filters = []string{
	"", "charge", "kind:card.charge", "kind:card.*", "-kind:mail.send", "state:uncertain", "state:pending", "lane:conflict", "lane:reading",
	"lane:decide", "lane:in_flight", "lane:unfetched", "lane:not_landed", "lane:resolved", "-lane:resolved", "source:signup", "error:timeout",
	"downstream:stripe", "key:granted", "key:ranted", "token:tok", "receipt:pi_", "-receipt:pi", "by:maya", "-überfällig", "parked:yes", "since:1m", "until:1m", "since:2026-07-14", "-until:2100-01-01T00:00Z", "state:uncertain,failed", "-lane:decide,reading,conflict", "source:*nu*", "source:SIGNUP", "source:signup,s*p,[x]", "-kind:*.s*d,card.*", "source:ä*,*", "age>30m", "age<2h", "cost>100", "risk>20", "TWICE kind:card.* -source:signup", `"in flight"`, "100%", "state:failed -by:maya",
	"lane:resolved,decide", "kind:card.* -source:signup since:1m", "-state:failed -by:maya", "key:granted token:tok", "-key:granted überfällig", "since:today -until:yesterday",
	"needs:you", "-needs:you", "needs:you kind:card.*", "needs:you -downstream:stripe", "error:deadline", "-error:deadline,timeout", "-downstream:stripe", "downstream:s*,x -state:failed",
}

// checkLists compares every list, whole and filtered, with what the rows
// themselves say. Each filter is tried on one list a turn.
func checkLists(d *desk, s ledger.Store, orders []ledger.Order, filters []string, turn int) {
	d.Helper()
	now := d.clock.Now()
	few, some := 5, 9 // rows on a page
	if Racing {
		few, some = 21, 37
	}
	all := everything(d, s, ledger.Query{Tab: ledger.TabAll, Now: now}, few+2)
	byID := map[string]ledger.Row{}
	for _, r := range all {
		byID[r.ID] = r
	}
	for _, r := range all {
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: r.ID}))(d)
		if r.Key != rec.Operation.Key || r.State != rec.Operation.State || r.Version != rec.Operation.Version || r.LaneAt(now) != rec.Row().LaneAt(now) {
			d.Fatalf("%s is listed as %s in %s at version %d, and read as %s in %s at %d", rec.Operation.Key, r.State, r.LaneAt(now), r.Version,
				rec.Operation.State, rec.Row().LaneAt(now), rec.Operation.Version)
		}
	}
	for _, tab := range tabs {
		for _, order := range orders {
			q := ledger.Query{Tab: tab, Order: order, Now: now}
			checkOrder(d, q, everything(d, s, q, few))
		}
	}
	for i, text := range filters {
		tab := tabs[(i+turn)%len(tabs)]
		f := need.Get(ledger.ParseFilter(text))(d).By(sentTo)
		var want, got []string
		for _, r := range all {
			if (tab == ledger.TabAll || r.TabAt(now) == tab) && f.Match(r, now) {
				want = append(want, r.Key)
			}
		}
		for _, r := range everything(d, s, ledger.Query{Tab: tab, Filter: f, Now: now}, some) {
			got = append(got, r.Key)
		}
		slices.Sort(want)
		slices.Sort(got)
		need.Must(d, slices.Equal(want, got), "%s, filter %q:\ngot  %q\nwant %q", tab, text, got, want)
		if got, err := s.Needing(ctx, f, now); err != nil || !same(got, needing(all, f, now)) {
			d.Fatalf("filter %q lets through what needs a person: %+v, want %+v (%v)", text, got, needing(all, f, now), err)
		}
	}
	got := need.Get(s.Counts(ctx, now))(d)
	want := count(all, now)
	need.Must(d, same(got.Needing, want.Needing), "needing %+v, want %+v", got.Needing, want.Needing)
	got.Needing = want.Needing
	// A pending operation past its deadline may be counted as either.
	for _, c := range []*ledger.Counts{&got, &want} {
		maps.DeleteFunc(c.ByState, func(_ ledger.State, n int) bool { return n == 0 })
		c.ByState = map[ledger.State]int{ledger.Committed: c.ByState[ledger.Committed], ledger.Failed: c.ByState[ledger.Failed],
			ledger.Abandoned: c.ByState[ledger.Abandoned], ledger.Uncertain: c.ByState[ledger.Uncertain] + c.ByState[ledger.Pending]}
	}
	need.Must(d, fmt.Sprintf("%+v", got) == fmt.Sprintf("%+v", want), "counts\ngot  %+v\nwant %+v", got, want)
}

// same compares what needs a person; sums are added up in any order.
func same(a, b ledger.Needing) bool {
	near := math.Abs(a.Loss-b.Loss) < 1e-6 && math.Abs(a.Unsent-b.Unsent) < 1e-6
	a.Loss, a.Unsent = b.Loss, b.Unsent
	return near && a == b
}

// everything reads a list to its end, a page at a time.
func everything(d *desk, s ledger.Store, q ledger.Query, limit int) []ledger.Row {
	d.Helper()
	var rows []ledger.Row
	seen := map[string]bool{}
	for q.Limit = limit; ; {
		page := need.Get(s.Page(ctx, q))(d)
		need.Must(d, len(page.Rows) <= limit, "%d rows on a page of %d", len(page.Rows), limit)
		for _, r := range page.Rows {
			need.Must(d, !seen[r.ID], "%s comes twice in %s by %q", r.Key, q.Tab, q.Order)
			seen[r.ID] = true
		}
		rows = append(rows, page.Rows...)
		if page.Next == "" {
			return rows
		}
		q.After = page.Next
	}
}

func checkOrder(d *desk, q ledger.Query, rows []ledger.Row) {
	d.Helper()
	for i := 1; i < len(rows); i++ {
		if compareRows(orderOf(q), rows[i-1], rows[i]) > 0 {
			a, b := rows[i-1], rows[i]
			d.Fatalf("%s by %q: %s (%q, rank %g, created %s, updated %s) stands before %s (%q, rank %g, created %s, updated %s)", q.Tab, orderOf(q),
				a.Key, a.Conflict, a.Pricing.Rank, a.CreatedAt, a.UpdatedAt, b.Key, b.Conflict, b.Pricing.Rank, b.CreatedAt, b.UpdatedAt)
		}
	}
}

// compareRows is the order of a list; rows that are equal in it stay as they came.
func compareRows(order ledger.Order, a, b ledger.Row) int {
	switch order {
	case ledger.OrderNewest:
		return b.UpdatedAt.Compare(a.UpdatedAt)
	case ledger.OrderOldest:
		return a.CreatedAt.Compare(b.CreatedAt)
	}
	calm := func(r ledger.Row) int {
		if r.Conflict == ledger.NoConflict {
			return 1
		}
		return 0
	}
	return cmp.Or(calm(a)-calm(b), cmp.Compare(b.Pricing.Rank, a.Pricing.Rank), a.CreatedAt.Compare(b.CreatedAt))
}

// orderOf is the order a query asks for, said or not. What is settled has
// nothing to lose, so lists that hold it are never in the order of loss.
func orderOf(q ledger.Query) ledger.Order {
	settled := q.Tab == ledger.TabSettled || q.Tab == ledger.TabAll || q.Tab == ""
	switch {
	case settled && (q.Order == "" || q.Order == ledger.OrderLoss):
		return ledger.OrderNewest
	case q.Order == "":
		return ledger.OrderLoss
	}
	return q.Order
}

// needing is what Needing must say of these rows.
func needing(rows []ledger.Row, f ledger.Filter, now time.Time) (n ledger.Needing) {
	for _, r := range rows {
		if f.Match(r, now) {
			n.Count(r, now)
		}
	}
	return n
}

// count is what Counts must say of these rows.
func count(rows []ledger.Row, now time.Time) ledger.Counts {
	c := ledger.Counts{Needing: needing(rows, ledger.Filter{}, now), All: len(rows), ByState: map[ledger.State]int{}}
	for _, r := range rows {
		c.ByState[r.StateAt(now)]++
		switch r.TabAt(now) {
		case ledger.TabParked:
			c.Parked++
		case ledger.TabChecking:
			c.Checking++
		case ledger.TabInFlight:
			c.InFlight++
		case ledger.TabSettled:
			c.Settled++
		}
	}
	return c
}

func sortDoubtCounts(t []ledger.DoubtCount) []ledger.DoubtCount {
	slices.SortFunc(t, func(a, b ledger.DoubtCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class))
	})
	return t
}

func sortStateCounts(c []ledger.StateCount) []ledger.StateCount {
	slices.SortFunc(c, func(a, b ledger.StateCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
	return c
}
