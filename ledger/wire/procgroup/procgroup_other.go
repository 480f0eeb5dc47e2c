//go:build !linux

package procgroup

import (
	"errors"
	"syscall"
	"time"

	"indoubt/ledger"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Adopt reports false: this system gives orphans to init.
func Adopt() bool { return false }

// AwaitExit reports false: it cannot wait without collecting, so exec.Cmd.Wait has
// to. A stopped command is not noticed.
func (g *Group) AwaitExit(func()) bool { return false }

// Exit reports false: nothing is known before exec.Cmd.Wait has returned.
func (g *Group) Exit() (how string, exited bool) { return "", false }

// Reap does nothing: there are no adopted processes.
func (g *Group) Reap() {}

// Left returns the process group: this system shows no more.
func (g *Group) Left() ([]Process, error) {
	if g.leader <= 1 || syscall.Kill(-g.leader, 0) == syscall.ESRCH {
		return nil, nil
	}
	return []Process{{PID: g.leader, UID: -1, Name: "process group"}}, nil
}

func (g *Group) signalRest(...syscall.Signal) {}

func (g *Group) kill([]Process) { g.killGroup() }

func noProcess(int) bool { return false }

func pidNamespace() string { return "" }

func uptime() (time.Duration, error) { return 0, errors.ErrUnsupported }

func marked(ledger.Attempt, ledger.Place) ([]Process, error) { return nil, errors.ErrUnsupported }
