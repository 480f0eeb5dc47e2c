package procgroup

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// last are the groups that a signal which ends this process at once ends with it.
var last = struct {
	sync.Mutex
	groups  map[*Group]bool
	asked   bool
	signals chan os.Signal
}{groups: map[*Group]bool{}, signals: make(chan os.Signal, 1)}

// StartWithUs starts a command whose group is killed by the signal that ends this process,
// until over is called. A signal waits until it is started. Errors: those of Start.
func StartWithUs(cmd *exec.Cmd) (g *Group, over func(), err error) {
	last.Lock()
	defer last.Unlock()
	if last.asked {
		listen()
	}
	if g, err = Start(cmd); err == nil {
		last.groups[g] = true
	}
	leave(nil)
	return g, func() {
		last.Lock()
		defer last.Unlock()
		leave(g)
	}, err
}

// Asked says that this process was asked to end, and that the next such signal does so
// at once.
func Asked() {
	last.Lock()
	defer last.Unlock()
	if !last.asked {
		last.asked = true
		go endLast()
	}
	if len(last.groups) > 0 {
		listen()
	}
}

func listen() { signal.Notify(last.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) }

// leave lets go of a group. Where there is none, the signal is left to others. It needs
// the lock.
func leave(g *Group) {
	if delete(last.groups, g); len(last.groups) == 0 {
		signal.Stop(last.signals)
	}
}

// endLast kills the groups, and then this process as the signal does by itself: not where
// it was started with the signal ignored.
func endLast() {
	for s := range last.signals {
		last.Lock()
		for g := range last.groups {
			g.Kill()
		}
		signal.Stop(last.signals)
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		last.Unlock()
	}
}
