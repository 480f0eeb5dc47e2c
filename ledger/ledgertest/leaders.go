package ledgertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// leaders lead one scope each at a time.
func leaders(t *testing.T, open Open) {
	d := newDesk(t, open)
	want := func(leads string) {
		t.Helper()
		got := ""
		for _, l := range need.Get(d.s.Leaders(ctx))(d).All {
			if l.Leads(d.clock.Now()) {
				got += " " + l.Scope + "=" + l.Holder
			}
		}
		need.Equal(t, got, leads, "who leads")
	}
	atWork := func(ago time.Duration) {
		t.Helper()
		need.Equal(t, d.clock.Now().Sub(need.Get(d.s.Info(ctx))(d).EngineAt), ago, "since one was at work")
	}
	lead := func(holder string, rank int, scopes ...string) []ledger.Leader {
		t.Helper()
		return need.Get(d.s.Lead(ctx, holder, rank, scopes))(d).All
	}
	want("")
	need.That(t, need.Get(d.s.Info(ctx))(d).EngineAt.IsZero(), "one was at work before any came")
	began := d.clock.Now()
	all := lead("console", ledger.RankConsole, "pay", "mail")
	need.Must(t, len(all) == 2 && all[1] == ledger.Leader{Scope: "pay", Holder: "console", Rank: ledger.RankConsole, Since: began, Until: began.Add(ledger.LeadLasts)}, "%+v", all)

	// Its equal waits until it gives the lead up or does not come back; an engine does not.
	d.clock.Advance(ledger.LeadLasts / 2)
	lead("other", ledger.RankConsole, "pay", "mail", "ship")
	want(" mail=console pay=console ship=other")
	lead("console", ledger.RankConsole, "pay")
	lead("other", ledger.RankConsole, "pay", "mail", "ship")
	want(" mail=other pay=console ship=other")
	lead("engine", ledger.RankEngine, "pay")
	lead("console", ledger.RankConsole, "pay")
	want(" mail=other pay=engine ship=other")
	d.clock.Advance(ledger.LeadLasts - time.Millisecond)
	lead("console", ledger.RankConsole, "pay")
	want(" mail=other pay=engine ship=other")
	d.clock.Advance(time.Millisecond)
	want("")
	lead("console", ledger.RankConsole, "pay")
	want(" pay=console")
	lead("console", ledger.RankConsole)
	want("")
	atWork(0)
	d.clock.Advance(time.Hour)
	atWork(time.Hour)

	// One that was killed before the clock was set back does not lead until the clock gets there.
	lead("killed", ledger.RankEngine, "pay", "gone")
	d.clock.Advance(-2 * time.Hour)
	want("")
	lead("console", ledger.RankConsole, "pay")
	want(" pay=console")
	atWork(-ledger.LeadLasts)

	// However many come at once, one leads.
	var each sync.WaitGroup
	for i := range 12 {
		each.Go(func() {
			if _, err := d.s.Lead(ctx, fmt.Sprint(i), ledger.RankEngine, []string{"pay", "new"}); err != nil {
				t.Error(err)
			}
		})
	}
	each.Wait()
	all = need.Get(d.s.Leaders(ctx))(d).All
	holder := all[slices.IndexFunc(all, func(l ledger.Leader) bool { return l.Scope == "new" })].Holder
	want(" new=" + holder + " pay=" + holder)
	_, err := d.s.Lead(ctx, "", ledger.RankEngine, []string{"pay"})
	need.That(t, err != nil, "a leader without a name")
}
