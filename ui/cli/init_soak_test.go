//go:build soak

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

func TestInitSharesALedgerThatIsThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give a directory to any group")
	}
	b := newBench(t)
	b.want(0, "init")
	need.Contains(t, b.want(1, "init", "--group", "65534"), "chmod 2770")
	dir := filepath.Dir(b.ledger)
	need.OK(t, errors.Join(os.Chown(dir, -1, 65534), os.Chmod(dir, 0o770|os.ModeSetgid)))
	need.Equal(t, b.json(0, "init", "--group", "65534", "--dry-run").Effect, base.EffectWouldUpdate)
	need.Equal(t, b.json(0, "init", "--group", "65534").Effect, base.EffectUpdated)
	need.Equal(t, need.Get(os.Stat(b.ledger))(t).Mode().Perm(), os.FileMode(0o660))
	need.Contains(t, b.want(0, "doctor"), "0660")
}
