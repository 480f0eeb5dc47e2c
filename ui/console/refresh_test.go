package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// TestI7_NoRefreshMovesTheCursorToAnotherOperation lets rows come, go and change
// rank at random: whatever happens, a cursor that somebody has placed stays on its
// operation.
func TestI7_NoRefreshMovesTheCursorToAnotherOperation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := list{placed: true}
		l.height = rapid.IntRange(1, 6).Draw(rt, "height")
		page := func() loadedMsg {
			var msg loadedMsg
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 10, rapid.ID[int]).Draw(rt, "page") {
				msg.rows = append(msg.rows, shown{id: id(n)})
			}
			msg.left = map[string]shown{}
			for _, i := range l.items {
				if !slices.ContainsFunc(msg.rows, func(s shown) bool { return s.id == i.id }) {
					msg.left[i.id] = shown{id: i.id, gone: rapid.SampledFrom([]string{"", "landed"}).Draw(rt, "gone")}
				}
			}
			return msg
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			before := ""
			if c := l.chosen(); c != nil {
				before = c.id
			}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				l.refresh(page(), true)
			case 1:
				l.refresh(page(), false)
			case 2:
				l.settle()
			case 3:
				l.moveBy(rapid.IntRange(-3, 3).Draw(rt, "by"))
				before = ""
			}
			if c := l.chosen(); before != "" && (c == nil || c.id != before) {
				rt.Fatalf("the cursor left %s", before)
			}
			if l.at < l.top || len(l.items) > 0 && l.at >= l.top+l.height {
				rt.Fatalf("the cursor %d is off the screen %d+%d", l.at, l.top, l.height)
			}
			seen := map[string]bool{}
			for _, i := range l.items {
				if seen[i.id] {
					rt.Fatalf("%s stands twice", i.id)
				}
				seen[i.id] = true
			}
		}
	})
}

func TestWhatNoEngineHasPricedCostsNotNothing(t *testing.T) {
	s := newMemory(night)
	rec := doubt(7, "x.post", "", "news", "02:50:00", "02:50:30", ledger.ClassTimeout, 0, amount(0), amount(0))
	rec.Pricing = ledger.Pricing{OperationID: rec.Operation.ID}
	s.put(rec)
	o := nightOptions()
	o.Store = s
	b := newBench(t, 100, 24, o).judged(func(r ledger.Record, now time.Time) ticket.Facts {
		f := nightFacts(r, now)
		f.Price = ledger.Pricing{Digest: "p", Title: "post the news", Duplicate: amount(812), Miss: amount(97)}
		return f
	})
	line := func() string {
		return ansi.Strip(b.m.row(&b.m.list.items[0], 100, columnsFor(100), false, false))
	}
	b.m.briefs = map[string]*brief{}
	if got := line(); strings.Contains(got, " 0") || strings.Count(got, "…") < 4 {
		t.Errorf("before its details are read: %q", got)
	}
	b.send(changedMsg{})
	if got := line(); !strings.Contains(got, "post the news") || !strings.Contains(got, "812") || !strings.Contains(got, "97") {
		t.Errorf("with its details: %q", got)
	}
	// Details of what it has become since are not this row's.
	b.m.briefs[id(7)].raw.Operation.Version++
	if got := line(); strings.Contains(got, "812") {
		t.Errorf("with another version's details: %q", got)
	}
}
