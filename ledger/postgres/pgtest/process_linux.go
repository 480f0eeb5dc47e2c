package pgtest

import "syscall"

// attributes let the server run as an account that may, and end with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account(), Pdeathsig: syscall.SIGQUIT}
}
