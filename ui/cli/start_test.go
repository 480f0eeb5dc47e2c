//go:build unix

package cli_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Every command pays for what each package does before main. A package that
// needs more than a millisecond for it, in the best of twenty starts, builds
// something there that it should build when it is first used.
func TestNoPackageIsSlowToStart(t *testing.T) {
	best := map[string]float64{}
	for range 20 {
		cmd := binary(t.TempDir(), "--version")
		cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
		exit, _, stderr := ends(t, cmd)
		if exit != 0 {
			t.Fatal(stderr)
		}
		for line := range strings.Lines(stderr) {
			var name, allocated string
			var at, took float64
			if _, err := fmt.Sscanf(line, "init %s @%g ms, %g ms clock, %s", &name, &at, &took, &allocated); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if before, ok := best[name]; ok {
				took = math.Min(before, took)
			}
			best[name] = took
		}
	}
	if len(best) < 10 {
		t.Fatalf("only %d packages told how long they took", len(best))
	}
	for name, took := range best {
		if took > 1 {
			t.Errorf("%s takes %.2f ms before main", name, took)
		}
	}
}
