package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
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
	db, err := sql.Open("sqlite", strings.NewReplacer("busy_timeout%285000%29", fmt.Sprintf("busy_timeout%%28%d%%29", wait.Milliseconds()), "_pragma=journal_mode%28WAL%29&", "").Replace(dsn(path, "rw")))
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil) // immediate, as the name of the database says
	if err != nil {
		return translate(path, err)
	}
	return tx.Rollback()
}
