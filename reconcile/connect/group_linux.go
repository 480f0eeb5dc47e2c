package connect

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the program into a process group of its own, and ends it with
// this process: a sender that is gone can no longer keep its deadline.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
