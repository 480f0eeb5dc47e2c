package tables

import (
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
)

// ReserveRead reserves the next time at which a downstream may be read.
func (s *Store) ReserveRead(ctx context.Context, downstream string, now time.Time, every, patience time.Duration) (at time.Time, mine bool, err error) {
	if downstream == "" || every <= 0 {
		return at, false, fmt.Errorf("a reservation needs a downstream and a time between two reads, not %q and %s", downstream, every)
	}
	// Microseconds: at 300 a second, milliseconds would be a tenth off.
	every = max((every + time.Microsecond - 1).Truncate(time.Microsecond), time.Microsecond)
	now = now.Truncate(time.Microsecond)
	err = s.update(ctx, func(tx *tx) error {
		var had int64
		if err := tx.Lock("pace:" + downstream); err != nil {
			return err
		}
		err := one(tx.Tx, `SELECT next_at FROM paces WHERE downstream = ?`, []any{downstream}, &had)
		if err != nil && !errors.Is(err, errNone) {
			return err
		}
		var next time.Time
		at, mine, next = ledger.NextReservation(time.UnixMicro(had), now, every, patience)
		if free := next.UnixMicro(); mine || free < had {
			return tx.Quietly(`
				INSERT INTO paces (downstream, next_at) VALUES (?, ?)
				ON CONFLICT (downstream) DO UPDATE SET next_at = excluded.next_at`, downstream, free)
		}
		return nil
	})
	if err != nil {
		return time.Time{}, false, err
	}
	return at.UTC(), mine, nil
}
