package tables

import (
	"context"
	"errors"
	"strings"

	"indoubt/ledger"
)

// foldFrom is how many events readers add up before who leads adds them to the sums.
const foldFrom = 100

// Sums of the history are kept up to a place, in total. A reader asks totals, which has what
// came after it, too.
const (
	placeOf = `SELECT at, here, behind FROM place`
	// What is to be added, and the place that it leads to, are of one state of the ledger.
	placed = `SELECT p.at, p.here, coalesce(c.kind, ''), coalesce(c.what, ''), coalesce(c.class, ''), coalesce(c.n, 0)
		FROM place p LEFT JOIN counted c ON 1 = 1`
	atPlace = `SELECT class FROM total WHERE kind = '' AND what = 'place'`
)

type addend struct {
	at, here, kind, what, class string
	n                           int64
}

// Fold adds to the sums what came after their place, where that is much, and folds outages.
func (s *Store) Fold(ctx context.Context, ids []string, all bool, burst func(string) ledger.Burst) error {
	if err := s.foldOutages(ctx, ids, all, burst); err != nil || len(ids) == 0 && !all {
		return err
	}
	var at, here string
	var behind int
	if err := s.one(ctx, placeOf, nil, &at, &here, &behind); err != nil || behind < foldFrom {
		if errors.Is(err, errNone) { // its place cannot be told here
			err = nil
		}
		return err
	}
	add, err := Gather(ctx, s.db, func(rows Rows) (a addend, err error) {
		return a, rows.Scan(&a.at, &a.here, &a.kind, &a.what, &a.class, &a.n)
	}, placed)
	if err != nil || len(add) == 0 {
		return err
	}
	return s.update(ctx, func(tx *tx) error {
		if err := tx.Lock("total"); err != nil {
			return err
		}
		stands, err := Collect(tx.Tx, word, atPlace)
		if err != nil || strings.Join(stands, "") != add[0].at {
			return err // another one has added it
		}
		const plus = `INSERT INTO total (kind, what, class, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (kind, what, class) DO UPDATE SET n = total.n + excluded.n`
		for _, a := range add {
			if a.kind == "" { // only the place moves
				continue
			}
			if err := tx.Quietly(plus, a.kind, a.what, a.class, a.n); err != nil {
				return err
			}
		}
		if add[0].at == "" {
			return tx.Quietly(plus, "", "place", add[0].here, 0)
		}
		return tx.Quietly(`UPDATE total SET class = ? WHERE kind = '' AND what = 'place'`, add[0].here)
	})
}
