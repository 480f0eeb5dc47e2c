package outage

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	"github.com/charmbracelet/x/ansi"
)

// Whether something happened twice is never cut off, however long the account is.
func TestWhatHappenedTwiceIsWhole(t *testing.T) {
	at := time.Date(2026, 7, 14, 2, 22, 0, 0, time.UTC)
	o := &ticket.Outage{Now: at, Zone: time.UTC, OutageAccount: ledger.OutageAccount{CheckedAt: at, Minutes: []ledger.Minute{{At: at, N: 9}},
		Outage: ledger.Outage{ID: "i", Scope: "kind:pay", FirstAt: at, LastAt: at, Fates: map[ledger.Fate]ledger.Sum{}}}}
	for i, f := range ledger.Fates {
		o.Fates[f] = ledger.Sum{N: 131 + i, Resent: 2}
		for _, w := range []int{40, 60, 80, 120, 160} {
			shown := ansi.Strip(strings.Join(new(View).Lines(&draw.Frame{Theme: draw.NewTheme("none", false), Now: at, Zone: time.UTC}, &feed.Snapshot{}, o, "USD", w, 30), "\n"))
			need.Contains(t, shown, "nothing twice: checked 02:22")
		}
	}
}

// Each cell of the table of an outage is whole on every screen: where there is less room it
// says the same in fewer words.
func TestTheCellsOfAnOutageAreWhole(t *testing.T) {
	at := time.Date(2026, 7, 14, 2, 22, 0, 0, time.UTC)
	f := &draw.Frame{Theme: draw.NewTheme("none", false), Now: at, Zone: time.UTC}
	for _, money := range []float64{7, 12_345_678} {
		a := ledger.OutageAccount{Outage: ledger.Outage{ID: "i", Scope: "kind:pay"}, Elsewhere: []ledger.Landing{{Other: ledger.Relation{State: ledger.Committed, SettledAt: at, Title: "charge cus_9f2 420.00"}}}}
		for i, name := range ledger.Groups {
			g := ledger.OutageGroup{Group: name, Sum: ledger.Sum{N: 1 + 1999*(i%2), Miss: money, Unpriced: i % 2}}
			switch name {
			case ledger.GroupElsewhere:
				g.Sum.N = 1
			case ledger.GroupHeld, ledger.GroupRunning, ledger.GroupOverdue, ledger.GroupAllowed, ledger.GroupParked:
				g.By = "billing"
			}
			a.Groups = append(a.Groups, g)
		}
		o := &ticket.Outage{Now: at, Zone: time.UTC, OutageAccount: a}
		for _, w := range []int{40, 60, 72, 80, 100, 120, 160, 200} {
			shown := ansi.Strip(strings.Join(new(View).groups(f, lines(&feed.Snapshot{}, o), "USD", w), "\n"))
			rows := strings.Split(shown, "\n")[1:]
			need.Equal(t, len(rows), len(ledger.Groups), "rows")
			need.That(t, !strings.Contains(shown, "…"), "cut at %d cells:\n%s", w, shown)
			for i, g := range o.Groups() {
				whole := ticket.Width(rows[i]) == w && strings.HasSuffix(strings.TrimRight(rows[i], " "), g.Key)
				need.That(t, whole, "%d cells: %q", w, rows[i])
				if w >= 100 {
					need.Contains(t, rows[i], g.True.String())
					need.Contains(t, rows[i], g.Do.String())
				}
			}
		}
	}
}
