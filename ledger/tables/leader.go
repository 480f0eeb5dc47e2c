package tables

import (
	"context"
	"errors"

	"indoubt/ledger"
)

// Lead takes the scopes, renews them, and gives the holder's others up. Where nothing
// changes it writes nothing.
func (s *Store) Lead(ctx context.Context, holder string, rank int, scopes []string) (ledger.Leaders, error) {
	if holder == "" {
		return ledger.Leaders{}, errors.New("a leader needs a name")
	}
	all, err := s.Leaders(ctx)
	if err != nil || len(ledger.TakeLead(all, holder, rank, scopes)) == 0 {
		return all, err
	}
	err = s.update(ctx, func(tx *tx) (err error) {
		if err := tx.Lock("lead"); err != nil {
			return err
		}
		all.Now = tx.now()
		if all.All, err = Collect(tx.Tx, leader, leaders); err != nil {
			return err
		}
		for _, l := range ledger.TakeLead(all, holder, rank, scopes) {
			if err := tx.Quietly(`INSERT INTO lead (scope, holder, rank, since, until) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (scope) DO UPDATE SET holder = excluded.holder, rank = excluded.rank, since = excluded.since, until = excluded.until`,
				l.Scope, l.Holder, l.Rank, tx.d.Time(l.Since), tx.d.Time(l.Until)); err != nil {
				return err
			}
		}
		all.All, err = Collect(tx.Tx, leader, leaders)
		return err
	})
	return all, err
}

// Leaders are all who lead, or led last.
func (s *Store) Leaders(ctx context.Context) (all ledger.Leaders, err error) {
	m, err := s.db.Moment(ctx)
	if err != nil {
		return all, err
	}
	all.Now = m.Wall
	all.All, err = Gather(ctx, s.db, leader, leaders)
	return all, err
}

const leaders = `SELECT scope, holder, rank, since, until FROM lead WHERE scope < 'run:' OR scope >= 'run;' ORDER BY scope`

func leader(rows Rows) (l ledger.Leader, err error) {
	var since, until int64
	err = rows.Scan(&l.Scope, &l.Holder, &l.Rank, &since, &until)
	l.Since, l.Until = At(since), At(until)
	return l, err
}
