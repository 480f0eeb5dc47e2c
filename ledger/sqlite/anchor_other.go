//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

// fileAt does not number files: one that is open cannot be removed or replaced
// here, and whether it has two names is not told.
func fileAt(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	return file{inode: 1, names: 1, dir: info.IsDir()}, nil
}

// fileWhen does not tell when either: a file that is open is SQLite's alone here.
func fileWhen(path string) (file, error) { return fileAt(path) }

func inUse(string) (header, bool, error) { return header{}, false, nil }

func (s *handle) abandon() error { return lostLog(s.path) }

func (s *handle) alone() (bool, error) { return false, nil }

// renameNew is not there here.
func renameNew(_, _ string) error { return errors.ErrUnsupported }
