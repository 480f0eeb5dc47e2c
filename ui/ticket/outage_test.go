package ticket

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// The account of an outage adds up on the page, whatever became of its operations, and
// each row of its groups leads to them.
func TestOutage(t *testing.T) {
	first := time.Date(2026, 7, 14, 2, 13, 10, 0, time.UTC)
	sum := func(n int, miss float64) ledger.Sum { return ledger.Sum{N: n, Miss: miss} }
	o := Outage{Now: first.Add(53 * time.Minute), Zone: time.UTC, IncidentAccount: ledger.IncidentAccount{
		Incident: ledger.Incident{ID: "i1", Scope: "downstream:stripe", Pipelines: []string{"billing"}, Kinds: []string{"stripe.charge"}, Classes: []string{"timeout"},
			Gap: 10 * time.Minute, FirstAt: first, LastAt: first.Add(6 * time.Minute), AnsweredAt: first.Add(8 * time.Minute),
			Fates: map[ledger.Fate]ledger.Sum{ledger.FateLanded: sum(131, 9e4), ledger.FateNotLanded: sum(70, 29_000), ledger.FateOpen: {N: 6, Miss: 2_520, Resent: 2}, ledger.FateRefused: sum(7, 0)}},
		Minutes: []ledger.Minute{{At: first.Truncate(time.Minute), N: 20}, {At: first.Truncate(time.Minute).Add(time.Minute), N: 80}, {At: first.Truncate(time.Minute).Add(6 * time.Minute), N: 1}},
		Groups: []ledger.IncidentGroup{
			{Kind: "stripe.charge", Fate: ledger.FateOpen, Lane: ledger.LaneReading, Sum: sum(5, 2_100)},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Lane: ledger.LaneNotLanded, Sum: sum(60, 28_000)},
			{Kind: "stripe.refund", Fate: ledger.FateNotLanded, Lane: ledger.LaneNotLanded, Sum: sum(8, 560)},
			{Kind: "stripe.charge", Fate: ledger.FateOpen, Lane: ledger.LaneConflict, Conflict: ledger.Duplicate, Sum: ledger.Sum{N: 1, Miss: 420, Resent: 1, Doubled: 1}},
		}}}
	want := `68 did not land 28,560 send again R incident:i1 lane:not_landed
5 cannot tell yet 2,100 wait, checks go on ↵ incident:i1 lane:reading
131 landed – nothing ↵ incident:i1 state:committed lane:resolved
2 never sent – nothing, its pipeline knows ↵ incident:i1 state:failed lane:resolved
7 refused by the other side – nothing, its pipeline knows ↵ incident:i1 state:failed lane:resolved`
	var lines []string
	n := 0
	for _, g := range o.Groups() {
		lines = append(lines, strings.Join([]string{Grouped(float64(g.Sum.N), 0), g.True.String(), g.Money().String(), g.Do.String(), g.Key, g.Filter}, " "))
		if _, err := ledger.ParseFilter(g.Filter); err != nil {
			t.Error(err)
		}
		n += g.Sum.N
	}
	if got := strings.Join(lines[1:], "\n"); got != want || !strings.HasPrefix(lines[0], "1 happened twice") {
		t.Errorf("%s\nwant\n%s", strings.Join(lines, "\n"), want)
	}
	if n != o.IncidentAccount.Errors() {
		t.Errorf("the groups have %d, the account %d", n, o.IncidentAccount.Errors())
	}
	from, curve, to := o.Curve(7)
	twice, _ := o.Twice()
	for got, want := range map[string]string{
		o.Title().String():   "stripe · timeout · billing · 02:13–02:19 · over",
		o.Account().String(): "214 = 131 landed + 70 did not land + 6 to look at + 7 refused",
		o.Count().String():   "214 errors in 6 min",
		o.Reason().String():  "stripe timeout 02:13–02:19",
		o.Taken().String():   "nobody is on it",
		twice.String():       "none happened twice: checked",

		from + " " + curve.String() + " " + to: "02:13 ▃█▁▁▁▁▂ 02:20",
	} {
		need.Equal(t, got, want)
	}
	need.Contains(t, o.Markdown(), "| 68 | did not land | 28,560 | send again |", "`indoubt list incident:i1`")
}
