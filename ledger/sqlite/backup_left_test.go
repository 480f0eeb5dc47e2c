package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A backup that was killed left a whole ledger beside its target, with all that is redacted
// since. The next one in that directory removes it, unless it is in use.
func TestABackupRemovesWhatAnotherOneLeft(t *testing.T) {
	s, _ := openTest(t)
	_ = need.Get(s.DigestKey(ctx))(t)
	in := t.TempDir()
	for _, name := range []string{"monday.db" + backingUp, "monday.db" + backingUp + keyFile, "others"} {
		need.OK(t, os.WriteFile(filepath.Join(in, name), []byte("jane"), 0o600))
	}
	need.OK(t, s.Backup(ctx, filepath.Join(in, "a.db")))
	need.That(t, slices.Equal(namesIn(t, in), []string{"a.db", "a.db.key", "others"}), "there are %v", namesIn(t, in))
	unlock := need.Get(lockDir(in))(t) // as another one that goes on
	err := s.Backup(ctx, filepath.Join(in, "b.db"))
	need.That(t, errors.Is(err, ledger.ErrBusy), "%v", err)
	need.OK(t, unlock())
	need.OK(t, s.Backup(ctx, filepath.Join(in, "b.db")))
	need.That(t, slices.Equal(namesIn(t, in), []string{"a.db", "a.db.key", "b.db", "b.db.key", "others"}), "there are %v", namesIn(t, in))
	need.Equal(t, need.Get(os.Stat(filepath.Join(in, "b.db")))(t).Mode().Perm(), os.FileMode(0o600))
}

// A backup that fails leaves nothing; what a killed one put there does not keep the next
// one out.
func TestABackupThatFailsLeavesNothing(t *testing.T) {
	s, _ := openTest(t)
	key := need.Get(s.DigestKey(ctx))(t)
	in := t.TempDir()
	to := filepath.Join(in, "copy.db")
	need.OK(t, os.WriteFile(to+keyFile, []byte("another one"), 0o600))
	err := s.Backup(ctx, to)
	need.That(t, errors.Is(err, fs.ErrExist) && slices.Equal(namesIn(t, in), []string{"copy.db.key"}), "%v: %v", err, namesIn(t, in))
	need.OK(t, os.WriteFile(to+keyFile, need.Get(os.ReadFile(s.path+keyFile))(t), 0o600)) // as one left that was killed
	need.OK(t, s.Backup(ctx, to))
	c := need.Get(Open(ctx, to, Options{ReadOnly: true}))(t)
	defer c.Close()
	need.That(t, string(need.Get(c.DigestKey(ctx))(t)) == string(key), "it has another key")
}
