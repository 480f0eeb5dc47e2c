package console

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"indoubt/ledger/need"
)

var update = flag.Bool("update", false, "write the golden screens anew")

// forbidden are words of the contract that no screen may show.
var forbidden = []string{"key_safe", "not_there", "basis", "cannot_tell"}

func golden(t *testing.T, name, screen string) {
	t.Helper()
	for _, w := range forbidden {
		need.That(t, !strings.Contains(strings.ToLower(screen), w), "%s shows the contract's word %q", name, w)
	}
	lines := strings.Split(screen, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
		if i > 0 && strings.HasPrefix(lines[i], "└") { // where a dialog is answered
			need.That(t, !strings.Contains(lines[i-1], "…"), "%s cuts its keys: %s", name, lines[i-1])
		}
	}
	got := strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", name+".txt")
	if *update {
		need.OK(t, os.MkdirAll("testdata", 0o755))
		need.OK(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want := need.Get(os.ReadFile(path))(t)
	need.Equal(t, cmp.Diff(string(want), got), "", name)
}

func TestGoldenScreens(t *testing.T) {
	sizes := [][2]int{{80, 24}, {120, 40}, {160, 48}}
	four := append(sizes[:3:3], [2]int{40, 10})
	shots := []struct {
		name  string
		keys  []string
		sizes [][2]int
	}{
		{"needs_you", nil, append(four, [2]int{200, 50})},
		{"hidden", []string{"/", "s", "i", "g", "n", "enter"}, four},
		{"help_word", []string{"?", "/", "s", "a", "i", "d"}, append(sizes[:1:1], [2]int{40, 10})},
		{"charge", []string{"j"}, sizes},
		{"charge_full", []string{"j", "enter"}, sizes},
		{"twice", []string{"enter"}, sizes},
		{"checking", []string{"2"}, sizes},
		{"in_flight", []string{"3"}, sizes[:1]},
		{"settled", []string{"4"}, sizes[:2]},
		{"all", []string{"0"}, sizes},
		{"retry_proven", []string{"j", "j", "j", "R"}, sizes[:1]},
		{"retry_risk", []string{"j", "R"}, four},
		{"confirm", []string{"j", "C"}, sizes[:1]},
		{"deny", []string{"j", "X"}, sizes[:1]},
		{"abandon", []string{"j", "A"}, sizes[:1]},
		{"dealt_with", []string{"D"}, four},
		{"park", []string{"j", "P"}, sizes[:1]},
		{"hold", []string{"j", "H"}, sizes[:1]},
		{"what_can_i_do", []string{"j", "a"}, sizes[:2]},
		{"what_can_i_do_marked", []string{"j", "space", "space", "/", "s", "m", "s", "enter", "a"}, sizes[:1]},
		{"marks_unseen", []string{"j", "space", "space", "/", "s", "m", "s", "enter", "P"}, append(sizes[:1:1], [2]int{160, 48})},
		{"copy", []string{"j", "y"}, sizes[:1]},
		{"help", []string{"?"}, sizes},
		{"filter", []string{"/", "k", "i"}, sizes[:1]},
		{"filter_fault", []string{"/", "x", ":", "1"}, sizes[:1]},
		{"command", []string{":", "r"}, sizes[:1]},
		{"bulk", []string{"j", "space", "space", "space", "space", "P"}, sizes[:1]},
	}
	for _, s := range shots {
		for _, size := range s.sizes {
			name := fmt.Sprintf("%s_%dx%d", s.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				b := newBench(t, size[0], size[1], nightOptions()).judged(nightFacts)
				for _, k := range s.keys {
					b.wait(pasted).fast(k)
				}
				golden(t, name, b.screen())
			})
		}
	}
}
