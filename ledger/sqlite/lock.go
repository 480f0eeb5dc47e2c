package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// locked says that a lock was waited for in vain.
func locked(path string) error { return fmt.Errorf("%w: %s stayed locked", ledger.ErrBusy, path) }

// TryLock takes SQLite's write lock and lets it go; what it waits for is at most a
// second. Errors: ledger.ErrBusy.
func TryLock(ctx context.Context, path string) error { return tryLock(ctx, path, time.Second) }

func tryLock(ctx context.Context, path string, wait time.Duration) error {
	path, err := absolute(path)
	if err != nil {
		return err
	}
	if err := cmp.Or(readable(path), writableBy(path)); err != nil {
		return err
	}
	// A file without a log, as a copy is, stays one: who has it open would take the log for another one's.
	conn, err := store.Dial(dsn(path, "rw"), 0)
	if err == nil {
		err = conn.Script(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d; BEGIN IMMEDIATE; ROLLBACK`, wait.Milliseconds()))
		err = errors.Join(err, conn.Close())
	}
	return translate(path, err)
}
