package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Scrub writes the ledger's file anew without what was deleted or overwritten in it, and
// empties its log. Writers wait meanwhile. It returns where text may be left still.
func (s *Store) Scrub(ctx context.Context) (left string, err error) {
	if err := s.mayWrite(); err != nil {
		return "", err
	}
	db, err := sql.Open("sqlite", dsn(s.path, "rw", "temp_store(FILE)")) // it may be large
	if err != nil {
		return "", err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var analyzed bool // by another program: it has samples of what is looked for
	if err := db.QueryRowContext(ctx, `SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'sqlite_stat4'`).Scan(&analyzed); err != nil {
		return "", translate(s.path, err)
	}
	if analyzed {
		if _, err := db.ExecContext(ctx, `ANALYZE`); err != nil {
			return "", translate(s.path, fmt.Errorf("make the statistics anew: %w", err))
		}
	}
	if _, err := db.ExecContext(ctx, `VACUUM`); err != nil {
		return "", translate(s.path, fmt.Errorf("write the ledger anew: %w", err))
	}
	for patience := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var busy, log, copied int
		if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &copied); err != nil {
			return "", translate(s.path, fmt.Errorf("empty the log: %w", err))
		}
		switch {
		case busy == 0:
			return "copies and backups of the ledger", nil
		case time.Now().After(patience):
			return "the ledger's log, which others read just now; copies and backups of the ledger", nil
		}
	}
}
