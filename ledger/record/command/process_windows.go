package command

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Forwarded subscribes to what asks this process to end: Ctrl-C, Ctrl-Break, the
// console closed, the person logged off, the machine shut down. A wrapped command
// hears of each as Ctrl-Break, for Request.Signals.
func Forwarded() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// ends reports whether a signal asks a process to end.
func ends(os.Signal) bool { return true }

func signalNumber(name string) int {
	if name == "SIGINT" {
		return int(syscall.SIGINT)
	}
	return int(syscall.SIGKILL)
}

// guard is not there: a job object ends the command when this process dies.
// While this process is suspended (by a debugger: there is no Ctrl-Z) the
// command is not ended at its deadline.
type guard struct{}

func startGuard([]string) *guard { return nil }

func (*guard) ready(func(string)) int { return 0 }
func (*guard) extend(charge)          {}
func (*guard) rest()                  {}
func (*guard) done()                  {}

// Guard is the guard process's whole life. There is nothing for it to do here.
func Guard(in io.Reader, _ func(attempt string)) { _, _ = io.Copy(io.Discard, in) }
