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
	if asked&(unix.STATX_ATIME|unix.STATX_MTIME|unix.STATX_CTIME) != 0 {
		t.Errorf("asked for %#x", asked)
	}
}

// A ledger with no log is known by its header, so that it is opened once. What may
// differ from its header, or is another database, is looked at first.
func TestTheHeaderOfALedger(t *testing.T) {
	known := func(path string) bool {
		t.Helper()
		return need.Get(settled(path))(t).current()
	}
	s, _ := openTest(t)
	begin(t, s)
	if known(s.path) {
		t.Error("a log may hold another header")
	}
	need.OK(t, s.Close())
	if !known(s.path) {
		t.Error("a ledger with no log is not known")
	}
	for what, set := range map[string]string{"another schema": `PRAGMA user_version = 99`, "another program": `PRAGMA application_id = 7`, "no log": `PRAGMA journal_mode = DELETE`} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		need.OK(t, os.WriteFile(path, need.Get(os.ReadFile(s.path))(t), 0o600))
		db := rawDB(t, path)
		need.Get(db.Exec(set))(t)
		need.OK(t, db.Close())
		if known(path) {
			t.Errorf("%s: taken for a ledger of this program", what)
		}
	}
}

// One of many that soon end leaves a short log to the next: what it wrote is in there,
// and neither pays the syncs of folding it and of beginning another one. The file of a
// new ledger is whole, and so is any that another process closed.
func TestAShortLogIsLeftToTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	made := 0
	log := func(o Options) (left int64) {
		t.Helper()
		made++
		s := need.Get(Create(ctx, path, o))(t)
		begin(t, s)
		need.OK(t, s.Close())
		return need.Get(filesAt(path))(t).wal.size
	}
	leave := Options{LeaveLog: true}
	for range 10 {
		if left := log(leave); left != 0 {
			t.Fatalf("the log of a new ledger is left: %d bytes", left)
		}
	}
	first := log(leave)
	if first == 0 {
		t.Fatal("no log is left")
	}
	if left := log(leave); left <= first {
		t.Errorf("another log was begun: %d bytes after %d", left, first)
	}
	longest, folded := int64(0), false
	for n := 0; n < 100 && !folded; n++ {
		left := log(leave)
		longest, folded = max(longest, left), left == 0
	}
	if !folded || longest >= shortLog {
		t.Errorf("it is folded: %v; the longest one was %d bytes", folded, longest)
	}
	log(leave)
	if left := log(Options{}); left != 0 {
		t.Errorf("a process that may stay leaves a log of %d bytes", left)
	}
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	if all := need.Get(s.Counts(ctx, s.now()))(t).All; all != made {
		t.Errorf("%d operations of %d", all, made)
	}
}
