package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"indoubt/ledger"
)

// RegisterEngine writes down that an engine is at work, and forgets those that are gone.
func (s *Store) RegisterEngine(ctx context.Context, p ledger.Registration) error {
	if p.Holder == "" {
		return errors.New("an engine needs a name")
	}
	return s.write(ctx, func(tx *tx) error {
		if _, err := tx.quietly(`DELETE FROM engines WHERE until <= ? OR holder = ?`, ms(s.now()), p.Holder); err != nil || !p.Until.After(s.now()) {
			return err
		}
		_, err := tx.quietly(`INSERT INTO engines (holder, digest, since, until) VALUES (?, ?, ?, ?)`, p.Holder, p.Digest, ms(p.Since), ms(p.Until))
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
