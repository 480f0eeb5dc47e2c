package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// After a question for the times of a file the next write stamps it anew, and its next
// sync takes half as long again.
func TestALookAtTheFilesAsksForNoTimes(t *testing.T) {
	if asked&(unix.STATX_ATIME|unix.STATX_MTIME|unix.STATX_CTIME) != 0 {
		t.Errorf("asked for %#x", asked)
	}
}

// A ledger with no log is known by its header, so that it is opened once. What may
// differ from its header, or is another database, is looked at first.
func TestTheHeaderOfALedger(t *testing.T) {
	known := func(path string) bool {
		t.Helper()
		return must1[header](t)(settled(path)).current()
	}
	s, _ := openTest(t)
	begin(t, s)
	if known(s.path) {
		t.Error("a log may hold another header")
	}
	must(t, s.Close())
	if !known(s.path) {
		t.Error("a ledger with no log is not known")
	}
	for what, set := range map[string]string{"another schema": `PRAGMA user_version = 99`, "another program": `PRAGMA application_id = 7`, "no log": `PRAGMA journal_mode = DELETE`} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		must(t, os.WriteFile(path, must1[[]byte](t)(os.ReadFile(s.path)), 0o600))
		db := rawDB(t, path)
		_, err := db.Exec(set)
		must(t, err)
		must(t, db.Close())
		if known(path) {
			t.Errorf("%s: taken for a ledger of this program", what)
		}
	}
}
