package ledgertest

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"

	"github.com/google/go-cmp/cmp"
)

// doubtCounts counts the ends of doubts, and only those that evidence made.
func doubtCounts(t *testing.T, open Open) {
	d := newDesk(t, open)
	class := func(c ledger.ErrorClass) func(*ledger.SettleRequest) {
		return func(s *ledger.SettleRequest) { s.ErrorClass = c }
	}
	mail := func(r *ledger.BeginRequest) { r.Kind = "mail.send" }
	d.observe(d.doubt("landed"), ledger.Landed, "pi_1")
	d.observe(d.doubt("twice"), ledger.Twice, "pi_1", "pi_2")
	d.observe(d.doubt("not there"), ledger.NotThere)
	d.observe(d.doubt("mail", mail), ledger.NotThere)
	for _, outcome := range []ledger.Outcome{ledger.OutcomeCommitted, ledger.OutcomeFailed} { // late answers
		a := d.begun("late " + string(outcome)).Attempt
		d.settle(a.ID, ledger.OutcomeUncertain, class(ledger.ClassReset))
		d.settle(a.ID, outcome)
	}
	overdue := d.begun("overdue").Attempt // the deadline is not written down before its answer comes
	d.clock.Advance(2 * time.Minute)
	d.settle(overdue.ID, ledger.OutcomeCommitted)
	expired := d.begun("expired").Attempt
	d.clock.Advance(2 * time.Minute)
	need.Get(d.s.Expire(ctx, 10))(d)
	d.settle(expired.ID, ledger.OutcomeFailed)
	// What follows counts for nothing: answers in time, persons, what stays in doubt,
	// and a settled one that is looked at again.
	d.settle(d.begun("fine").Attempt.ID, ledger.OutcomeCommitted)
	d.settle(d.begun("refused").Attempt.ID, ledger.OutcomeFailed)
	for _, v := range []ledger.Verb{ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon} {
		o := d.decide(d.doubt(string(v)), v)
		d.observe(o, ledger.Landed, "pi_1")
		d.decide(d.read(o.ID).Operation, ledger.VerbUndo)
	}
	d.observe(d.doubt("unclear"), ledger.CannotTell)
	d.observe(d.doubt("different"), ledger.Different, "pi_1")
	d.settle(d.retry(d.doubt("again"), ledger.BasisKeySafe).Attempt.ID, ledger.OutcomeCommitted)
	got := need.Get(d.s.DoubtCounts(ctx))(d)
	want := []ledger.DoubtCount{
		{Kind: "card.charge", Class: ledger.ClassDeadline, Landed: 1, Missed: 1},
		{Kind: "card.charge", Class: ledger.ClassReset, Landed: 1, Missed: 1},
		{Kind: "card.charge", Class: ledger.ClassTimeout, Landed: 2, Missed: 1},
		{Kind: "mail.send", Class: ledger.ClassTimeout, Missed: 1},
	}
	if diff := cmp.Diff(want, sortDoubtCounts(got)); diff != "" {
		d.Fatalf("doubtCounts (-want +got):\n%s", diff)
	}
}

// stateCounts counts by kind and state, and tells the oldest doubt.
func stateCounts(t *testing.T, open Open) {
	d := newDesk(t, open)
	mail := func(r *ledger.BeginRequest) { r.Kind = "mail.send" }
	check := func(want ...ledger.StateCount) {
		d.Helper()
		got := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
		if diff := cmp.Diff(want, sortStateCounts(got), seeing...); diff != "" {
			d.Fatalf("stateCounts (-want +got):\n%s", diff)
		}
	}
	check()
	at := func(seconds int) time.Time { return Noon.Add(time.Duration(seconds) * time.Second) }
	first := d.begun("a") // 0
	d.begun("b")          // 1
	check(ledger.StateCount{Kind: "card.charge", State: ledger.Pending, Count: 2, Oldest: at(0)})
	d.settle(first.Attempt.ID, ledger.OutcomeCommitted) // 2
	doubt := d.doubt("c")                               // 3, 4
	d.doubt("d")                                        // 5, 6
	d.doubt("m", mail)                                  // 7, 8
	d.decide(d.doubt("x"), ledger.VerbAbandon)          // 9, 10, 11
	check(ledger.StateCount{Kind: "card.charge", State: ledger.Abandoned, Count: 1}, ledger.StateCount{Kind: "card.charge", State: ledger.Committed, Count: 1},
		ledger.StateCount{Kind: "card.charge", State: ledger.Pending, Count: 1, Oldest: at(1)},
		ledger.StateCount{Kind: "card.charge", State: ledger.Uncertain, Count: 2, Oldest: at(4)},
		ledger.StateCount{Kind: "mail.send", State: ledger.Uncertain, Count: 1, Oldest: at(8)})
	d.retry(doubt, ledger.BasisKeySafe) // 12: a second attempt is as old as itself
	d.clock.Advance(50 * time.Second)   // b's deadline passes at 61
	check(ledger.StateCount{Kind: "card.charge", State: ledger.Abandoned, Count: 1}, ledger.StateCount{Kind: "card.charge", State: ledger.Committed, Count: 1},
		ledger.StateCount{Kind: "card.charge", State: ledger.Pending, Count: 1, Oldest: at(12)},
		ledger.StateCount{Kind: "card.charge", State: ledger.Uncertain, Count: 2, Oldest: at(6)},
		ledger.StateCount{Kind: "mail.send", State: ledger.Uncertain, Count: 1, Oldest: at(8)})
	need.Get(d.s.Expire(ctx, 10))(d) // which changes nothing of it
	d.settle(d.begun("f", mail).Attempt.ID, ledger.OutcomeFailed)
	check(ledger.StateCount{Kind: "card.charge", State: ledger.Abandoned, Count: 1}, ledger.StateCount{Kind: "card.charge", State: ledger.Committed, Count: 1},
		ledger.StateCount{Kind: "card.charge", State: ledger.Pending, Count: 1, Oldest: at(12)},
		ledger.StateCount{Kind: "card.charge", State: ledger.Uncertain, Count: 2, Oldest: at(6)},
		ledger.StateCount{Kind: "mail.send", State: ledger.Failed, Count: 1},
		ledger.StateCount{Kind: "mail.send", State: ledger.Uncertain, Count: 1, Oldest: at(8)})
}

// The order of these is no part of what they say.
