package sqlite

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// writeLock lets one process at a time into a write transaction. SQLite's own lock
// starves: a process that has just let go takes it again before a sleeper wakes.
// Two file locks make a queue: the process that waits for the lock holds next, so
// that the one that comes back lets it through first.
type writeLock struct {
	next, lock *os.File

	mu      sync.Mutex
	waiting bool       // it is waited for; the wait outlives its acquire
	wanted  bool       // and by an acquire
	got     chan error // what the wait gave to that
}

func newWriteLock(path string) (*writeLock, error) {
	lock, err := openSide(path, ".lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	next, err := openSide(path, ".bell", os.O_CREATE|os.O_RDWR)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &writeLock{next: next, lock: lock, got: make(chan error, 1)}, nil
}

// acquire waits at most patience. It returns false when the time ran out; the wait
// goes on, and the next acquire takes it over. Only one goroutine calls it.
func (g *writeLock) acquire(patience time.Duration) (bool, error) {
	if ok, err := g.want(); ok || err != nil {
		return ok, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-g.got:
		return err == nil, err
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wanted = false
	select {
	case err := <-g.got: // just now
		return err == nil, err
	default:
		return false, nil
	}
}

// want takes the lock where it is free, and else has it waited for.
func (g *writeLock) want() (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.waiting {
		first, err := try(g.next)
		if err != nil {
			return false, err
		}
		if first {
			if ok, err := try(g.lock); ok || err != nil {
				return ok, errors.Join(err, flock(g.next, unix.LOCK_UN))
			}
		}
		g.waiting = true
		go func() { g.hand(g.queue(first)) }()
	}
	g.wanted = true
	return false, nil
}

// hand gives what a wait has brought to the acquire that wants it. Where none does any more,
// nobody would let the lock go again.
func (g *writeLock) hand(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = false
	switch {
	case g.wanted:
		g.wanted = false
		g.got <- err
	case err == nil:
		g.release()
	}
}

// queue waits for next, unless it is held already, and then for the lock.
func (g *writeLock) queue(first bool) error {
	if !first {
		if err := flock(g.next, unix.LOCK_EX); err != nil {
			return err
		}
	}
	err := flock(g.lock, unix.LOCK_EX)
	return errors.Join(err, flock(g.next, unix.LOCK_UN))
}

func (g *writeLock) release() { flock(g.lock, unix.LOCK_UN) }

// close also ends a wait that goes on: it lets go of what it still gets.
func (g *writeLock) close() error { return errors.Join(g.lock.Close(), g.next.Close()) }

func try(f *os.File) (bool, error) {
	err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// flock keeps the file open while it waits: a file that is opened meanwhile must not get
// its number.
func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		if closed := conn.Control(func(fd uintptr) { err = unix.Flock(int(fd), how) }); closed != nil {
			return closed
		}
	}
	return err
}
