package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the ledger as it is now to a new file, with its key beside it, and
// ends a writer that comes meanwhile. The copy is whole: it needs no log. It is only
// looked at until it is adopted. Errors: fs.ErrExist where there is a file.
func (s *Store) Backup(ctx context.Context, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return fmt.Errorf("find the place for the copy: %w", err)
	}
	for _, side := range []string{"", "-wal", "-shm", "-journal"} {
		if _, err := os.Lstat(to + side); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", to+side, fs.ErrExist)
		}
	}
	dir := filepath.Dir(to)
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	left, err := filepath.Glob(filepath.Join(dir, "*"+backingUp)) // each that was killed has left a whole ledger
	for _, part := range left {
		if err := errors.Join(sweep(part), sweep(part+keyFile)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("remove what another backup has left: %w", err)
		}
	}
	part := to + backingUp
	err = cmp.Or(err, empty(part), s.copyTo(ctx, part, to))
	if err = errors.Join(err, sweep(part), sweep(part+keyFile)); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	return syncDir(dir)
}

// backingUp is the ending of a file that a backup is made in.
const backingUp = ".indoubt-backup"

// copyTo copies the ledger to an empty file, and gives that its name.
func (s *Store) copyTo(ctx context.Context, part, to string) error {
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer r.giveBack()
	if _, err := r.conn.Exec(ctx, `VACUUM INTO ?`, part); err != nil {
		return translate(s.path, err)
	}
	if err := syncFile(part); err != nil {
		return err
	}
	keyed, err := copyKey(s.path, part, to)
	if err != nil {
		return err
	}
	if err = place(part, to); err != nil && keyed { // a file was made meanwhile
		err = errors.Join(err, os.Remove(to+keyFile))
	}
	return err
}

// copyKey puts the key of a ledger beside its backup, and reports whether it was not there
// already: it comes before the backup, and a kill leaves it alone. Errors: fs.ErrExist where
// another one is there.
func copyKey(path, part, to string) (made bool, err error) {
	from, err := openSide(path, keyFile, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer from.Close()
	key, err := io.ReadAll(from)
	if err == nil {
		err = os.WriteFile(part+keyFile, key, 0o600)
	}
	if err = cmp.Or(err, syncFile(part+keyFile)); err == nil {
		err = place(part+keyFile, to+keyFile)
	}
	if errors.Is(err, fs.ErrExist) {
		if has, unread := os.ReadFile(to + keyFile); unread == nil && bytes.Equal(has, key) {
			return false, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("copy the key: %w", err)
	}
	return true, nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir makes a directory, and those above it, that are there after a crash.
func makeDir(dir string, mode fs.FileMode, sync func(string) error) error {
	above := filepath.Dir(dir)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || above == dir {
		return os.MkdirAll(dir, mode) // says what is there instead
	}
	return cmp.Or(makeDir(above, mode, sync), os.MkdirAll(dir, mode), sync(above))
}
