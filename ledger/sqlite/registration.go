package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"indoubt/ledger"
)

// RegisterEngine writes down that an engine is at work, and forgets those that are gone
// but for the last: it says when one was at work at all.
func (s *Store) RegisterEngine(ctx context.Context, p ledger.Registration) error {
	if p.Holder == "" {
		return errors.New("an engine needs a name")
	}
	return s.write(ctx, func(tx *tx) error {
		now := s.now()
		var err error
		if p.Until.After(now) {
			_, err = tx.quietly(`INSERT INTO engines (holder, digest, since, until) VALUES (?1, ?2, ?3, ?4)
				ON CONFLICT (holder) DO UPDATE SET digest = ?2, since = ?3, until = ?4`, p.Holder, p.Digest, ms(p.Since), ms(p.Until))
		} else {
			_, err = tx.quietly(`UPDATE engines SET until = ?2 WHERE holder = ?1 AND until > ?2`, p.Holder, ms(now))
		}
		if err != nil {
			return err
		}
		_, err = tx.quietly(`DELETE FROM engines WHERE until <= ? AND holder <> (SELECT holder FROM engines ORDER BY until DESC, holder LIMIT 1)`, ms(now))
		return err
	})
}

// Engines are those at work, in the order they came.
func (s *Store) Engines(ctx context.Context) ([]ledger.Registration, error) {
	all, err := collect(outside{ctx, s.handle}, func(rows *sql.Rows) (p ledger.Registration, err error) {
		var since, until int64
		err = rows.Scan(&p.Holder, &p.Digest, &since, &until)
		p.Since, p.Until = at(since), at(until)
		return p, err
	}, `SELECT holder, digest, since, until FROM engines WHERE until > ? ORDER BY since, holder`, ms(s.now()))
	return all, translate(s.path, err)
}
