//go:build soak

package cli_test

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// Every block of the pages that use programs of others does what its page says. The handler of
// events is delivered to again wherever it did not work: where nothing can be recorded, and
// beside another one.
func TestThePagesRunWithOtherPrograms(t *testing.T) {
	for _, name := range pagesOfOthers {
		t.Run(name, func(t *testing.T) { runPage(t, name) })
	}
	t.Run("a handler of events", func(t *testing.T) {
		p := newPage(t)
		for _, block := range blocksOn(t, "ledger/record/README.md", "sh") {
			if !strings.HasPrefix(block, "EVENT_ID=evt_2\n") {
				continue
			}
			exit, out := p.run("INDOUBT_LEDGER=/proc/nowhere/l.db; export INDOUBT_LEDGER\n"+block, "sh")
			need.That(t, exit == 1 && !strings.Contains(out, "working"), "nothing can be recorded: exit %d\n%s", exit, out)
			exit, out = p.run(block+block, "sh")
			need.That(t, exit == 0 && strings.Count(out, "working") == 1, "it was delivered twice: exit %d\n%s", exit, out)
			block = strings.Replace(block, "evt_2", "evt_busy", 1)
			exit, out = p.run("indoubt begin --kind webhook --key evt_busy\n"+block, "sh")
			need.That(t, exit == 7 && !strings.Contains(out, "working"), "another one works: exit %d\n%s", exit, out)
			return
		}
		t.Error("the page has no handler of events")
	})
}
