package table

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A filter says beside itself what it does not answer for, by the policy in force now.
func TestAFilterSaysWhatItLeavesOut(t *testing.T) {
	sends := func(string) string { return "stripe" }
	for text, want := range map[string][2]string{ // without a policy, and with one
		"downstream:stripe": {" (downstream: open ones only)", ""},
		"cost>10":           {" (cost: open ones only)", " (cost: open ones only)"},
	} {
		f := need.Get(ledger.ParseFilter(text))(t)
		need.Equal(t, leftOut(f), want[0])
		need.Equal(t, leftOut(f.By(sends)), want[1])
	}
	need.Equal(t, leftOut(need.Get(ledger.ParseFilter("error:timeout"))(t)), "")
	l := New(need.Get(ledger.ParseFilter("downstream:stripe"))(t))
	l.SentTo = func() func(string) string { return sends }
	settled := ledger.Row{Operation: ledger.Operation{Kind: "pay", State: ledger.Committed}}
	need.That(t, l.Wanted().Filter.Match(settled, settled.CreatedAt), "the list asks for settled operations of the downstream")
}
