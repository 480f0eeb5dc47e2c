package sqlite

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// SQLite's locks for writing, of the log's index and of the file without a log, and
// for reading at a place of the log
// (https://sqlite.org/walformat.html, https://sqlite.org/src/file/src/os.h).
const (
	walWriteLock = 120
	walReadLock  = 123
	walReadLocks = 5
	pendingByte  = 0x40000000
)

// Holders names the processes that hold the ledger's write lock, as far as this
// system shows them.
func Holders(path string) []string {
	at, err := filesAt(path)
	if err != nil {
		return nil
	}
	return lockers("WRITE", func(name string, first, last int64) bool {
		covers := func(b int64) bool { return first <= b && b <= last }
		return name == lockName(at.shm) && covers(walWriteLock) || name == lockName(at.db) && (covers(pendingByte) || covers(pendingByte+1))
	})
}

// Readers names the processes that have a read of the ledger open: a checkpoint
// empties the log no further than to where they began.
func Readers(path string) []string {
	at, err := filesAt(path)
	if err != nil {
		return nil
	}
	return lockers("READ", func(name string, first, last int64) bool {
		return name == lockName(at.shm) && first < walReadLock+walReadLocks && last >= walReadLock
	})
}

// lockers names the processes with a lock that is looked for.
func lockers(mode string, wanted func(name string, first, last int64) bool) (out []string) {
	list, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer list.Close()
	for lines := bufio.NewScanner(list); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 1234 fe:01:5678 120 120
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[3] != mode {
			continue
		}
		first, _ := strconv.ParseInt(f[6], 10, 64)
		last, err := strconv.ParseInt(f[7], 10, 64)
		if err != nil { // EOF
			last = 1 << 62
		}
		if wanted(f[5], first, last) {
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
	whose := ""
	if info, err := os.Stat("/proc/" + pid); err == nil {
		whose = " of " + userName(info.Sys().(*syscall.Stat_t).Uid)
	}
	return fmt.Sprintf("%s (process %s%s)", bytes.TrimSpace(name), pid, whose)
}
