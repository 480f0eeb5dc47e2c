//go:build !unix

package mcpwire

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func awaitExit(int) bool { return false }

// signalGroup ends the server itself, whatever the signal: there are no process
// groups here, and what it has started is left to end with it.
func signalGroup(leader int, _ syscall.Signal) {
	if p, err := os.FindProcess(leader); err == nil {
		_ = p.Kill()
	}
}
