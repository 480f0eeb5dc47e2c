package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openSide opens a file beside the ledger, and makes it where how says so. It
// belongs to the ledger's owner and has the ledger's rights, as SQLite's own files
// have: a command of root's must lock no account out. A link is not followed: the
// account that made it would choose which file is written.
func openSide(path, suffix string, how int) (*os.File, error) {
	owner, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	want, mode := owner.Sys().(*syscall.Stat_t), owner.Mode().Perm()&0o660
	f, err := os.OpenFile(path+suffix, how|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if errors.Is(err, unix.ELOOP) {
		return nil, &SideFileError{path + suffix, "is a symbolic link"}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("open a file beside the ledger: %w", err)
	case err != nil:
		return nil, &IOError{path + suffix, err}
	}
	if err := ownSide(f, want, mode); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func ownSide(f *os.File, want *syscall.Stat_t, mode fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return &IOError{f.Name(), err}
	}
	has := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return &SideFileError{f.Name(), "is no regular file"}
	case has.Nlink > 1:
		return &SideFileError{f.Name(), "has another name (a hard link)"}
	}
	me := os.Geteuid()
	if me == 0 && (has.Uid != want.Uid || has.Gid != want.Gid) {
		if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
			return &IOError{f.Name(), err}
		}
	}
	if info.Mode().Perm() != mode && (me == 0 || int(has.Uid) == me) {
		return f.Chmod(mode)
	}
	return nil
}

// regular refuses a log that is something else than a file.
func regular(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		info, err := os.Lstat(path + suffix)
		switch {
		case err != nil || info.Mode().IsRegular():
		case info.Mode()&fs.ModeSymlink != 0:
			return &SideFileError{path + suffix, "is a symbolic link"}
		default:
			return &SideFileError{path + suffix, "is no regular file"}
		}
	}
	return nil
}

func may(path string, how uint32) error {
	return unix.Faccessat(unix.AT_FDCWD, path, how, unix.AT_EACCESS)
}

// readable refuses a ledger that this account may not read.
func readable(path string) error {
	if err := may(path, unix.R_OK); errors.Is(err, unix.EACCES) {
		return denied(path, "read", 0o400)
	}
	return nil
}

func denied(path, done string, bit fs.FileMode) error {
	e := &PermissionError{Path: path, Done: done, Whose: "its owner is not known"}
	if info, err := os.Stat(path); err == nil {
		e.Whose = fmt.Sprintf("it belongs to %s, mode %04o", userName(info.Sys().(*syscall.Stat_t).Uid), info.Mode().Perm())
		e.Shut = info.Mode().Perm()&bit == 0
	}
	return e
}

// writableBy refuses a ledger that this account may not write to.
func writableBy(path string) error {
	file, dir := may(path, unix.W_OK), may(filepath.Dir(path), unix.W_OK)
	switch {
	case errors.Is(cmp.Or(file, dir), unix.EROFS):
		return &ReadOnlyDirError{path, true}
	case file != nil:
		return denied(path, "written", 0o200)
	case dir != nil:
		return &ReadOnlyDirError{Path: path}
	}
	return nil
}

// share gives a ledger to a group, with its directory where that was made for it. One
// that was there is left as it is: what else is there was not put there for that.
func share(path, group string, made bool) error {
	gid, err := groupID(group)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if made {
		if err := errors.Join(os.Chown(dir, -1, gid), os.Chmod(dir, 0o770|fs.ModeSetgid)); err != nil {
			return fmt.Errorf("give the ledger's directory to the group %s: %w", group, err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the ledger's directory: %w", err)
	}
	if int(info.Sys().(*syscall.Stat_t).Gid) != gid || info.Mode()&fs.ModeSetgid == 0 || info.Mode()&0o030 != 0o030 {
		return &GroupError{group, fmt.Sprintf("the directory %s is not the group's: chgrp %s %s && chmod 2770 %s", dir, group, dir, dir)}
	}
	for _, side := range []string{"-wal", "-shm", keyFile, ".lock", ".bell", reserveFile, ""} { // itself last: then it is shared
		info, err := os.Lstat(path + side)
		switch {
		case side != "" && errors.Is(err, fs.ErrNotExist):
			continue
		case side != "" && err == nil && !info.Mode().IsRegular():
			return &SideFileError{path + side, "is no regular file"}
		}
		if err := errors.Join(os.Chown(path+side, -1, gid), os.Chmod(path+side, 0o660)); err != nil {
			return &GroupError{group, err.Error()}
		}
	}
	return nil
}

// exposed says who else can change what the ledger says, where that is not its
// group on purpose.
func exposed(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	var why []string
	st, mode, group := info.Sys().(*syscall.Stat_t), info.Mode().Perm(), shared(path)
	if int(st.Uid) != os.Geteuid() && !group {
		why = append(why, "it belongs to another account, "+userName(st.Uid))
	}
	switch {
	case mode&0o002 != 0:
		why = append(why, fmt.Sprintf("every account may change it (mode %#o)", mode))
	case mode&0o020 != 0 && !group:
		why = append(why, fmt.Sprintf("its group may change it (mode %#o), and its directory is not the group's", mode))
	case mode&0o004 != 0 || mode&0o040 != 0 && !group:
		why = append(why, fmt.Sprintf("other accounts may read it (mode %#o)", mode))
	}
	if d, err := os.Stat(filepath.Dir(path)); err == nil && d.Mode().Perm()&0o002 != 0 {
		why = append(why, "every account may make files beside it")
	}
	return strings.Join(why, "; ")
}

// shared reports whether a ledger was given to a group; see share.
func shared(path string) bool {
	f, err := os.Stat(path)
	d, wrong := os.Stat(filepath.Dir(path))
	return err == nil && wrong == nil && f.Mode().Perm()&0o067 == 0o060 && d.Mode()&fs.ModeSetgid != 0 && d.Mode().Perm()&0o007 == 0 &&
		f.Sys().(*syscall.Stat_t).Gid == d.Sys().(*syscall.Stat_t).Gid
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
