package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
)

// takenOver holds what is recorded after another program sent it: it is as old as that
// program says, by its own clock, and no error of now.
func takenOver(t *testing.T, open Open) {
	d := newDesk(t, open)
	now := d.doubt("now", onTarget)
	sent := now.CreatedAt.Add(-48 * time.Hour)
	var first ledger.Operation
	for i := range 5 {
		o := d.settle(d.begun(fmt.Sprint("old ", i), onTarget, func(r *ledger.BeginRequest) {
			r.SentAt, r.Sender = sent.Add(time.Duration(i)*time.Second), ledger.SenderImport
		}).Attempt.ID,
			ledger.OutcomeUncertain)
		if d.want(o, ledger.Uncertain); i == 0 {
			first = o
		}
		d.ok(d.s.Price(ctx, []ledger.Pricing{{OperationID: o.ID, Digest: "p1"}}))
	}
	d.wantAccounts()
	rec := d.read(first.ID)
	a := rec.Attempts[0]
	if o := rec.Operation; !o.StartedAt.Equal(sent) || !a.StartedAt.Equal(sent) || !a.EndedAt.After(now.CreatedAt) || !o.CreatedAt.After(now.CreatedAt) {
		d.Fatalf("recorded %s, sent %s (%s), ended %s; want it sent %s and ended now", o.CreatedAt, o.StartedAt, a.StartedAt, a.EndedAt, sent)
	}
	overtook := func(id string) (n int) {
		for _, rel := range d.read(id).Related {
			if rel.Overtook {
				n++
			}
		}
		return n
	}
	if of, over := overtook(first.ID), overtook(now.ID); of != 5 || over != 0 || d.read(now.ID).Row().Overtaken {
		d.Fatalf("%d overtook what was sent first, and %d what was sent last; want 5 and none", of, over)
	}
	if o := d.doubt("to come", func(r *ledger.BeginRequest) { r.SentAt = d.clock.Now().Add(time.Hour) }); o.StartedAt.After(o.CreatedAt) {
		d.Fatalf("sent %s, after it was recorded at %s", o.StartedAt, o.CreatedAt)
	}
}
