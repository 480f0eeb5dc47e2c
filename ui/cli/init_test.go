package cli

import (
	"os"
	"strings"
	"testing"

	"indoubt/ledger/need"
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
	if a := b.json(0, "init", "--anew"); a.Effect != effectCreated {
		t.Errorf("%+v", a)
	}
	b.want(0, "begin", "--kind", "k", "--key", "1")
}

func TestInitDeclaresAHome(t *testing.T) {
	b := newBench(t)
	b.want(2, "init", "--home", " ")
	b.want(0, "init", "--home", "pay")
	need.Contains(t, b.want(0, "doctor"), "at home in pay")
	b.env["INDOUBT_LEDGER_HOME"] = "elsewhere"
	if a := b.json(5, "begin", "--kind", "k", "--key", "1"); a.Error.Code != "copied" || !strings.Contains(a.Error.Message, `"pay"`) {
		t.Errorf("%+v", a.Error)
	}
	b.env["INDOUBT_LEDGER_HOME"] = "pay"
	b.want(0, "begin", "--kind", "k", "--key", "1")
	for _, c := range []struct{ name, effect string }{{"shop", effectUpdated}, {"shop", effectNoop}} {
		need.Equal(t, b.json(0, "init", "--home", c.name).Effect, c.effect, c.name)
		b.env["INDOUBT_LEDGER_HOME"] = c.name
	}
	b.want(0, "begin", "--kind", "k", "--key", "2")
}
