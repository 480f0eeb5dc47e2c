package console

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// The rows that a list has above and below the screen are counted, at every size: of the whole
// list, of an outage's rows, and of a dialog with a list.
func TestRowsOutOfSightAreCounted(t *testing.T) {
	for _, size := range [][2]int{{40, 12}, {80, 24}, {120, 40}, {160, 48}, {200, 60}} {
		b := outageBench(t, size[0], size[1], "downstream:stripe").keys("enter")
		for n, last := len(b.m.table.Items), -1; ; b.keys("j") {
			above, below := b.m.table.Top, n-b.m.table.Top-len(b.m.table.Visible())
			if above > 0 {
				b.shows(fmt.Sprintf("↑%d", above))
			}
			if below > 0 {
				b.shows(fmt.Sprintf("%d more below ↓", below))
			} else {
				b.hides("below ↓")
			}
			if b.m.table.At == last {
				break
			}
			last = b.m.table.At
		}
	}
	for _, size := range [][2]int{{40, 12}, {80, 18}} {
		b := outageRun(t, outageBench(t, size[0], size[1], "downstream:stripe"), runsOfAnOutage["finished"]...).keys("p")
		b.keys("esc", ":").text("runs").keys("enter", "enter")
		d := b.m.dialogs.Top()
		n := len(d.Picks)
		need.That(t, n > 6, "only %d rows", n)
		seen := func() (below int) {
			if m := regexp.MustCompile(`(\d+) more below ↓`).FindStringSubmatch(b.screen()); m != nil {
				below, _ = strconv.Atoi(m[1])
			}
			return below
		}
		first := seen()
		if need.That(t, first > 0 && first < n, "%d of %d below at first", first, n); size[0] >= 80 {
			b.keys("down").shows("below ↓")
		}
		b.keys(slices.Repeat([]string{"down"}, n)...).shows("↑").hides("below ↓")
	}
}

// So are the groups of an outage, its exceptions and its history.
func TestTheRowsOfAnOutagesPageAreCounted(t *testing.T) {
	b := outageRun(t, outageBench(t, 40, 12, "downstream:stripe"), runsOfAnOutage["finished"]...)
	b.shows("more below ↓").keys("G").shows("↑").hides("below ↓")
	b = outageBench(t, 100, 24, "downstream:stripe")
	for n := range 20 {
		b.keys("N").text(fmt.Sprintf("note %d", n)).keys("enter")
	}
	o := b.m.feed.Outage(b.m.outage.ID)
	left := len(o.Events) - strings.Count(b.screen(), ": noted: ")
	b.shows("note 19", fmt.Sprintf("%d earlier", left))
	many := slices.Repeat([]ledger.Came{ledger.CameUnclear}, 8)
	outageRun(t, outageBench(t, 100, 50, "downstream:stripe"), many...).shows("3 more: ↵ all of it")
}
