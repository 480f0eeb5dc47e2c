package ledgertest

import (
	"errors"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// saying is what is true of a conflict.
func saying(t ledger.Truth) func(*ledger.Decision) {
	return func(d *ledger.Decision) {
		if d.Truth = t; t == ledger.TakenBack {
			d.Reference = "re_1"
		}
	}
}

func dealtWith(d *desk) {
	for _, from := range []struct {
		name string
		make func(key string) ledger.Operation
		to   map[ledger.Truth]ledger.State
	}{
		{"denied", func(key string) ledger.Operation {
			return d.observe(d.decide(d.doubt(key), ledger.VerbDeny), ledger.Landed, "pi_1")
		}, map[ledger.Truth]ledger.State{ledger.TakenBack: ledger.Abandoned, ledger.LandedOnce: ledger.Committed, ledger.NotLanded: ledger.Failed}},
		{"abandoned", func(key string) ledger.Operation {
			return d.observe(d.decide(d.doubt(key), ledger.VerbAbandon), ledger.Landed, "pi_1")
		}, map[ledger.Truth]ledger.State{ledger.TakenBack: ledger.Abandoned, ledger.LandedOnce: ledger.Committed, ledger.NotLanded: ledger.Failed}},
		{"confirmed", func(key string) ledger.Operation {
			return d.observe(d.decide(d.doubt(key), ledger.VerbConfirm), ledger.NotThere)
		}, map[ledger.Truth]ledger.State{ledger.TakenBack: ledger.Abandoned, ledger.LandedOnce: ledger.Committed, ledger.NotLanded: ledger.Failed}},
		{"answered", func(key string) ledger.Operation {
			first := d.begun(key).Attempt
			second := d.retry(d.settle(first.ID, ledger.OutcomeUncertain), ledger.BasisRiskAccepted).Attempt
			return d.settle(second.ID, ledger.OutcomeCommitted, withReceipt("pi_1"))
		}, map[ledger.Truth]ledger.State{ledger.TakenBack: ledger.Committed, ledger.BothWanted: ledger.Committed, ledger.LandedOnce: ledger.Committed}},
		{"different", func(key string) ledger.Operation { return d.observe(d.doubt(key), ledger.Different, "pi_1") },
			map[ledger.Truth]ledger.State{ledger.TakenBack: ledger.Abandoned, ledger.LandedOnce: ledger.Committed, ledger.NotLanded: ledger.Failed}},
	} {
		for _, truth := range ledger.Truths {
			o := from.make(from.name + " " + string(truth))
			need.Must(d, o.Conflict != ledger.NoConflict, "%s: no conflict", from.name)
			dec := d.decision(o, ledger.VerbAck)
			saying(truth)(&dec)
			applied, err := ledger.Decide(ctx, d.s, dec)
			to, allowed := from.to[truth]
			if !allowed {
				need.Must(d, errors.Is(err, ledger.ErrRefused) && d.read(o.ID).Operation.Version == o.Version,
					"%s, %s: %v", from.name, truth, err)
				continue
			}
			d.ok(err)
			d.want(applied.After, to)
			now := d.read(o.ID).Operation
			need.Must(d, now.State == to && now.Conflict == ledger.NoConflict && now.PersonOnly && now.Actor == maya.Name,
				"%s, %s: %s, %q, by %s", from.name, truth, now.State, now.Conflict, now.Actor)
			evs := d.events(o.ID)
			if last := evs[len(evs)-1]; last.Verb != "ack" || last.From != o.State || last.To != to || !strings.Contains(string(last.Detail), string(truth)) {
				d.Fatalf("%s, %s: the history says %s %s→%s %s", from.name, truth, last.Verb, last.From, last.To, last.Detail)
			}
		}
	}
	if counts, err := d.s.DoubtCounts(ctx); err != nil || slices.ContainsFunc(counts, func(c ledger.DoubtCount) bool { return c.Missed > 0 }) {
		d.Fatalf("a person's word counts as evidence: %+v %v", counts, err)
	}
}

func undoneClaim(d *desk) {
	o := d.decide(d.doubt("k"), ledger.VerbConfirm, func(dec *ledger.Decision) { dec.Receipts = []string{"pi_1", "via dashboard"} })
	if claimed := d.read(o.ID).Operation.ClaimedReceipts; o.Conflict != ledger.ConflictTwice || len(claimed) != 2 {
		d.Fatalf("conflict %q, claimed %q", o.Conflict, claimed)
	}
	o = d.decide(o, ledger.VerbUndo)
	if now := d.read(o.ID).Operation; now.Conflict != ledger.NoConflict || now.Effects != 0 || len(now.Receipts)+len(now.ClaimedReceipts) != 0 {
		d.Fatalf("after the undo: conflict %q, %d effects, %q", now.Conflict, now.Effects, now.Receipts)
	}
}
