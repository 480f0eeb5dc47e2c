package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"indoubt/ledger/store"
)

// BackedUp is what a backup has done.
type BackedUp struct {
	Path    string   `json:"path"`
	Removed []string `json:"removed,omitempty"` // older ones
	Left    []string `json:"left,omitempty"`    // named like ours, and of another ledger or not to be read
	Unknown error    `json:"-"`                 // why the ledger does not know of it
}

// Backup copies the ledger as it is now to a new file, with its key beside it, and
// ends a writer that comes meanwhile. The copy is whole: it needs no log. It gets its name
// when it was read back, and is only looked at until it is adopted. With keep, to is a
// directory, the copy is named by the time, and the newest ones stay, as many as keep says.
// Errors: fs.ErrExist where there is a file.
func (s *Store) Backup(ctx context.Context, to string, keep int) (done BackedUp, err error) {
	began := s.moment().Wall.UTC()
	if keep > 0 {
		to = filepath.Join(to, s.backupName()+began.Format("20060102T150405Z")+".db")
	}
	done.Path = to
	if to, err = filepath.Abs(to); err != nil {
		return done, fmt.Errorf("find the place for the copy: %w", err)
	}
	for _, side := range []string{"", "-wal", "-shm", "-journal"} {
		if _, err := os.Lstat(to + side); !errors.Is(err, fs.ErrNotExist) {
			return done, fmt.Errorf("%s: %w", to+side, fs.ErrExist)
		}
	}
	dir := filepath.Dir(to)
	unlock, err := lockDir(dir)
	if err != nil {
		return done, err
	}
	defer unlock()
	left, err := filepath.Glob(filepath.Join(dir, "*"+backingUp)) // each that was killed has left a whole ledger
	for _, part := range left {
		if err := errors.Join(sweep(part), sweep(part+keyFile)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return done, fmt.Errorf("remove what another backup has left: %w", err)
		}
	}
	part := to + backingUp
	err = cmp.Or(err, empty(part), s.copyTo(ctx, part, to))
	if err = errors.Join(err, sweep(part), sweep(part+keyFile)); err != nil {
		return done, fmt.Errorf("make the copy: %w", err)
	}
	if err = syncDir(dir); err != nil {
		return done, err
	}
	done.Unknown = database{s.handle}.Update(ctx, func(tx store.Tx) error {
		return store.SetMeta(tx, store.MetaBackup, fmt.Sprint(began.UnixMilli()))
	})
	if keep > 0 {
		if err = done.thin(ctx, s, dir, keep); err != nil {
			err = fmt.Errorf("%s is made, and older ones cannot be removed: %w", to, err)
		}
	}
	return done, err
}

// backupName is how the names of backups begin that are kept by number.
func (s *Store) backupName() string {
	name := filepath.Base(s.path)
	return strings.TrimSuffix(name, filepath.Ext(name)) + "-"
}

// thin removes what is older than the newest backups of this ledger, and the keys that a kill left without one.
// It has the lock of their directory.
func (done *BackedUp) thin(ctx context.Context, s *Store, dir string, keep int) error {
	ours := regexp.MustCompile(`^` + regexp.QuoteMeta(s.backupName()) + `\d{8}T\d{6}Z\.db$`)
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, file := range there {
		names[file.Name()] = true
	}
	kept := 1
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(names))) { // the newest first
		path := filepath.Join(dir, name)
		if of, is := strings.CutSuffix(name, keyFile); is && ours.MatchString(of) && !names[of] {
			err = errors.Join(err, sweep(path))
		}
		if !ours.MatchString(name) || name == filepath.Base(done.Path) {
			continue
		}
		var id string
		if askOnce(ctx, dsn(path, "ro")+"&immutable=1", `SELECT value FROM meta WHERE name = 'id'`, &id) != nil || id != s.id {
			done.Left = append(done.Left, path)
			continue
		}
		if kept++; kept <= keep {
			continue
		}
		for _, side := range []string{"", ".lock", ".bell", keyFile} { // the key last: it is found without its file
			err = errors.Join(err, sweep(path+side))
		}
		done.Removed = append(done.Removed, path)
	}
	return cmp.Or(err, syncDir(dir))
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
	var newest int64
	if err := one(r, `SELECT coalesce(max(seq), 0) FROM ev`, &newest); err != nil {
		return translate(s.path, err)
	}
	if _, err := r.conn.Exec(ctx, `VACUUM INTO ?`, part); err != nil {
		return translate(s.path, err)
	}
	if err := syncFile(part); err != nil {
		return err
	}
	if err := s.readBack(ctx, part, newest); err != nil {
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

// readBack refuses a copy that is not whole, is of another ledger, or lacks the newest event of when it was begun.
func (s *Store) readBack(ctx context.Context, part string, newest int64) error {
	said, err := quickCheck(ctx, part)
	var id string
	var last int64
	if err == nil && said == "ok" {
		err = askOnce(ctx, dsn(part, "ro")+"&immutable=1", `SELECT (SELECT value FROM meta WHERE name = 'id'), coalesce(max(seq), 0)
			FROM ev`, &id, &last)
	}
	if err != nil {
		return translate(part, err)
	}
	if said != "ok" || id != s.id || last < newest {
		return &DamagedError{part, "it was read back, and is not what was copied: " + said}
	}
	return nil
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
