package console

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// Esc goes back the way that was come, one level at a time, over every path of screens.
func TestEscGoesBackTheWayThatWasCome(t *testing.T) {
	steps := map[string]func(b *bench){
		"open":    func(b *bench) { b.keys("enter") },
		"down":    func(b *bench) { b.keys("j", "enter") },
		"help":    func(b *bench) { b.keys("?") },
		"all":     func(b *bench) { b.keys("0") },
		"needs":   func(b *bench) { b.keys("1") },
		"filter":  func(b *bench) { b.keys("/").text(" charge").keys("enter").wait(time.Second) },
		"command": func(b *bench) { b.keys(":").text("open " + id(9)).keys("enter").wait(time.Second) },
	}
	names := []string{"open", "down", "help", "all", "needs", "filter", "command"}
	where := func(b *bench) string {
		s := here(b.m)
		if s.screen == onOutage {
			return "outage"
		}
		if s.screen == onList {
			s.row = ""
		}
		return fmt.Sprint(s.screen, " ", s.tab, " ", s.filter.Text, " ", s.row)
	}
	seen := map[string]bool{}
	walk := func(path []string) {
		b := outageBench(t, 120, 40, "").keys("j")
		var way []string // places above this one
		for _, name := range path {
			before, list, typed := where(b), b.m.screen == onList, b.m.table.Filter.Text != b.m.own.Text || b.m.typed
			tab := name == "all" || name == "needs"
			help := b.m.screen == onHelp && tab // it is left first
			if help {
				before = way[len(way)-1]
				typed = b.m.table.Filter.Text != b.m.trail[len(b.m.trail)-1].own.Text
				list = strings.HasPrefix(before, fmt.Sprint(onList, " "))
			}
			if b.m.screen == onHelp && name != "help" && !tab || list && typed && tab { // a list keeps its filter beside it, too
				continue
			}
			if help {
				way = way[:len(way)-1]
			}
			steps[name](b)
			after := where(b)
			seen[strings.Fields(after)[0]] = true
			switch at := slices.Index(way, after); {
			case after == before:
			case at >= 0:
				way = way[:at]
			case list && tab: // lists are beside one another
			case list && name == "filter" && typed: // and a filter takes another's place
			default:
				way = append(way, before)
			}
		}
		for len(way) > 0 {
			want := way[len(way)-1]
			way = way[:len(way)-1]
			if b.keys("esc"); where(b) != want {
				t.Fatalf("%q: esc led to %q, not to %q", path, where(b), want)
			}
		}
		if end := where(b); !strings.HasPrefix(end, fmt.Sprint(onList, " ")) || b.keys("esc") != nil && where(b) != end {
			t.Fatalf("%q ends at %q, then %q", path, end, where(b))
		}
	}
	for _, a := range names {
		for _, b := range names {
			walk([]string{a, b})
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		var path []string
		for range 3 + n%6 {
			path = append(path, names[r.IntN(len(names))])
		}
		walk(path)
	}
	need.Must(t, len(seen) >= 4, "only %v were seen", seen)
}
