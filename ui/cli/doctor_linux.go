package cli

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeSpace is how many bytes this user may still write beside the ledger.
// Whether its file system is local was decided when the ledger was opened.
func freeSpace(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}
