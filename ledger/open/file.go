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
	"indoubt/ledger/store"
)

type file struct{ path string }

func (f file) String() string { return f.path }

func (f file) Open(ctx context.Context, o Options) (ledger.Store, error) {
	return opened(sqlite.Open(ctx, f.path, o))
}

func (f file) Create(ctx context.Context, o Options) (ledger.Store, error) {
	s, err := opened(sqlite.Create(ctx, f.path, o))
	return toRecord(ctx, s, err, o)
}

func (f file) Make(ctx context.Context, o Options) (ledger.Store, error) {
	s, err := opened(sqlite.Create(ctx, f.path, o))
	return toKeep(ctx, s, err, o)
}

func (f file) Adopt(ctx context.Context, o Options) error {
	return sqlite.Adopt(ctx, f.path, o)
}

func (f file) Backup(ctx context.Context, s ledger.Store, to string, keep int) (BackedUp, error) {
	done, err := s.(*sqlite.Store).Backup(ctx, to, keep)
	if errors.Is(err, fs.ErrExist) {
		err = ledger.Trouble{Code: "exists", Message: err.Error(), Do: "give the copy a name of its own, or a directory and --keep"}
	}
	return done, err
}

func (f file) receive(ctx context.Context, o Options, id string, fill func(store.Tx) error) error {
	return sqlite.Receive(ctx, f.path, o, id, fill)
}

func (f file) arrive(ctx context.Context, o Options, id string) error {
	return sqlite.Arrive(ctx, f.path, o, id)
}

// Absolute is the path from wherever it is used.
func (f file) Absolute() (string, error) { return filepath.Abs(f.path) }

// Share gives it to a group.
func (f file) Share(group string) error { return sqlite.Share(f.path, group) }

// Check reads the whole file.
func (f file) Check(ctx context.Context) error { return sqlite.Check(ctx, f.path) }

// Examine looks at the files of the ledger: who may read them, and whether a writer holds the
// write lock. s is nil where it cannot be opened.
func (f file) Examine(ctx context.Context, s ledger.Store, name func(string) string) (found []ledger.Finding) {
	say := func(check, level, text, do string, err error) {
		found = append(found, ledger.Finding{Check: check, Level: level, Found: text, Do: do, Err: err})
	}
	switch info, err := os.Stat(f.path); {
	case err != nil:
		say("permissions", ledger.LevelFail, "", "", err)
		return found
	case info.Mode().Perm()&0o006 != 0:
		say("permissions", ledger.LevelWarn, fmt.Sprintf("%#o: every account may look into it", info.Mode().Perm()),
			"chmod 600 "+name(f.path)+", or share it with a group: indoubt init --group", nil)
	default:
		say("permissions", ledger.LevelOK, fmt.Sprintf("%#o", info.Mode().Perm()), "", nil)
	}
	if err := sqlite.Writable(f.path); err != nil {
		say("writable", ledger.LevelWarn, "", "", err)
	} else {
		say("writable", ledger.LevelOK, "by this user", "", nil)
	}
	if s == nil { // why is said already
		return found
	}
	if has, err := hasKey(ctx, s.(keeper)); has || err != nil { // else it is made on first need
		found = append(found, examineKey(ctx, s.(keeper))...)
	}
	switch err := sqlite.TryLock(ctx, f.path); {
	case err == nil:
		say("lock", ledger.LevelOK, "free", "", nil)
	case errors.Is(err, ledger.ErrReadOnly):
		say("lock", ledger.LevelOK, "not tried: this user may not write", "", nil)
	default:
		say("lock", ledger.LevelFail, "", "nothing can be recorded: end the process that holds it, or its transaction", err)
	}
	return found
}
