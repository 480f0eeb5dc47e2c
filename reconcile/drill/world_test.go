package drill

import (
	"context"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/policy"
)

// testRules are of the policy what the pipelines of a world come to.
func testRules(inForce func() *policy.Policy) record.Rules {
	return record.Rules(func(name string) record.KindRule {
		k := inForce().Kind(name)
		return record.KindRule{Named: k.Known, Deadline: k.Deadline, TTL: k.Key.TTL, Remembers: k.Remembers, KeyFrom: k.Key.From, KeyHeader: k.KeyHeader,
			Input: k.Input, TokenInto: k.Token.Into, Safe: k.Effect.Safe(), Retry: outcome.Retry{Max: k.Retry.Max}, Title: k.Title, Target: k.Target, Price: k.Price,
			RepeatUntil: k.RepeatUntil, Judge: k.JudgeAnswer}
	})
}

func testLedger(ctx context.Context, name string, clock ledger.Clock, actor ledger.Actor) (ledger.Store, error) {
	return open.Create(ctx, name, open.Options{Clock: clock, Steady: hostclock.With(clock), Actor: actor})
}

func world(t *testing.T, o Options) *World {
	t.Helper()
	o.Open, o.Rules, o.Dir = testLedger, testRules, t.TempDir()
	for _, pair := range []string{"INDOUBT_DEMO_KEY"} {
		t.Setenv(pair, "")
	}
	began := time.Now()
	w := need.Get(Setup(t.Context(), o))(t)
	t.Logf("set up in %s", time.Since(began))
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func all(t *testing.T, w *World) (rows []ledger.Row) {
	t.Helper()
	for after := ""; ; {
		page := need.Get(w.store.Page(t.Context(), ledger.Query{Tab: ledger.TabAll, Now: w.now(), Limit: 500, After: after}))(t)
		rows = append(rows, page.Rows...)
		if after = page.Next; after == "" {
			return rows
		}
	}
}

// One night is enough for all that can be seen of it; making one takes a while.
func TestWorld(t *testing.T) {
	w := world(t, Options{Seed: 1, Now: time.Now()}) // what is in flight stays in flight, however slow the machine
	t.Run("has everything to look at", func(t *testing.T) { hasEverything(t, w) })
	t.Run("the ledger tells the truth", func(t *testing.T) { tellsTheTruth(t, w) })
	t.Run("the downstream keeps the policy's promise", func(t *testing.T) {
		p := need.Get(policy.Load(w.PolicyPath))(t)
		need.That(t, recentLag < recentAnswer+*p.Kind("stripe.charge").LandsWithin, "shown %s after it was sent: called not there before", recentLag)
	})
	t.Run("a world that is closed writes nothing more", func(t *testing.T) { writesNothingMore(t, w) })
}

func hasEverything(t *testing.T, w *World) {
	now := w.now()
	lanes, tabs := map[ledger.Lane]int{}, map[ledger.Tab]int{}
	find := map[string]ledger.Row{}
	for _, r := range all(t, w) {
		lanes[r.LaneAt(now)]++
		tabs[r.TabAt(now)]++
		find[r.Title] = r
	}
	t.Logf("lanes %v, tabs %v", lanes, tabs)
	for _, lane := range []ledger.Lane{ledger.LaneConflict, ledger.LaneInFlight, ledger.LaneUnfetched, ledger.LaneDecide,
		ledger.LaneReading, ledger.LaneNotLanded, ledger.LaneResolved} {
		need.That(t, lanes[lane] != 0, "nothing is in lane %s", lane)
	}
	for title, holds := range map[string]func(r ledger.Row) bool{
		"payout 420.00 → acct_7Kd":       func(r ledger.Row) bool { return r.Conflict == ledger.ConflictTwice },
		"charge cus_1QX 12,000.00":       func(r ledger.Row) bool { return r.LaneAt(now) == ledger.LaneDecide },
		"deploy web 4.18.2 → prod":       func(r ledger.Row) bool { return r.Overtaken && r.State == ledger.Uncertain },
		`post "v2.3 is out…"`:            func(r ledger.Row) bool { return r.LaneAt(now) == ledger.LaneDecide },
		"mail Welcome → ana@example.com": func(r ledger.Row) bool { return r.LaneAt(now) == ledger.LaneNotLanded },
		"charge cus_4Tz 2,900.00":        func(r ledger.Row) bool { return r.LaneAt(now) == ledger.LaneNotLanded },
		"payout 77.00 → acct_9Qe":        func(r ledger.Row) bool { return r.TabAt(now) == ledger.TabNeedsYou },
		"payout 90.00 → acct_9Qe":        func(r ledger.Row) bool { return r.TabAt(now) == ledger.TabInFlight },
	} {
		r, ok := find[title]
		if !ok || !holds(r) {
			t.Errorf("%s: found %v, lane %s, %+v", title, ok, r.LaneAt(now), r)
		}
	}
	landed, missed := 0, 0
	for _, r := range all(t, w) {
		if r.Kind != "stripe.charge" || !r.Doubted {
			continue
		}
		switch r.State {
		case ledger.Committed:
			landed++
		case ledger.Failed:
			missed++
		}
	}
	need.That(t, landed >= outageLanded && missed >= outageAbsent,
		"of the outage %d landed and %d did not, want %d and %d", landed, missed, outageLanded, outageAbsent)
}

// What the ledger believes and what really happened agree, except where the
// story has it otherwise.
func tellsTheTruth(t *testing.T, w *World) {
	effects := w.Downstream.Effects("")
	for _, r := range all(t, w) {
		if r.Kind == "legacy.charge" { // which takes no token
			continue
		}
		n := 0
		for _, e := range effects {
			if strings.Contains(string(e.Body), r.Token) {
				n++
			}
		}
		switch {
		case r.Conflict == ledger.ConflictTwice && n != 2,
			r.Conflict == "" && r.State == ledger.Committed && n != 1,
			r.State == ledger.Failed && n != 0:
			t.Errorf("%s is %s (%s) with %d effects", r.Title, r.State, r.Conflict, n)
		}
	}
}

// A closed world leaves what is in flight as a kill would.
func writesNothingMore(t *testing.T, w *World) {
	w.Go()
	need.OK(t, w.Close())
	store := need.Get(testLedger(t.Context(), w.LedgerPath, w.now, person("maya")))(t)
	defer store.Close()
	counts := need.Get(store.Counts(t.Context(), w.now()))(t)
	need.That(t, counts.InFlight >= 2, "%+v", counts)
}
