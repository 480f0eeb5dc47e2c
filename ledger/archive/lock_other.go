//go:build !unix

package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// lockDir keeps other redactions from the files of a directory. A file that a process left
// which was ended can be removed here, while one that is open cannot.
func lockDir(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, ".indoubt-redact.lock")
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s", ErrBusyDir, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the archives: %w", err)
	}
	return func() { f.Close(); _ = os.Remove(path) }, nil
}
