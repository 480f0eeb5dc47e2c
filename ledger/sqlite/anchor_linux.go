package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// asked is what fileAt wants to know. It leaves out the times: after a question for
// them the next write stamps the file anew, and a sync of the log has that to write, too.
const asked = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_UID | unix.STATX_INO | unix.STATX_SIZE | unix.STATX_BTIME

func fileAt(path string) (file, error)   { return fileAs(path, asked) }
func fileWhen(path string) (file, error) { return fileAs(path, asked|unix.STATX_CTIME) }

func fileAs(path string, asked int) (file, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, asked, &st)
	if err != nil {
		return file{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	f := file{
		device: unix.Mkdev(st.Dev_major, st.Dev_minor), inode: st.Ino, names: uint64(st.Nlink), size: int64(st.Size), born: st.Btime.Sec*1e9 + int64(st.Btime.Nsec),
		mounted: st.Attributes&st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR,
	}
	if asked&unix.STATX_CTIME != 0 { // else it may be told, and change with every write
		f.changed = st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec)
	}
	return f, nil
}

// renameNew renames a file, and fails where the new name is there.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // not every file system has it
		return errors.ErrUnsupported
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// A program that has a ledger open holds a lock on these bytes of it, shared
// (https://sqlite.org/src/file/src/os.h).
const (
	sharedFirst = 0x40000000 + 2
	sharedSize  = 510
)

// inUse reports whether any process, this one too, has the ledger open whose log
// is not there. A file that has no log yet is used as any database is. Where no
// process has it open, the header is what the ledger says of itself.
func inUse(path string) (h header, open bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, false, &IOError{path, err}
	}
	defer f.Close()
	if _, err := f.ReadAt(h[:], 0); err != nil || !h.logs() {
		return header{}, false, nil
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: sharedFirst, Len: sharedSize}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		return header{}, false, nil // this file system does not tell
	}
	return h, lock.Type != unix.F_UNLCK, nil
}

// abandon closes what is open without a checkpoint, which SQLite makes of a log
// when the last one leaves that has the ledger open. A lock of our own keeps it
// from taking us for the last one.
func (s *handle) abandon() error {
	f, err := os.Open(s.path)
	if err != nil {
		return &IOError{s.path, err}
	}
	defer f.Close() // the process loses its locks on the file here, so last
	lock := unix.Flock_t{Type: unix.F_RDLCK, Start: sharedFirst, Len: sharedSize}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		return errors.Join(lostLog(s.path), err)
	}
	return s.disconnect()
}

// alone reports whether no other process has the ledger open. The file stays open
// until the connections are closed: this process would lose its locks with it.
func (s *handle) alone() (bool, error) {
	if s.probe == nil {
		f, err := os.Open(s.path)
		if err != nil {
			return false, &IOError{s.path, err}
		}
		s.probe = f
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: sharedFirst, Len: sharedSize}
	err := unix.FcntlFlock(s.probe.Fd(), unix.F_GETLK, &lock)
	return err == nil && lock.Type == unix.F_UNLCK, err
}
