//go:build !unix

package record

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// errNoGroups: a fence that cannot end what the command has started is none
// (I3), and nothing here has been shown to. The proxies, Do, and begin with
// settle need no such thing.
var errNoGroups = errors.New("commands cannot be wrapped on this system: their processes cannot be ended together; use begin and settle, or a proxy")

func groups() error { return errNoGroups }

// Forwarded subscribes to the signals that a wrapped command must hear of, for
// RunRequest.Signals.
func Forwarded() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}

func ignoreSignals() { signal.Ignore(os.Interrupt) }

func signalGroup(int, syscall.Signal) {}

func wake(int) {}

func forward(int, os.Signal) {}

func ends(os.Signal) bool { return true }

func ownSession() *syscall.SysProcAttr { return nil }

func ownGroup() *syscall.SysProcAttr { return nil }

func killedBy(*os.ProcessState) string { return "" }

func signalNumber(string) int { return 0 }

func awaitExit(int, func()) bool { return false }

func hasExited(int) bool { return false }

type terminal struct{}

func ownTerminal(io.Reader, io.Writer) *terminal { return nil }

func (*terminal) begins(*syscall.SysProcAttr) {}
func (*terminal) back(bool)                   {}
func (*terminal) paused(int)                  {}
