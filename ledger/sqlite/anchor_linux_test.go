package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"indoubt/ledger/need"
)

// After a question for the times of a file the next write stamps it anew, and its next
// sync takes half as long again.
func TestALookAtTheFilesAsksForNoTimes(t *testing.T) {
	need.That(t, asked&(unix.STATX_ATIME|unix.STATX_MTIME|unix.STATX_CTIME) == 0, "asked for %#x", asked)
}

// A ledger with no log is known by its header, so that it is opened once. What may
// differ from its header, or is another database, is looked at first.
func TestTheHeaderOfALedger(t *testing.T) {
	t.Parallel()
	known := func(path string) bool {
		t.Helper()
		return need.Get(settled(path))(t).current()
	}
	s, _ := openTest(t)
	begin(t, s)
	need.That(t, !known(s.path), "a log may hold another header")
	need.OK(t, s.Close())
	need.That(t, known(s.path), "a ledger with no log is not known")
	for what, set := range map[string]string{"another schema": `PRAGMA user_version = 99`, "another program": `PRAGMA application_id = 7`, "no log": `PRAGMA journal_mode = DELETE`} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		need.OK(t, os.WriteFile(path, need.Get(os.ReadFile(s.path))(t), 0o600))
		db := rawDB(t, path)
		need.Get(db.Exec(set))(t)
		need.OK(t, db.Close())
		need.That(t, !known(path), "%s: taken for a ledger of this program", what)
	}
}
