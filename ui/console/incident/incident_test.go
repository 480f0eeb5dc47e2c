package incident

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
	o := &ticket.Outage{Now: at, Zone: time.UTC, IncidentAccount: ledger.IncidentAccount{CheckedAt: at, Minutes: []ledger.Minute{{At: at, N: 9}},
		Incident: ledger.Incident{ID: "i", Scope: "kind:pay", FirstAt: at, LastAt: at, Fates: map[ledger.Fate]ledger.Sum{}}}}
	for i, f := range ledger.Fates {
		o.Fates[f] = ledger.Sum{N: 131 + i, Resent: 2}
		for _, w := range []int{40, 60, 80, 120, 160} {
			shown := ansi.Strip(strings.Join(new(View).Lines(&draw.Frame{Theme: draw.NewTheme("none", false), Now: at, Zone: time.UTC}, &feed.Snapshot{}, o, "USD", w, 30), "\n"))
			need.Contains(t, shown, "nothing twice: checked 02:22")
		}
	}
}
