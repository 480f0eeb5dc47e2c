//go:build !unix

package sqlite

import (
	"os"
	"time"
)

// writeLock is always free here: SQLite's own lock and the writer's retries decide.
type writeLock struct{}

func newWriteLock(string) (*writeLock, error)          { return &writeLock{}, nil }
func (*writeLock) acquire(time.Duration) (bool, error) { return true, nil }
func (*writeLock) release()                            {}
func (*writeLock) close() error                        { return nil }

// try is always let in here: a file that is open can be removed by no other.
func try(*os.File) (bool, error) { return true, nil }
