//go:build unix

package procgroup

import (
	"os"
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

// EndWithUs has a group killed by the signal that ends this process, until over is
// called.
func EndWithUs(g *Group) (over func()) {
	last.Lock()
	defer last.Unlock()
	last.groups[g] = true
	listen()
	return func() {
		last.Lock()
		defer last.Unlock()
		if delete(last.groups, g); len(last.groups) == 0 {
			signal.Stop(last.signals)
		}
	}
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
	listen()
}

// listen needs the lock. Where there is no group, the signal is left to others.
func listen() {
	if last.asked && len(last.groups) > 0 {
		signal.Notify(last.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
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
