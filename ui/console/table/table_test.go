package table

import (
	"fmt"
	"slices"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	"pgregory.net/rapid"
)

// TestI7_NoRefreshMovesTheCursorToAnotherOperation lets rows come, go and change
// rank at random: whatever happens, a cursor that a person has placed stays on its
// operation.
func TestI7_NoRefreshMovesTheCursorToAnotherOperation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &Table{list: list{Placed: true}}
		l.Height = rapid.IntRange(1, 6).Draw(rt, "height")
		page := func() *feed.Page {
			var msg feed.Page
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 10, rapid.ID[int]).Draw(rt, "page") {
				msg.Rows = append(msg.Rows, feed.Row{ID: fmt.Sprint(n)})
			}
			msg.Left = map[string]feed.Row{}
			for _, i := range l.Items {
				if !slices.ContainsFunc(msg.Rows, func(s feed.Row) bool { return s.ID == i.ID }) {
					msg.Left[i.ID] = feed.Row{ID: i.ID, Gone: safe.Of(rapid.SampledFrom([]string{"", "landed"}).Draw(rt, "gone"))}
				}
			}
			return &msg
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			before := ""
			if c := l.Chosen(); c != nil {
				before = c.ID
			}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				l.refresh(page(), true)
			case 1:
				l.refresh(page(), false)
			case 2:
				l.Settle()
			case 3:
				l.MoveBy(rapid.IntRange(-3, 3).Draw(rt, "by"))
				before = ""
			}
			if c := l.Chosen(); before != "" && (c == nil || c.ID != before) {
				rt.Fatalf("the cursor left %s", before)
			}
			if l.At < l.Top || len(l.Items) > 0 && l.At >= l.Top+l.Height {
				rt.Fatalf("the cursor %d is off the screen %d+%d", l.At, l.Top, l.Height)
			}
			seen := map[string]bool{}
			for _, i := range l.Items {
				need.Must(rt, !seen[i.ID], "%s stands twice", i.ID)
				seen[i.ID] = true
			}
		}
	})
}

// What is read anew does not grow by itself: rows of outages and rows that have left are
// not of the page.
func TestTheWindowStaysAsItIs(t *testing.T) {
	l := &Table{list: list{Placed: true}}
	l.Height = 20
	for look := range 5 {
		limit := l.window()
		need.Must(t, limit == 200, "look %d reads %d rows", look, limit)
		p := feed.Page{Next: "more", Left: map[string]feed.Row{}}
		for i := range limit {
			p.Rows = append(p.Rows, feed.Row{ID: fmt.Sprint(look, " ", i)})
		}
		for i := range 12 {
			p.Rows = append(p.Rows, feed.NewOutageRow(&ticket.Outage{OutageAccount: ledger.OutageAccount{Outage: ledger.Outage{ID: fmt.Sprint(i)}}}))
		}
		for _, gone := range l.Items {
			p.Left[gone.ID] = feed.Row{ID: gone.ID, Gone: safe.Of("landed")}
		}
		l.refresh(&p, look%2 == 0)
	}
	l.Items, l.Next = l.Items[:30], ""
	need.Equal(t, l.window(), 200)
}

// The amount of an outage says in its cell that it leaves some out.
func TestTheAmountOfAnOutage(t *testing.T) {
	for _, c := range []struct {
		money           float64
		words, unpriced int
		want            string
	}{{0, 0, 0, "–"}, {62_160, 0, 0, "62.2k"}, {62_160, 1, 0, "62.2k+"}, {420, 0, 3, "420+"}, {0, 3, 0, "words"}, {0, 3, 1, "?"}} {
		need.Equal(t, amount(c.money, c.words, c.unpriced).String(), c.want)
	}
}

// What an outage costs fits its cells, whatever it is: none runs into the next.
func TestAmountsFitTheirCells(t *testing.T) {
	for _, s := range []ledger.Sum{{Miss: 99_999}, {Miss: 1e9, MissWords: 1}, {MissWords: 4000}, {Unpriced: 3}, {}} {
		if got := amount(s.Miss, s.MissWords, s.Unpriced).String(); len(got) > 6 {
			t.Errorf("%+v: %s", s, got)
		}
	}
}

// A screen that has no room for a row, as a small pane, survives a new order.
func TestAScreenWithoutRoomForARow(t *testing.T) {
	rows := []feed.Row{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	l := New(ledger.Filter{})
	l.list = list{Placed: true, Read: true, Items: slices.Clone(rows), At: 2, waiting: []feed.Row{rows[2], rows[0], rows[1]}}
	l.Settle()
	need.Equal(t, l.Chosen().ID, "c")
	need.Equal(t, len(l.Wanted().Known), 3)
}
