package tables

import (
	"context"
	"errors"

	"indoubt/ledger"
)

// RegisterEngine writes down that an engine is at work, and forgets those that are gone
// but for the last: it says when one was at work at all.
func (s *Store) RegisterEngine(ctx context.Context, p ledger.Registration) error {
	if p.Holder == "" {
		return errors.New("an engine needs a name")
	}
	return s.update(ctx, func(tx *tx) error {
		now := tx.now()
		longest := now.Add(ledger.LongestRegistration)
		if p.Until.After(longest) {
			p.Until = longest
		}
		var err error
		if p.Until.After(now) {
			err = tx.Quietly(`INSERT INTO engines (holder, since, until) VALUES (?1, ?2, ?3)
				ON CONFLICT (holder) DO UPDATE SET since = excluded.since, until = excluded.until`, p.Holder, tx.d.Time(p.Since), tx.d.Time(p.Until))
		} else {
			err = tx.Quietly(`UPDATE engines SET until = ?2 WHERE holder IN (SELECT holder FROM engines WHERE holder = ?1 AND until > ?3)`, p.Holder, tx.d.Time(now), Millis(now))
		}
		if err != nil {
			return err
		}
		return tx.Quietly(`DELETE FROM engines WHERE holder IN (SELECT holder FROM engines WHERE until <= ?1 OR until > ?2)
			AND holder <> (SELECT holder FROM engines ORDER BY CASE WHEN until > ?2 THEN 0 ELSE 1 END DESC, until DESC, holder LIMIT 1)`, Millis(now), Millis(longest))
	})
}

// Engines are those at work, in the order they came.
func (s *Store) Engines(ctx context.Context) ([]ledger.Registration, error) {
	now, err := s.db.Moment(ctx)
	if err != nil {
		return nil, err
	}
	return Gather(ctx, s.db, func(rows Rows) (p ledger.Registration, err error) {
		var since, until int64
		err = rows.Scan(&p.Holder, &since, &until)
		p.Since, p.Until = At(since), At(until)
		return p, err
	}, `SELECT holder, since, until FROM engines WHERE until > ? AND until <= ? ORDER BY since, holder`,
		Millis(now.Wall), Millis(now.Wall.Add(ledger.LongestRegistration)))
}
