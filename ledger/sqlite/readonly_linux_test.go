//go:build soak

package sqlite

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A file system that an error of its disk has made read-only is no matter of accounts.
func TestAReadOnlyFileSystemIsSaidToBe(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no mount here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", dir).Run() })
	need.OK(t, need.Get(Create(ctx, dir+"/ledger.db", Options{}))(t).Close())
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Skipf("no mount here: %s", out)
	}
	_, err := Open(ctx, dir+"/ledger.db", Options{})
	need.That(t, refused(err, "permission") && strings.Contains(err.Error(), "mounted read-only") && errors.Is(err, ledger.ErrReadOnly), "%v", err)
	need.OK(t, need.Get(Open(ctx, dir+"/ledger.db", Options{ReadOnly: true}))(t).Close())
}
