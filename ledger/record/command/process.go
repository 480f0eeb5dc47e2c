package command

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// ignored are those of them that this process was started to ignore (nohup),
// as found before anything subscribes to them.
var ignored = func() map[os.Signal]bool {
	found := map[os.Signal]bool{}
	for _, s := range forwarded {
		found[s] = signal.Ignored(s)
	}
	return found
}()

// Forwarded subscribes to the signals that a wrapped command must hear of, for
// Request.Signals. Those that this process was started to ignore (nohup) stay
// ignored. It also keeps a closed standard output from ending this process: the
// command's outcome must be recorded all the same.
func Forwarded() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	for _, s := range forwarded {
		if !ignored[s] {
			signal.Notify(c, s)
		}
	}
	return c, func() { signal.Stop(c); signal.Stop(pipe) }
}

func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

// ends reports whether a signal asks a process to end.
func ends(s os.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func signalNumber(name string) int { return int(unix.SignalNum(name)) }
