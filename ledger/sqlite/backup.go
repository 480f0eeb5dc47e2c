package sqlite

import (
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
	for _, side := range []string{"", "-wal", "-shm", keyFile} {
		if _, err := os.Lstat(to + side); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", to+side, fs.ErrExist)
		}
	}
	// Made in a directory that no other account can read, and moved when it is whole.
	dir, err := os.MkdirTemp(filepath.Dir(to), ".indoubt-backup-*")
	if err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	defer os.RemoveAll(dir)
	part := filepath.Join(dir, "ledger.db")
	r, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer r.giveBack()
	if _, err := r.conn.ExecContext(ctx, `VACUUM INTO ?`, part); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	if err := errors.Join(os.Chmod(part, 0o600), syncFile(part)); err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	if err := copyKey(s.path, to); err != nil {
		return err
	}
	if err := os.Link(part, to); err != nil { // fails where the file was made meanwhile
		return fmt.Errorf("make the copy: %w", err)
	}
	return errors.Join(os.Remove(part), syncDir(filepath.Dir(to)))
}

func copyKey(path, to string) error {
	from, err := openSide(path, keyFile, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to+keyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy the key: %w", err)
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Sync(), f.Close())
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
