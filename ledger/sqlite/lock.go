package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"

	"indoubt/ledger"
)

// locked says who holds the lock that was waited for, where the system tells.
func locked(path string) error {
	if who := Holders(path); len(who) > 0 {
		return fmt.Errorf("%w: %s holds %s", ledger.ErrBusy, strings.Join(who, ", "), path)
	}
	return fmt.Errorf("%w: %s stayed locked", ledger.ErrBusy, path)
}

// TryLock takes SQLite's write lock and lets it go; what it waits for is at most a
// second. Errors: one that matches ledger.ErrBusy and names the holder.
func TryLock(ctx context.Context, path string) error {
	path, err := absolute(path)
	if err != nil {
		return err
	}
	if err := cmp.Or(readable(path), writableBy(path)); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", strings.Replace(dsn(path, "rw"), "busy_timeout%285000%29", "busy_timeout%281000%29", 1))
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
