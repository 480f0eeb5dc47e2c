package record

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts the command into a process group of its own, and has the kernel
// kill it when this process dies, however it dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has exited, without collecting it: until
// then its process id and group belong to nobody else. It reports whether it
// could wait so. stopped, when not nil, is called each time the process was
// stopped.
func awaitExit(pid int, stopped func()) bool {
	const childStopped = 5 // CLD_STOPPED
	events := unix.WEXITED
	if stopped != nil {
		events |= unix.WSTOPPED
	}
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, pid, &info, events|unix.WNOWAIT, nil); {
		case err == unix.EINTR:
		case err != nil:
			return false
		case info.Code == childStopped:
			if err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil); err == nil {
				stopped()
			}
		default:
			return true
		}
	}
}

// hasExited tells whether the process has ended by itself already.
func hasExited(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == unix.ECHILD || err == nil && info.Signo != 0
}
