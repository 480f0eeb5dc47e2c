package sqlite

import (
	"testing"

	"golang.org/x/sys/unix"
)

// After a question for the times of a file the next write stamps it anew, and its next
// sync takes half as long again.
func TestALookAtTheFilesAsksForNoTimes(t *testing.T) {
	if asked&(unix.STATX_ATIME|unix.STATX_MTIME|unix.STATX_CTIME) != 0 {
		t.Errorf("asked for %#x", asked)
	}
}
