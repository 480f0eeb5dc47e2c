//go:build soak

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// Wherever the making of a ledger is killed, the next one makes it.
func TestI10_KillsAtItsBirthLeaveNoLedgerThatIsRefused(t *testing.T) {
	t.Setenv("INDOUBT_TEST_KEY", "k")
	inTheMaking := 0
	for i := range 40 {
		path := filepath.Join(t.TempDir(), "ledger.db")
		child, _, _ := other(t, "once", path)
		for end := time.Now().Add(time.Minute); ; {
			_, part := os.Stat(path + making)
			_, whole := os.Stat(path)
			if !errors.Is(part, os.ErrNotExist) || !errors.Is(whole, os.ErrNotExist) {
				break
			}
			need.Must(t, time.Now().Before(end), "nothing is made")
		}
		time.Sleep(time.Duration(i) * time.Millisecond / 2)
		need.OK(t, child.Process.Kill())
		_ = child.Wait()
		if _, err := os.Stat(path); err != nil {
			inTheMaking++
		}
		s := need.Get(Create(ctx, path, Options{}))(t)
		begin(t, s)
		need.OK(t, s.Close())
	}
	need.That(t, inTheMaking > 0, "none was killed in the making")
}
