package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"indoubt/ledger"
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
		return nil, odd(path+suffix, "is a symbolic link")
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
		return odd(f.Name(), "is no regular file")
	case has.Nlink > 1:
		return odd(f.Name(), "has another name (a hard link)")
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
			return odd(path+suffix, "is a symbolic link")
		default:
			return odd(path+suffix, "is no regular file")
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

// denied says that this account may not do that with the file, and whose it is. One that may not be
// written can be looked at.
func denied(path, done string, bit fs.FileMode) error {
	e := &Refusal{Code: "permission", Path: path, After: " cannot be " + done + " by this account",
		Do: "use the account it belongs to, or share it with a group (indoubt init --group)"}
	if info, err := os.Stat(path); err == nil {
		e.After += fmt.Sprintf(": it belongs to %s, mode %04o", userName(info.Sys().(*syscall.Stat_t).Uid), info.Mode().Perm())
		if info.Mode().Perm()&bit == 0 { // not even they may
			e.Do = "give it its mode back: chmod 600, or 660 where a group shares it"
		}
	}
	if done == "written" {
		e.Do, e.is = e.Do+", or look at it with --read-only", ledger.ErrReadOnly
	}
	return e
}

// writableBy refuses a ledger that this account may not write to.
func writableBy(path string) error {
	file, dir := may(path, unix.W_OK), may(filepath.Dir(path), unix.W_OK)
	switch {
	case errors.Is(cmp.Or(file, dir), unix.EROFS):
		return &Refusal{Code: "permission", Before: "the file system of ", Path: path, After: " is mounted read-only",
			Do: "see why (dmesg: an error of its disk does that), and mount it for writing, or look at the ledger with --read-only", is: ledger.ErrReadOnly}
	case file != nil:
		return denied(path, "written", 0o200)
	case dir != nil:
		return shut(path)
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
		return groupless(group, fmt.Sprintf("the directory %s is not the group's: chgrp %s %s && chmod 2770 %s", dir, group, dir, dir))
	}
	for _, side := range []string{"-wal", "-shm", keyFile, ".lock", ".bell", reserveFile, ""} { // itself last: then it is shared
		info, err := os.Lstat(path + side)
		switch {
		case side != "" && errors.Is(err, fs.ErrNotExist):
			continue
		case side != "" && err == nil && !info.Mode().IsRegular():
			return odd(path+side, "is no regular file")
		}
		if err := errors.Join(os.Chown(path+side, -1, gid), os.Chmod(path+side, 0o660)); err != nil {
			return groupless(group, err.Error())
		}
	}
	return nil
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
