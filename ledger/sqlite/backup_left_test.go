package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
	need.Get(s.Backup(ctx, filepath.Join(in, "a.db"), 0))(t)
	need.That(t, slices.Equal(namesIn(t, in), []string{"a.db", "a.db.key", "others"}), "there are %v", namesIn(t, in))
	unlock := need.Get(lockDir(in))(t) // as another one that goes on
	_, err := s.Backup(ctx, filepath.Join(in, "b.db"), 0)
	need.That(t, errors.Is(err, ledger.ErrBusy), "%v", err)
	need.OK(t, unlock())
	need.Get(s.Backup(ctx, filepath.Join(in, "b.db"), 0))(t)
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
	_, err := s.Backup(ctx, to, 0)
	need.That(t, errors.Is(err, fs.ErrExist) && slices.Equal(namesIn(t, in), []string{"copy.db.key"}), "%v: %v", err, namesIn(t, in))
	need.OK(t, os.WriteFile(to+keyFile, need.Get(os.ReadFile(s.path+keyFile))(t), 0o600)) // as one left that was killed
	need.Get(s.Backup(ctx, to, 0))(t)
	c := need.Get(Open(ctx, to, Options{ReadOnly: true}))(t)
	defer c.Close()
	need.That(t, string(need.Get(c.DigestKey(ctx))(t)) == string(key), "it has another key")
}

// With a number, the newest backups stay: as many of this ledger, and all that is another's. The ledger knows since
// when it has one.
func TestTheNewestBackupsStay(t *testing.T) {
	now := time.Date(2026, 7, 30, 3, 15, 0, 0, time.UTC)
	made := func(name string) *Store {
		s := need.Get(Create(ctx, filepath.Join(t.TempDir(), name), Options{Clock: func() time.Time { return now }}))(t)
		t.Cleanup(func() { s.Close() })
		_ = need.Get(s.DigestKey(ctx))(t)
		return s
	}
	s, other := made("pay.db"), made("pay.db")
	need.Equal(t, need.Get(s.Info(ctx))(t).Unsaved, now, "it has no backup since its birth")
	in := t.TempDir()
	need.Get(other.Backup(ctx, in, 1))(t)
	for _, name := range []string{"pay-20260730T031500Z.db" + backingUp, "pay-20260701T031500Z.db.key", "pay-mine.db", "notes-20260701T031500Z.db"} {
		need.OK(t, os.WriteFile(filepath.Join(in, name), []byte("jane"), 0o600))
	}
	var done BackedUp
	for range 4 {
		now = now.Add(24 * time.Hour)
		begin(t, s)
		done = need.Get(s.Backup(ctx, in, 2))(t)
	}
	need.OK(t, done.Unknown)
	need.Equal(t, need.Get(s.Info(ctx))(t).Unsaved, now, "its newest backup")
	need.Equal(t, strings.Join(done.Removed, " "), filepath.Join(in, "pay-20260801T031500Z.db"), "removed")
	need.Equal(t, strings.Join(done.Left, " "), filepath.Join(in, "pay-20260730T031500Z.db"), "another ledger's")
	need.Equal(t, strings.Join(namesIn(t, in), "\n"), strings.Join([]string{"notes-20260701T031500Z.db", "pay-20260730T031500Z.db", "pay-20260730T031500Z.db.key",
		"pay-20260802T031500Z.db", "pay-20260802T031500Z.db.key", "pay-20260803T031500Z.db", "pay-20260803T031500Z.db.key", "pay-mine.db"}, "\n"))

	_, err := s.Backup(ctx, in, 2)
	need.That(t, errors.Is(err, fs.ErrExist), "twice in a second: %v", err)
	now = now.Add(-time.Hour) // a clock that was set back: the one that was just made stays
	done = need.Get(s.Backup(ctx, in, 1))(t)
	need.That(t, slices.Contains(namesIn(t, in), filepath.Base(done.Path)) && len(done.Removed) == 2, "%+v", done)

	reader := need.Get(Open(ctx, s.path, Options{ReadOnly: true}))(t)
	defer reader.Close()
	done = need.Get(reader.Backup(ctx, filepath.Join(in, "looked"), 0))(t)
	need.That(t, errors.Is(done.Unknown, ledger.ErrReadOnly), "%v", done.Unknown)
}

// A copy that is not what was copied gets no name, and nothing older is removed for it.
func TestABackupIsReadBack(t *testing.T) {
	s, _ := openTest(t)
	for range 50 {
		begin(t, s)
	}
	part := filepath.Join(t.TempDir(), "part")
	need.Get(s.Backup(ctx, part, 0))(t)
	var newest int64
	need.OK(t, s.one(ctx, `SELECT max(seq) FROM ev`, &newest))
	need.OK(t, s.readBack(ctx, part, newest))
	var damaged *DamagedError
	need.That(t, errors.As(s.readBack(ctx, part, newest+1), &damaged), "it lacks the newest event")
	other, _ := openTest(t)
	need.That(t, errors.As(other.readBack(ctx, part, newest), &damaged), "it is of another ledger")
	text := need.Get(os.ReadFile(part))(t)
	for i := len(text) / 2; i < len(text)/2+20000; i++ {
		text[i] = 0x5a
	}
	need.OK(t, os.WriteFile(part, text, 0o600))
	need.That(t, s.readBack(ctx, part, newest) != nil, "what is written over passes")
}
