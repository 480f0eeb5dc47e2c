package console

import (
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/console/feed"
)

// foundSince is a night on which sam recorded row 2 as not landed, and a check found it.
func foundSince(t *testing.T, verdict ledger.Verdict, receipts ...string) *bench {
	t.Helper()
	b := nightBench(t, 80, 24)
	b.sam(2, ledger.VerbDeny, "their support says no")
	o := b.op(id(2))
	need.Get(ledger.Observe(t.Context(), b.store, ledger.Observation{ChangeID: "found", Version: o.Version, Settles: true,
		Actor: ledger.Actor{Name: "checks", Machine: true},
		Read:  ledger.Read{ID: "r-found", OperationID: o.ID, BeganAt: b.now, EndedAt: b.now, Verdict: verdict, Reason: "found", Found: len(receipts), Receipts: receipts}}))(t)
	b.wait(time.Second)
	return b.cursorOn(2)
}

// Where a check found one effect of what a person had denied, its receipt says how it is known.
func TestAWrongDecisionIsMendedWithoutAReason(t *testing.T) {
	b := foundSince(t, ledger.Landed, "pi_9")
	b.keys("D").shows("what is true", "pi_9", "taken back outside", "not here").keys("3", "tab", "tab", "enter")
	if o := b.op(id(2)); o.State != ledger.Committed || o.Conflict != ledger.NoConflict || o.Receipt() != "pi_9" || o.Actor != "maya" {
		t.Fatalf("%s, %q, %q by %s", o.State, o.Conflict, o.Receipts, o.Actor)
	}
}

// D asks what is true first, and then for what that needs and no more.
func TestDealingWithAConflictAsksWhatIsTrue(t *testing.T) {
	for name, c := range map[string]struct {
		verdict ledger.Verdict
		found   []string
		do      func(b *bench)
		state   ledger.State
	}{
		"taken back":           {ledger.Landed, []string{"pi_9"}, func(b *bench) { b.keys("1", "tab", "tab", "enter").shows("a reference") }, ledger.Failed},
		"with its reference":   {ledger.Landed, []string{"pi_9"}, func(b *bench) { b.keys("1").text("re_1").keys("tab", "tab", "enter") }, ledger.Abandoned},
		"both, which were one": {ledger.Landed, []string{"pi_9"}, func(b *bench) { b.keys("2").shows("what is true") }, ledger.Failed},
		"both wanted":          {ledger.Twice, []string{"pi_8", "pi_9"}, func(b *bench) { b.keys("2").text("two orders").keys("tab", "enter") }, ledger.Committed},
		"which of them":        {ledger.Twice, []string{"pi_8", "pi_9"}, func(b *bench) { b.keys("3", "tab", "tab", "enter").shows("which of them") }, ledger.Failed},
		"one of them":          {ledger.Twice, []string{"pi_8", "pi_9"}, func(b *bench) { b.keys("3").text("pi_9").keys("tab", "tab", "enter") }, ledger.Committed},
		"different":            {ledger.Different, []string{"pi_9"}, func(b *bench) { b.keys("y").shows("what is true") }, ledger.Failed},
		"not this one":         {ledger.Landed, []string{"pi_9"}, func(b *bench) { b.keys("4").text("that is another order's").keys("tab", "enter") }, ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			b := foundSince(t, c.verdict, c.found...)
			c.do(b.keys("D"))
			o := b.op(id(2))
			settled := o.Conflict == ledger.NoConflict
			need.Must(t, o.State == c.state && settled == (c.state != ledger.Failed || name == "not this one"),
				"%s, conflict %q", o.State, o.Conflict)
		})
	}
}

// Where another operation may have done the same, nothing is sent with others: it is
// left out by name, and the rest is sent.
func TestABulkRetryLeavesOutWhatAnotherMayHaveDone(t *testing.T) {
	b, e := sixProven(t)
	rec := need.Get(b.store.Read(t.Context(), ledger.Locator{ID: id(21)}))(t)
	rec.Related = []ledger.Relation{{ID: id(30), Title: "mail Welcome", State: ledger.Committed, CreatedAt: at("02:55:00"), MayHaveLanded: true, Overtook: true}}
	b.store.put(rec)
	b.send(feed.Changed{})
	b.keys("g", "v", "G", "v", "R").shows("Retry 5", "000000000021: overtaken").text("outage").keys("tab").text("5").keys("tab", "enter", "G")
	for _, q := range e.retried {
		need.That(t, q.ID != id(21), "sent beside another that landed: %+v", q)
	}
	need.That(t, len(e.retried) == 5, "%d were sent", len(e.retried))
}
