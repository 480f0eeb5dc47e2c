package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// diskAt gives what is free for this account, and the size, of a file system.
func diskAt(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	err = unix.Statfs(dir, &st)
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, err
}

func allocate(f *os.File, n int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, n) }
