package mcpwire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts the server into a process group of its own, so that a signal at
// the terminal does not reach it, and has the kernel kill it when this process
// dies, however it dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has exited, without collecting it: until
// then its process id and group belong to nobody else.
// It reports whether it could wait so.
func awaitExit(pid int) bool {
	var info unix.Siginfo
	for {
		switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err {
		case nil:
			return true
		case unix.EINTR:
		default:
			return false
		}
	}
}
