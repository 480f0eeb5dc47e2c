package procgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"indoubt/ledger"
)

// noProcess reports whether no process has the id, or one that has ended and that nobody has
// asked for its exit code yet, as in a container without an init.
func noProcess(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	e, err := look(pid)
	return err == nil && !e.alive()
}

func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

func uptime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}

const (
	tick = 10 * time.Millisecond // USER_HZ, which /proc counts in
	// unsure is how far the wall clock may have been set since the attempt began.
	unsure = time.Minute
)

// marked returns the processes that carry the attempt's mark. It includes the
// recorder of the attempt while that is stopped: it may still start the command.
func marked(a ledger.Attempt, here ledger.Place) ([]Process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	up, err := uptime()
	if err != nil {
		return nil, err
	}
	began := up - time.Since(a.StartedAt) - unsure
	var found []Process
	for _, e := range all {
		if e.kernel {
			continue
		}
		is, err := e.carries(a.ID)
		switch {
		case is || e.PID == a.PID && (e.state == 'T' || e.state == 't'):
			found = append(found, e.Process)
		case err != nil && time.Duration(e.start)*tick >= began && mayBeOf(e, a, here):
			return nil, fmt.Errorf("process %s does not show whose it is: %w", e, err)
		}
	}
	return found, nil
}

// mayBeOf reports whether a process that cannot be inspected may belong to the
// attempt: it has the attempt's account, or the caller is root and should see all.
func mayBeOf(e entry, a ledger.Attempt, here ledger.Place) bool {
	ids, err := e.uids()
	if gone(err) {
		return false
	}
	return err != nil || here.UID == 0 || slices.Contains(ids, a.UID)
}
