//go:build !linux

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

func fileAt(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return file{}, errors.New("the file system does not number its files")
	}
	return file{device: uint64(st.Dev), inode: uint64(st.Ino), names: uint64(st.Nlink), size: info.Size(), dir: info.IsDir()}, nil
}

func fileWhen(path string) (file, error) {
	f, err := fileAt(path)
	if err != nil {
		return f, err
	}
	info, err := os.Stat(path)
	if err == nil {
		f.changed = info.ModTime().UnixNano()
	}
	return f, err
}

// inUse is not told here.
func inUse(string) (header, bool, error) { return header{}, false, nil }

// abandon needs locks that only Linux has: SQLite would write a log that is not
// to count any more into the file.
func (s *handle) abandon() error { return lostLog(s.path) }

func (s *handle) alone() (bool, error) { return false, nil }

// renameNew is not there here.
func renameNew(_, _ string) error { return errors.ErrUnsupported }
