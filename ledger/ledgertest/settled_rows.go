package ledgertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// sentTo is what a policy says of the kinds of a conformance test.
func sentTo(kind string) string {
	if strings.HasPrefix(kind, "card.") {
		return "stripe"
	}
	return ""
}

// settledRows finds operations by how their answer was lost, and by where their kind is
// sent, however they were settled.
func settledRows(t *testing.T, open Open) {
	d := newDesk(t, open)
	var all []string
	lost := func(key string) ledger.Operation {
		all = append(all, key)
		return d.doubt(key)
	}
	d.observe(lost("check: landed"), ledger.Landed, "pi_1")
	d.observe(lost("check: twice"), ledger.Twice, "pi_2", "pi_3")
	d.observe(lost("check: not there"), ledger.NotThere)
	d.decide(lost("confirmed"), ledger.VerbConfirm)
	d.decide(lost("denied"), ledger.VerbDeny)
	d.decide(lost("abandoned"), ledger.VerbAbandon)
	d.decide(d.decide(lost("undone"), ledger.VerbConfirm), ledger.VerbUndo)
	d.decide(d.observe(lost("dealt with"), ledger.Twice, "pi_4", "pi_5"), ledger.VerbAck, func(dec *ledger.Decision) {
		dec.Truth = ledger.BothWanted
	})
	for _, outcome := range []ledger.Outcome{ledger.OutcomeCommitted, ledger.OutcomeFailed} {
		a := d.begun("late: " + string(outcome)).Attempt
		all = append(all, "late: "+string(outcome))
		d.settle(a.ID, ledger.OutcomeUncertain)
		d.settle(a.ID, outcome)
	}
	d.settle(d.retry(d.observe(lost("sent again"), ledger.NotThere), ledger.BasisProof).Attempt.ID, ledger.OutcomeCommitted)
	d.retry(d.observe(lost("being sent again"), ledger.NotThere), ledger.BasisProof)
	d.settle(d.begun("answered").Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_6"))
	d.settle(d.begun("refused").Attempt.ID, ledger.OutcomeFailed)
	d.settle(d.begun("a mail", func(r *ledger.BeginRequest) { r.Kind = "mail.send" }).Attempt.ID, ledger.OutcomeCommitted)

	over := d.begun("after its deadline").Attempt
	d.begun("past its deadline")
	d.clock.Advance(2 * time.Minute)
	finds := func(text string, want ...string) {
		d.Helper()
		f, got := need.Get(ledger.ParseFilter(text))(d).By(sentTo), []string{}
		for _, r := range everything(d, d.s, ledger.Query{Tab: ledger.TabAll, Filter: f, Now: d.clock.Now()}, 50) {
			got = append(got, r.Key)
		}
		slices.Sort(got)
		slices.Sort(want)
		need.Must(d, slices.Equal(got, want), "filter %q:\ngot  %q\nwant %q", text, got, want)
	}
	finds("error:deadline", "after its deadline", "past its deadline", "being sent again")
	d.settle(over.ID, ledger.OutcomeCommitted)
	need.Get(d.s.Expire(ctx, 10))(d)
	finds("error:deadline", "after its deadline", "past its deadline", "being sent again")
	finds("error:timeout", slices.DeleteFunc(slices.Clone(all), func(key string) bool { return key == "being sent again" })...)
	finds("kind:mail.*", "a mail")
	finds("-downstream:stripe", "a mail")
	finds("downstream:s*e", append(all, "answered", "refused", "after its deadline", "past its deadline")...)
	finds("downstream:stripe state:committed -error:*e*", "answered")
}
