package tables

import (
	"context"
	"errors"
	"slices"

	"indoubt/ledger"
)

// Attend writes down what a person looks at, and forgets those who are gone.
func (s *Store) Attend(ctx context.Context, p ledger.Presence) error {
	if p.Console == "" {
		return errors.New("a console needs a name")
	}
	return s.update(ctx, func(tx *tx) error {
		now := tx.now()
		if err := tx.Quietly(`DELETE FROM presence WHERE console IN (SELECT console FROM presence WHERE until <= ? OR console = ?)`, Millis(now), p.Console); err != nil || !p.Until.After(now) {
			return err
		}
		return tx.Quietly(`INSERT INTO presence (console, person, subject, asks, until) VALUES (?, ?, ?, ?, ?)`,
			p.Console, p.Person, p.Subject, tx.d.Flag(p.Asks), tx.d.Time(p.Until))
	})
}

// Attending are those who look at something now, by their consoles.
func (s *Store) Attending(ctx context.Context) (here []ledger.Presence, err error) {
	err = s.db.View(ctx, func(q Querier) (err error) {
		here, err = Collect(q, func(rows Rows) (p ledger.Presence, err error) {
			var until int64
			err = rows.Scan(&p.Console, &p.Person, &p.Subject, &p.Asks, &until)
			p.Until = At(until)
			return p, err
		}, `SELECT console, person, subject, asks, until FROM presence ORDER BY console`)
		now := q.Moment().Wall
		here = slices.DeleteFunc(here, func(p ledger.Presence) bool { return !p.Until.After(now) })
		return err
	})
	return here, err
}
