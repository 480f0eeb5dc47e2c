package cli

import (
	"os"
	"strings"
	"testing"

	"indoubt/ui/cli/base"
)

// A place where this account had a ledger gets no new one by itself, whatever was
// cleared away there.
func TestNoLedgerIsMadeWhereOneWas(t *testing.T) {
	b := newBench(t)
	b.env["XDG_STATE_HOME"] = t.TempDir()
	b.want(0, "begin", "--kind", "k", "--key", "1")
	for _, side := range []string{"", "-wal", "-shm", ".lock", ".bell"} {
		if err := os.Remove(b.ledger + side); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"begin", "--kind", "k", "--key", "1"}, {"begin", "--kind", "k", "--key", "1", "--dry-run"}, {"init"}, {"list"}, {"adopt"}} {
		if a := b.json(3, args...); a.Error.Code != "former" || !strings.Contains(a.Error.Hint, "init --anew") {
			t.Errorf("%v: %+v", args, a.Error)
		}
	}
	if a := b.json(0, "init", "--anew"); a.Effect != base.EffectCreated {
		t.Errorf("%+v", a)
	}
	b.want(0, "begin", "--kind", "k", "--key", "1")
}
