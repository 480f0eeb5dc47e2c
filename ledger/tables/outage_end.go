package tables

import (
	"context"
	"slices"
	"time"

	"indoubt/ledger"
)

// answers is when each kind was last committed by its own answer: by an index, and for
// writes without a token among those that were settled last.
const answers = `
	SELECT kind, max(at) FROM (
		SELECT c.kind, (SELECT max(o.settled_at) FROM operations o INDEXED BY operations_by_answer
		                 WHERE o.kind = c.kind AND o.state = 'committed' AND o.by_answer = 1 AND o.token_sent = 1) AS at FROM census c
		UNION ALL
		SELECT kind, settled_at FROM (SELECT kind, settled_at, by_answer FROM operations INDEXED BY operations_resolved WHERE resolved = 1
		                               ORDER BY updated_at DESC LIMIT 100) AS newest WHERE by_answer = 1) AS all_answers
	 WHERE at IS NOT NULL GROUP BY kind`

// answered notes in outages without a new error whether the other side is known to
// have answered after the newest one.
func answered(q Querier, ins []ledger.Outage, now time.Time) error {
	var known map[string]int64
	for i := range ins {
		in := &ins[i]
		if !in.OverAt.IsZero() || in.LastAt.Add(in.Gap).After(now) || in.AnsweredAt.After(in.LastAt) {
			continue
		}
		if known == nil {
			known = map[string]int64{}
			if _, err := Collect(q, func(rows Rows) (none struct{}, err error) {
				var kind string
				var settled int64
				err = rows.Scan(&kind, &settled)
				known[kind] = settled
				return none, err
			}, answers); err != nil {
				return err
			}
		}
		for _, kind := range in.Kinds {
			if settled := At(known[kind]); settled.After(in.LastAt) && settled.After(in.AnsweredAt) {
				in.AnsweredAt = settled
			}
		}
	}
	return nil
}

// growing selects outages that no one wrote down as over and that have no error since
// their gap, at ?1.
const growing = `SELECT ` + outageColumns + ` FROM outages i INDEXED BY outages_growing
	WHERE i.over_at = 0 AND i.last_at <= ?1 AND i.last_at + i.gap_ms <= ?1`

// ended writes down which outages are over.
func ended(ctx context.Context, s *Store, now time.Time) error {
	over, err := Gather(ctx, s.db, newOutageScan().row, growing, Millis(now))
	if err == nil {
		err = answered(outside{ctx, s.db}, over, now)
	}
	over = slices.DeleteFunc(over, func(in ledger.Outage) bool { return !in.AnsweredAt.After(in.LastAt) })
	if err != nil || len(over) == 0 {
		return err
	}
	return s.update(ctx, func(tx *tx) error {
		for _, in := range over {
			if err := tx.Lock("outage:" + in.Scope); err != nil {
				return err
			}
			e := in.Ended()
			var still bool
			err := one(tx.Tx, `SELECT EXISTS (SELECT 1 FROM outages WHERE id = ? AND over_at = 0 AND last_at = ?)`, []any{in.ID, Millis(in.LastAt)}, &still)
			if err == nil && still {
				err = tx.event(e)
			}
			if err == nil && still {
				err = tx.Later(`UPDATE outages SET over_at = ?, answered_at = ?, change_id = ? WHERE id = ?`, tx.d.Time(now), tx.d.Time(in.AnsweredAt), e.ID, in.ID)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
