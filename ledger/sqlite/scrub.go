package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger/store"
)

// Scrub writes the ledger's file anew without what was deleted or overwritten in it, and
// empties its log. Writers wait meanwhile. It returns where text may be left still.
func (s *Store) Scrub(ctx context.Context) (left string, err error) {
	if err := s.mayWrite(); err != nil {
		return "", err
	}
	conn, err := store.Dial(dsn(s.path, "rw", append(slices.Clip(writing), "temp_store(FILE)")...), 0) // it may be large
	if err != nil {
		return "", translate(s.path, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// Another program may have had samples made of what is looked for.
	if err := conn.Script(ctx, `DROP TABLE IF EXISTS sqlite_stat4; VACUUM`); err != nil {
		return "", translate(s.path, fmt.Errorf("write the ledger anew: %w", err))
	}
	for patience := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var busy, log, copied int64
		if err := one(&reader{ctx: ctx, conn: conn}, `PRAGMA wal_checkpoint(TRUNCATE)`, &busy, &log, &copied); err != nil {
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
