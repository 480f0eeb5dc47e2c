package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
)

// Pace reserves a turn at a downstream.
func (s *Store) Pace(ctx context.Context, downstream string, now time.Time, every, patience time.Duration) (turn time.Time, mine bool, err error) {
	if downstream == "" || every <= 0 {
		return turn, false, fmt.Errorf("a pace needs a downstream and a time between two turns, not %q and %s", downstream, every)
	}
	// Microseconds: at 300 a second, milliseconds would be a tenth off.
	every = max((every + time.Microsecond - 1).Truncate(time.Microsecond), time.Microsecond)
	now = now.Truncate(time.Microsecond)
	err = s.write(ctx, func(tx *tx) error {
		var had int64
		err := tx.scan(`SELECT next_at FROM paces WHERE downstream = ?`, []any{downstream}, &had)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var next time.Time
		turn, mine, next = ledger.NextTurn(time.UnixMicro(had), now, every, patience)
		if at := next.UnixMicro(); mine || at < had {
			_, err = tx.quietly(`
				INSERT INTO paces (downstream, next_at) VALUES (?, ?)
				ON CONFLICT (downstream) DO UPDATE SET next_at = excluded.next_at`, downstream, at)
			return err
		}
		return nil
	})
	if err != nil {
		return time.Time{}, false, err
	}
	return turn.UTC(), mine, nil
}
