//go:build unix

package sqlite

import (
	"fmt"
	"os"
	"syscall"
)

// fileID names a file on its host, whatever it is called.
func fileID(path string) (device, inode string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", "", fmt.Errorf("the file system does not number its files")
	}
	return fmt.Sprint(st.Dev), fmt.Sprint(st.Ino), nil
}
