//go:build unix

package cli

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// gateHeld tells whether a writer stands in the ledger's gate for longer than a
// write takes.
func gateHeld(path string) (bool, error) {
	f, err := os.Open(path + ".lock")
	if err != nil {
		return false, err
	}
	defer f.Close()
	for end := time.Now().Add(time.Second); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			return false, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return false, err
		}
		if time.Now().After(end) {
			return true, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}
