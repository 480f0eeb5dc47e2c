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
	"strings"
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
	dir, done, err := workshop(filepath.Dir(to))
	if err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	defer done()
	part := filepath.Join(dir, "ledger.db")
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer r.giveBack()
	if _, err := r.conn.Exec(ctx, `VACUUM INTO ?`, part); err != nil {
		return fmt.Errorf("make the copy: %w", translate(s.path, err))
	}
	if err := errors.Join(os.Chmod(part, 0o600), syncFile(part)); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	keyed, err := copyKey(s.path, part, to)
	if err != nil {
		return err
	}
	if err := place(part, to); err != nil { // fails where the file was made meanwhile
		if keyed {
			err = errors.Join(err, os.Remove(to+keyFile))
		}
		return fmt.Errorf("make the copy: %w", err)
	}
	return syncDir(filepath.Dir(to))
}

// backupDir is how the name begins of a directory that a backup is made in.
const backupDir = ".indoubt-backup-"

// workshop makes a directory in another one that no other account can read. Those that others
// left which were killed are removed: each has a whole ledger in it. One that is in use is locked.
func workshop(in string) (dir string, done func(), err error) {
	entries, err := os.ReadDir(in)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), backupDir) {
			continue
		}
		left := filepath.Join(in, e.Name())
		if lock, err := os.Open(left); err == nil { // else it belongs to another account
			if free, err := try(lock); err == nil && free {
				err = os.RemoveAll(left)
				if err != nil && !errors.Is(err, fs.ErrPermission) {
					return "", nil, errors.Join(err, lock.Close())
				}
			}
			lock.Close()
		}
	}
	for {
		dir, err := os.MkdirTemp(in, backupDir+"*")
		if err != nil {
			return "", nil, err
		}
		lock, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was taken for one that was left
		} else if err != nil {
			return "", nil, errors.Join(err, os.Remove(dir))
		}
		done := func() { _ = errors.Join(os.RemoveAll(dir), lock.Close()) }
		locked, err := try(lock)
		has, unread := lock.Stat()
		if err = errors.Join(err, unread); err != nil {
			done()
			return "", nil, err
		}
		if locked && isAt(has, dir) {
			return dir, done, nil
		}
		lock.Close()
	}
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

func isAt(has os.FileInfo, path string) bool {
	is, err := os.Stat(path)
	return err == nil && os.SameFile(has, is)
}
