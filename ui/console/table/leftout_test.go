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
		"downstream:stripe": {" (downstream: open ones only, 3 archived not searched)", " (3 archived not searched)"},
		"cost>10":           {" (cost: open ones only, 3 archived not searched)", " (cost: open ones only, 3 archived not searched)"},
	} {
		f := need.Get(ledger.ParseFilter(text))(t)
		need.Equal(t, leftOut(SentTo(nil).by(f), 3), want[0])
		need.Equal(t, leftOut(SentTo(func() func(string) string { return sends }).by(f), 3), want[1])
	}
	need.Equal(t, leftOut(need.Get(ledger.ParseFilter("error:timeout"))(t), 0), "")
	l := New(need.Get(ledger.ParseFilter("downstream:stripe"))(t))
	l.SentTo = func() func(string) string { return sends }
	settled := ledger.Row{Kind: "pay", State: ledger.Committed}
	need.That(t, l.Wanted().Filter.Match(settled, settled.CreatedAt), "the list asks for settled operations of the downstream")
}
