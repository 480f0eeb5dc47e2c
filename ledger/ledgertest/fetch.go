package ledgertest

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// fetches are what may be sent once more under its key, for the lost answer alone.
func fetches(t *testing.T, open Open) {
	withKey := func(r *ledger.BeginRequest) { r.KeyWorks = true }
	landed := func(d *desk) ledger.Operation { return d.observe(d.doubt("k", withKey), ledger.Landed, "ch_1") }
	for _, c := range []struct {
		name, refused string
		make          func(*desk) ledger.Operation
		mod           func(*desk, *ledger.FetchRequest)
	}{
		{name: "Found", make: landed},
		{name: "InDoubt", refused: "basis", make: func(d *desk) ledger.Operation { return d.doubt("k", withKey) }},
		{name: "OnAPersonsWord", refused: "basis", make: func(d *desk) ledger.Operation { return d.decide(d.doubt("k", withKey), ledger.VerbConfirm) }},
		{name: "Undone", refused: "basis", make: func(d *desk) ledger.Operation { return d.decide(landed(d), ledger.VerbUndo) }},
		{name: "WithoutAKey", refused: "basis", make: func(d *desk) ledger.Operation { return d.observe(d.doubt("k"), ledger.Landed, "ch_1") }},
		{name: "Forgotten", refused: "basis", make: landed, mod: func(d *desk, f *ledger.FetchRequest) { f.Until = d.clock.Now() }},
		{name: "InConflict", refused: "conflict", make: func(d *desk) ledger.Operation {
			o := landed(d)
			d.settle(d.read(o.ID).Attempts[0].ID, ledger.OutcomeFailed)
			return d.read(o.ID).Operation
		}},
		{name: "Held", refused: "hold", make: func(d *desk) ledger.Operation {
			o := landed(d)
			d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "all", Reason: "an outage", Actor: maya, ChangeID: d.id("change")}))
			return o
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, open)
			o := c.make(d)
			f := ledger.FetchRequest{AttemptID: d.read(o.ID).Attempts[0].ID, Until: d.clock.Now().Add(time.Hour), Deadline: time.Minute, Actor: billing}
			if c.mod != nil {
				c.mod(d, &f)
			}
			after, a, err := ledger.Fetch(ctx, d.s, f)
			var refused *ledger.RefusedError
			if errors.As(err, &refused); c.refused != "" {
				need.Must(d, refused != nil && refused.Code == c.refused, "%v, want it refused: %s", err, c.refused)
				return
			}
			d.ok(err)
			events := d.events(o.ID)
			if last := events[len(events)-1]; after.Version != o.Version+1 || !a.DeadlineAt.Equal(a.StartedAt.Add(time.Minute)) || last.Verb != "fetch" {
				d.Fatalf("version %d after %d, %s to %s, the last event is %s", after.Version, o.Version, a.StartedAt, a.DeadlineAt, last.Verb)
			}
			if _, _, err := ledger.Fetch(ctx, d.s, f); !errors.As(err, &refused) || refused.Code != "fetched" {
				d.Fatalf("a second time: %v", err)
			}
			d.want(d.settle(a.ID, ledger.OutcomeCommitted, withReceipt("ch_1")), ledger.Committed)
			if rec := d.read(o.ID); rec.Operation.Conflict != ledger.NoConflict || rec.Operation.Effects != 1 || rec.Attempts[0].LateOutcome != ledger.OutcomeCommitted {
				d.Fatalf("%+v", rec.Operation)
			}
		})
	}
}
