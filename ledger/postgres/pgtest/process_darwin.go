package pgtest

import "syscall"

// attributes let the server run as an account that may.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Credential: account()} }
