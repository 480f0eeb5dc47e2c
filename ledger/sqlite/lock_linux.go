package sqlite

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SQLite's locks for writing: of the log's index, and of the file without a log
// (https://sqlite.org/walformat.html, https://sqlite.org/src/file/src/os.h).
const (
	walWriteLock = 120
	pendingByte  = 0x40000000
)

// Holders names the processes that hold the ledger's write lock, as far as this
// system shows them.
func Holders(path string) []string {
	at, err := filesAt(path)
	if err != nil {
		return nil
	}
	list, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer list.Close()
	var out []string
	for lines := bufio.NewScanner(list); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 1234 fe:01:5678 120 120
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[3] != "WRITE" {
			continue
		}
		first, _ := strconv.ParseInt(f[6], 10, 64)
		last, err := strconv.ParseInt(f[7], 10, 64)
		if err != nil { // EOF
			last = 1 << 62
		}
		covers := func(b int64) bool { return first <= b && b <= last }
		if f[5] == lockName(at.shm) && covers(walWriteLock) || f[5] == lockName(at.db) && (covers(pendingByte) || covers(pendingByte+1)) {
			if who := process(f[4]); !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	return out
}

func lockName(f file) string {
	return fmt.Sprintf("%02x:%02x:%d", unix.Major(f.device), unix.Minor(f.device), f.inode)
}

// process is a process as a person knows it.
func process(pid string) string {
	if n, err := strconv.Atoi(pid); err != nil || n <= 0 {
		return "a process outside of this container"
	}
	name, err := os.ReadFile("/proc/" + pid + "/comm")
	if err != nil {
		return "process " + pid
	}
	return fmt.Sprintf("%s (process %s)", bytes.TrimSpace(name), pid)
}
