package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"indoubt/ledger"
)

// Attend writes down what a person looks at, and forgets those who are gone.
func (s *Store) Attend(ctx context.Context, p ledger.Presence) error {
	if p.Console == "" {
		return errors.New("a console needs a name")
	}
	return s.write(ctx, func(tx *tx) error {
		if _, err := tx.quietly(`DELETE FROM presence WHERE until <= ? OR console = ?`, ms(s.now()), p.Console); err != nil || !p.Until.After(s.now()) {
			return err
		}
		_, err := tx.quietly(`INSERT INTO presence (console, person, subject, asks, until) VALUES (?, ?, ?, ?, ?)`,
			p.Console, p.Person, p.Subject, flag(p.Asks), ms(p.Until))
		return err
	})
}

// Attending are those who look at something now, by their consoles.
func (s *Store) Attending(ctx context.Context) ([]ledger.Presence, error) {
	all, err := collect(outside{ctx, s.handle}, func(rows *sql.Rows) (p ledger.Presence, err error) {
		var until int64
		err = rows.Scan(&p.Console, &p.Person, &p.Subject, &p.Asks, &until)
		p.Until = at(until)
		return p, err
	}, `SELECT console, person, subject, asks, until FROM presence WHERE until > ? ORDER BY console`, ms(s.now()))
	return all, translate(s.path, err)
}
