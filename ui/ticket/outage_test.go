package ticket

import (
	"fmt"
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
	o := Outage{Now: first.Add(53 * time.Minute), Zone: time.UTC, OutageAccount: ledger.OutageAccount{
		Outage: ledger.Outage{ID: "i1", Scope: "downstream:stripe", Pipelines: []string{"billing"}, Kinds: []string{"stripe.charge"}, Classes: []string{"timeout"},
			Gap: 10 * time.Minute, FirstAt: first, LastAt: first.Add(6 * time.Minute), AnsweredAt: first.Add(8 * time.Minute),
			Fates: map[ledger.Fate]ledger.Sum{ledger.FateLanded: sum(131, 9e4), ledger.FateNotLanded: {N: 70, Miss: 29_450, MissWords: 2}, ledger.FateOpen: {N: 6, Miss: 2_520, Resent: 2}, ledger.FateRefused: sum(7, 0)}},
		Minutes: []ledger.Minute{{At: first.Truncate(time.Minute), N: 20}, {At: first.Truncate(time.Minute).Add(time.Minute), N: 80}, {At: first.Truncate(time.Minute).Add(6 * time.Minute), N: 1}},
		Already: 1, CheckedAt: first.Add(9 * time.Minute),
		Groups: []ledger.OutageGroup{
			{Kind: "stripe.charge", Fate: ledger.FateOpen, Group: ledger.GroupReading, Sum: ledger.Sum{N: 4, Miss: 2_100, MissWords: 1, Unpriced: 2}},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Group: ledger.GroupProven, Sum: sum(50, 28_000)},
			{Kind: "stripe.refund", Fate: ledger.FateNotLanded, Group: ledger.GroupProven, Sum: sum(8, 560)},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Group: ledger.GroupSaid, Sum: ledger.Sum{N: 2, Miss: 80, MissWords: 1}},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Group: ledger.GroupElsewhere, Sum: sum(1, 420)},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Group: ledger.GroupHeld, By: "sam", Sum: ledger.Sum{N: 1, MissWords: 1}},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Group: ledger.GroupParked, By: "sam", Sum: sum(3, 120)},
			{Kind: "stripe.charge", Fate: ledger.FateNotLanded, Group: ledger.GroupParked, By: "vera", Sum: sum(3, 120)},
			{Kind: "stripe.charge", Fate: ledger.FateOpen, Group: ledger.GroupAllowed, By: "billing", Sum: ledger.Sum{N: 1, Unpriced: 1}},
			{Kind: "stripe.charge", Fate: ledger.FateOpen, Group: ledger.Group(ledger.ConflictMaybeTwice), Sum: ledger.Sum{N: 1, Miss: 420, Resent: 1}},
			{Fate: ledger.FateLanded, Group: ledger.GroupLanded, Sum: sum(131, 0)}, {Fate: ledger.FateNotLanded, Group: ledger.GroupNeverSent, Sum: sum(2, 0)}, {Fate: ledger.FateRefused, Group: ledger.GroupRefused, Sum: sum(7, 0)},
		},
		Elsewhere: []ledger.Landing{{Operation: "o9", Title: "charge INV-1187", Other: ledger.Relation{ID: "o10", Title: "charge INV-1187", State: ledger.Committed, Source: ledger.Source{Pipeline: "web"}, SettledAt: first.Add(45 * time.Minute)}}}}}
	large := Outage{Now: first, Zone: time.UTC, OutageAccount: ledger.OutageAccount{Outage: ledger.Outage{Scope: "kind:pay", FirstAt: first, LastAt: first, Fates: map[ledger.Fate]ledger.Sum{ledger.FateLanded: sum(1_234, 0), ledger.FateOpen: {N: 5_000, Resent: 1_100, Unchecked: 1_000}}}}}
	more, _ := large.Twice()
	need.Equal(t, large.Account().String()+"; "+large.Count().String()+"; "+more.String(), "6,234 = 1,234 landed + 5,000 to look at; 6,234 errors; 1,000 of 1,100 sent again not checked")
	need.Equal(t, large.Reason().String(), "pay 02:13", "without a class of errors")
	want := `58 did not land 28,560 send again: safe R outage:i1 group:proven
2 said not to have landed 80 +1 look, no proof ↵ outage:i1 group:said
1 done by charge INV-1187, 02:58 420 do NOT send: A ends it ↵ outage:i1 group:elsewhere
1 did not land, held by sam 1 by word wait for the hold ↵ outage:i1 group:held
4 cannot tell yet 2,100 +3 wait, checks go on ↵ outage:i1 group:reading
1 one send allowed, waits for billing not priced nothing, pipeline sends ↵ outage:i1 group:unfetched
6 parked by sam, vera 240 nothing for now ↵ outage:i1 group:parked
131 landed – nothing ↵ outage:i1 group:landed
2 never sent – nothing, pipeline knows ↵ outage:i1 group:never_sent
7 refused by the other side – nothing, pipeline knows ↵ outage:i1 group:refused`
	var lines []string
	n := 0
	for _, g := range o.Groups() {
		lines = append(lines, strings.Join([]string{Grouped(float64(g.Sum.N), 0), g.True.String(), g.Money().String(), g.Do.String(), g.Key, g.Filter}, " "))
		if _, err := ledger.ParseFilter(g.Filter); err != nil {
			t.Error(err)
		}
		n += g.Sum.N
	}
	if got := strings.Join(lines[1:], "\n"); got != want || !strings.HasPrefix(lines[0], "1 may have happened twice") {
		t.Errorf("%s\nwant\n%s", strings.Join(lines, "\n"), want)
	}
	if n != o.OutageAccount.Errors() {
		t.Errorf("the groups have %d, the account %d", n, o.OutageAccount.Errors())
	}
	from, curve, to := o.Curve(7)
	twice, _ := o.Twice()
	for got, want := range map[string]string{
		o.Title().String():     "stripe · timeout · billing · 02:13–02:19 · over",
		o.Account().String():   "214 = 131 landed + 70 did not land + 6 to look at + 7 refused",
		fmt.Sprint(o.Landed()): "[58 no, 5 ? 58 no]",
		o.ToDo().String():      "70 did not land, 6 to look at, of 214",
		o.Count().String():     "214 errors in 6 min",
		o.Reason().String():    "stripe timeout 02:13–02:19",
		o.Taken().String():     "nobody is on it",
		twice.String():         "nothing twice: checked 02:22",
		o.Also().String():      "2 sent again, 1 of them there already · not in the amounts: 3 priced in words, 3 not priced",

		from + " " + curve.String() + " " + to: "02:13 ▃█▁▁▁▁▂ 02:20",
	} {
		need.Equal(t, got, want)
	}
	if needs := o.Needs().N; needs != 63 || o.In(ledger.TabParked).N != 6 || o.In(ledger.TabChecking).N != 4 || o.In(ledger.TabInFlight).N != 1 {
		t.Errorf("%d need a person, want 63", needs)
	}
	need.Contains(t, o.Markdown(), "\ncharge INV-1187: another landed 02:58, web.\n", "| 58 | did not land | 28,560 | send again: safe |", "\nNot in the amounts: 3 priced in words, 3 not priced.\n", "`indoubt list outage:i1`")
}

// The history of an outage says in the reader's zone, too, until when.
func TestTheHistoryHasOneZone(t *testing.T) {
	zone, at := time.FixedZone("CEST", 2*3600), time.Date(2026, 7, 14, 1, 0, 0, 0, time.UTC)
	in := ledger.Outage{ID: "i1", Scope: "kind:pay", FirstAt: at, LastAt: at}
	_, taken, err := ledger.OutageChange{ID: "i1", Verb: ledger.OutageTaken, Actor: ledger.Actor{Name: "vera"}, Until: at.Add(time.Hour)}.Apply(in, at)
	need.OK(t, err)
	events := []ledger.Event{taken}
	moment := func(t time.Time) string { return Moment(t, at, zone) }
	need.Equal(t, Why(taken, moment), "on it until 04:00:00")
	in.Scope = "downstream:a\nb\x1b[2J`c"
	page := Outage{Now: at, Zone: zone, OutageAccount: ledger.OutageAccount{Outage: in}}.Markdown()
	need.Contains(t, page, `# a\nb\x1b\[2J`) // written out once
	need.Contains(t, Outage{Now: at, Zone: zone, OutageAccount: ledger.OutageAccount{Outage: in, Events: events}}.Markdown(), "on it until 2026-07-14 04:00:00 CEST")
	acts, _ := Told(events)
	need.Contains(t, Report{Now: at, Zone: zone, Acts: acts, Again: []string{"", ""}}.Markdown(), "on it until 04:00:00")
}

// What a bulk run has yet to come to is not unknown: its turn comes.
func TestOutageWhileARunGoesOn(t *testing.T) {
	of := func(running, look int) string {
		group := func(name ledger.Group, n int) ledger.OutageGroup {
			return ledger.OutageGroup{Fate: ledger.FateNotLanded, Group: name, Sum: ledger.Sum{N: n}}
		}
		o := Outage{Now: at, Zone: time.UTC, OutageAccount: ledger.OutageAccount{Groups: []ledger.OutageGroup{group(ledger.GroupRunning, running), group(ledger.GroupDecide, look)}}}
		return fmt.Sprint(o.Landed())
	}
	need.Equal(t, of(65, 6), "[65 …, 6 ? 65 …]")
	need.Equal(t, of(65, 0), "[65 …]")
}
