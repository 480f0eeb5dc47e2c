package procgroup

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// AwaitExit returns when the command has exited, without collecting it: until
// then its process id and group belong to nobody else. It reports whether it
// could wait so; where it could not, that is left to exec.Cmd.Wait. stopped, when
// not nil, is called each time the command was stopped.
func (g *Group) AwaitExit(stopped func()) bool {
	const childStopped = 5 // CLD_STOPPED
	events := unix.WEXITED
	if stopped != nil {
		events |= unix.WSTOPPED
	}
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, g.leader, &info, events|unix.WNOWAIT, nil); {
		case err == unix.EINTR:
		case err != nil:
			return false
		case info.Code == childStopped:
			if err := unix.Waitid(unix.P_PID, g.leader, &info, unix.WSTOPPED|unix.WNOHANG, nil); err == nil {
				stopped()
			}
		default:
			return true
		}
	}
}

// Exited tells whether the command is known to have ended by itself already.
func (g *Group) Exited() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, g.leader, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == unix.ECHILD || err == nil && info.Signo != 0
}
