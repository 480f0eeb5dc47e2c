//go:build soak

package feed

import (
	"context"
	"os"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	ledgers "indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/policy"
	"indoubt/ui/ticket"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// What a console waits for takes as many round trips for a screenful as for a row: a
// ledger that is far away would count as lost before they were over.
func TestALookAtAFarLedgerIsFewRoundTrips(t *testing.T) {
	near := pgtest.URL(t)
	at := need.Get(ledgers.At(near))(t)
	s := need.Get(at.Make(t.Context(), ledgers.Options{}))(t)
	defer s.Close()
	ctx, actor := t.Context(), ledger.Actor{Name: "billing", Machine: true}
	var ids []string
	for range 40 {
		req := ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "charge", Key: ledger.NewID(), Input: []byte(`{"n":1}`),
			Sender: "pipeline", Deadline: time.Minute, Actor: actor}
		_ = need.Get(ledger.Begin(ctx, s, req))(t)
		_ = need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeUncertain, Status: -1, Actor: actor}))(t)
		ids = append(ids, req.OperationID)
	}
	relay, address := pgtest.Through(t, near)
	relay.Delay = 50 * time.Millisecond // reads that are made together are under way before the first answer
	far := need.Get(ledgers.Open(ctx, address+"&pool_max_conns=8", ledgers.Options{ReadOnly: true}))(t)
	defer far.Close()
	p := need.Get(policy.Parse("policy.yaml", []byte("version: 1\nkinds:\n  charge:\n    cost: { duplicate: medium, miss: medium }\n")))(t)
	judge := ticket.ByPolicy(func() *policy.Policy { return p })

	var seen Looked
	count := func(what string, most int, call func()) {
		t.Helper()
		call() // it is prepared
		// A machine that stands still makes more of them, and never fewer: what is asked
		// together leaves late, and what no one waits for comes in between.
		fewest := relay.Trips(call)
		for try := 1; try < 20 && fewest > most; try++ {
			time.Sleep(200 * time.Millisecond) // what no one waits for is over
			fewest = min(fewest, relay.Trips(call))
		}
		if fewest > most {
			t.Errorf("%s: %d round trips, want %d", what, fewest, most)
		}
	}
	w := Wanted{Tab: ledger.TabNeedsYou, Limit: 100, Visible: 40, zone: time.UTC,
		before: before{parallel: 8}} // as the look before it has found
	count("a list", 7, func() { seen = look(ctx, far, w, time.Now(), seen.place); need.OK(t, seen.err) })
	need.Equal(t, len(seen.Rows), len(ids))
	place := seen.place

	f := &Feed{Store: far, ctx: context.Background(), briefs: map[string]*Brief{},
		o: Options{Judge: judge, Clock: time.Now, Shown: screenful{seen.Rows}}}
	details := func() { f.tookBriefs(f.Details()().(briefsMsg)) }
	count("the details of the row under the cursor", 3, func() { clear(f.briefs); details() })
	need.That(t, len(f.briefs) == 1 && f.Brief().history, "the row under the cursor comes first")
	chosen := f.Brief()
	count("the details of the others", 3, func() { f.briefs = map[string]*Brief{chosen.ID(): chosen}; details() })
	need.Equal(t, len(f.briefs), len(ids))

	for _, id := range ids { // a run elsewhere
		o := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t).Operation
		_ = need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: o.Version, Verb: ledger.VerbConfirm, Reason: "asked", Actor: ledger.Actor{Name: "sam", Terminal: true}}))(t)
	}
	w.Known = ids
	count("a list that was left", 9, func() { seen = look(ctx, far, w, time.Now(), place); need.OK(t, seen.err) })
	need.Equal(t, len(seen.Left), len(ids))
	place = seen.place
	for range 2 * manyEvents {
		_ = need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: ids[0], Verb: ledger.VerbNote, Reason: "r", Actor: ledger.Actor{Name: "sam"}}))(t)
	}
	count("a list beside many changes", 9, func() { seen = look(ctx, far, w, time.Now(), place); need.OK(t, seen.err) })
	need.That(t, seen.cut && seen.moved[ids[0]] && !seen.moved[ids[1]], "what was noted is found beside the others: %t %t", seen.moved[ids[0]], seen.moved[ids[1]])
}
