package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"indoubt/ledger"
	"indoubt/ledger/sqlite"
)

// file is a ledger in a SQLite file.
type file struct{ path string }

func (f file) String() string { return f.path }

func (o Options) ofFile() sqlite.Options {
	return sqlite.Options{ReadOnly: o.ReadOnly, Reads: o.Reads, Clock: o.Clock, Steady: o.Steady, Actor: o.Actor, Home: o.Home,
		Used: o.Used, KeyFile: o.KeyFile}
}

func (f file) Open(ctx context.Context, o Options) (ledger.Store, error) {
	return opened(sqlite.Open(ctx, f.path, o.ofFile()))
}

func (f file) Create(ctx context.Context, o Options) (ledger.Store, error) {
	s, err := opened(sqlite.Create(ctx, f.path, o.ofFile()))
	return toRecord(ctx, s, err, o)
}

func (f file) Make(ctx context.Context, o Options, m Making) (ledger.Store, error) {
	as := o.ofFile()
	if as.Anew, as.Group = m.Anew, m.Group; m.Home != "" {
		as.Home = m.Home
	}
	s, err := opened(sqlite.Create(ctx, f.path, as))
	return toKeep(ctx, s, err, o)
}

func (f file) Key(ctx context.Context, o Options) error { return giveKey(ctx, f, o) }

// opened keeps a nil *sqlite.Store from becoming a store that is not nil.
func opened(s *sqlite.Store, err error) (ledger.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (f file) Adopt(ctx context.Context, o Options) error {
	return sqlite.Adopt(ctx, f.path, o.ofFile())
}

func (f file) Declare(ctx context.Context, home string, o Options) error {
	return sqlite.Declare(ctx, f.path, home, o.ofFile())
}

func (f file) Backup(ctx context.Context, s ledger.Store, to string) error {
	err := s.(*sqlite.Store).Backup(ctx, to)
	if errors.Is(err, fs.ErrExist) {
		return ledger.Trouble{Code: "exists", Message: err.Error(), Do: "give the copy a name of its own"}
	}
	return err
}

// Absolute is the path from wherever it is used.
func (f file) Absolute() (string, error) { return filepath.Abs(f.path) }

// Share gives it to a group.
func (f file) Share(group string) error { return sqlite.Share(f.path, group) }

// Exposed says who else than this account, or the group it is shared with, can change
// the ledger; "" where no one can.
func (f file) Exposed() string { return sqlite.Exposed(f.path) }

// Check reads the whole file.
func (f file) Check(ctx context.Context) error { return sqlite.Check(ctx, f.path) }

// Storage is what a ledger in files takes on its disk.
type Storage = sqlite.Storage

// Storage looks at the files, their disk, and who has locks on them now.
func (f file) Storage() (Storage, error) { return sqlite.StorageAt(f.path) }

// Examine looks at the files of the ledger: who may read them, how long the log has
// grown, whether a writer holds the write lock. s is nil where it cannot be opened.
func (f file) Examine(ctx context.Context, s ledger.Store, name func(string) string) (found []ledger.Finding) {
	say := func(check, level, text, do string) {
		found = append(found, ledger.Finding{Check: check, Level: level, Found: text, Do: do})
	}
	broken := func(check string, err error) {
		found = append(found, ledger.Finding{Check: check, Level: ledger.LevelFail, Err: err})
	}
	st, err := sqlite.StorageAt(f.path)
	if err != nil {
		broken("disk", err)
		return found
	}
	found = onDisk(st)
	info, err := os.Stat(f.path)
	if err != nil {
		broken("permissions", err)
		return found
	}
	if s != nil {
		if i, err := s.Info(ctx); err == nil && i.Exposed != "" {
			say("permissions", ledger.LevelWarn, i.Exposed, "chmod 600 "+name(f.path)+", or share it with a group: indoubt init --group")
		} else if err == nil {
			say("permissions", ledger.LevelOK, fmt.Sprintf("%#o", info.Mode().Perm()), "")
		}
	}
	var disk *sqlite.ReadOnlyDirError
	switch err := sqlite.Writable(f.path); {
	case errors.As(err, &disk) && disk.Mounted:
		t := disk.Trouble(name)
		say("writable", ledger.LevelWarn, t.Message, t.Do)
	case err != nil:
		say("writable", ledger.LevelWarn, "this user may not write to it: looking only", "use the account of the pipelines, or give this one the right")
	default:
		say("writable", ledger.LevelOK, "by this user", "")
	}
	if s == nil { // why is said already
		return found
	}
	found = append(found, s.(keeper).ExamineKey(ctx)...)
	switch err := sqlite.TryLock(ctx, f.path); {
	case err == nil:
		say("lock", ledger.LevelOK, "free", "")
	case errors.Is(err, ledger.ErrReadOnly):
		say("lock", ledger.LevelOK, "not tried: this user may not write", "")
	case errors.Is(err, ledger.ErrBusy):
		found = append(found, ledger.Finding{Check: "lock", Level: ledger.LevelFail, Err: err, Do: "nothing can be recorded: end that process, or its transaction"})
	default:
		broken("lock", err)
	}
	if _, err := os.Stat(f.path + ".bell"); err != nil {
		say("bell", ledger.LevelWarn, "there is no bell file: changes are seen up to a second late", "any writer makes it")
	} else {
		say("bell", ledger.LevelOK, "there", "")
	}
	return found
}

// onDisk says what fills the disk, and who keeps the log from being emptied.
func onDisk(st Storage) (found []ledger.Finding) {
	say := func(check, level, text, do string) {
		found = append(found, ledger.Finding{Check: check, Level: level, Found: text, Do: do})
	}
	end := "make room: what cannot be recorded must not be sent"
	if st.Kept() != "" {
		end = "end that read: " + st.Kept()
	}
	switch low := st.Free >= 0 && st.Free < 64<<20; {
	case low:
		say("disk", ledger.LevelFail, "only "+st.Room(), end)
	case st.Free >= 0:
		say("disk", ledger.LevelOK, st.Room(), "")
	}
	switch log := sqlite.Bytes(st.Log()); {
	case st.Grown() && st.Kept() != "":
		say("log", ledger.LevelWarn, "the write-ahead log has grown to "+log+": "+st.Kept(), "end that process, or its transaction")
	case st.Grown():
		say("log", ledger.LevelWarn, "the write-ahead log has grown to "+log, "a reader kept it; the next write empties it")
	default:
		say("log", ledger.LevelOK, "write-ahead log of "+log, "")
	}
	return found
}
