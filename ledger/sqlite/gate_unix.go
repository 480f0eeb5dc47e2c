//go:build unix

package sqlite

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// gate lets one process at a time into a write transaction. SQLite's own lock
// starves: whoever has just let go takes it again before a sleeper wakes. Two
// file locks make a queue of it. The one that waits for the gate holds the
// turnstile, so that whoever comes back must let it through first.
type gate struct {
	turnstile, lock *os.File
	waiting         chan error // a wait that outlived its enter
}

func newGate(path string) (*gate, error) {
	lock, err := openSide(path, ".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	turnstile, err := openSide(path, ".bell", os.O_CREATE|os.O_RDWR)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &gate{turnstile: turnstile, lock: lock}, nil
}

// enter waits at most patience. It tells false when the time ran out; the wait
// goes on behind it, and the next enter takes it over. One goroutine enters.
func (g *gate) enter(patience time.Duration) (bool, error) {
	if g.waiting == nil {
		first, err := try(g.turnstile)
		if err != nil {
			return false, err
		}
		if first {
			if ok, err := try(g.lock); ok || err != nil {
				return ok, errors.Join(err, flock(g.turnstile, unix.LOCK_UN))
			}
		}
		waiting := make(chan error, 1)
		go func() { waiting <- g.queue(first) }()
		g.waiting = waiting
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-g.waiting:
		g.waiting = nil
		return err == nil, err
	case <-timer.C:
		return false, nil
	}
}

// queue waits for the turnstile, unless it is held already, and for the gate.
func (g *gate) queue(first bool) error {
	if !first {
		if err := flock(g.turnstile, unix.LOCK_EX); err != nil {
			return err
		}
	}
	err := flock(g.lock, unix.LOCK_EX)
	return errors.Join(err, flock(g.turnstile, unix.LOCK_UN))
}

func (g *gate) leave() { flock(g.lock, unix.LOCK_UN) }

func (g *gate) close() error { return errors.Join(g.lock.Close(), g.turnstile.Close()) }

func try(f *os.File) (bool, error) {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
