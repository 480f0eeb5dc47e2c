package tables

import (
	"cmp"
	"context"
	"slices"
	"time"

	"indoubt/ledger"
)

// outagesName is the name that is locked while outages are changed.
const outagesName = "outages"

// lostColumns are what ledger.Lost is made of, from attempts a and operations o.
const lostColumns = `o.id, a.ended_at, o.kind, o.source, a.error_class, a.proof = 'refused'`

func scanLost(rows Rows) (l ledger.Lost, err error) {
	var at int64
	err = rows.Scan(&l.Operation, &at, &l.Kind, &l.Pipeline, &l.Class, &l.Refused)
	l.At = At(at)
	return l, err
}

// lostOf are those of operations, lostSince all from a time on.
const (
	lostOf = `SELECT ` + lostColumns + ` FROM json_each(?) p
		CROSS JOIN operations o ON o.id = p.value CROSS JOIN attempts a ON a.operation_id = o.id
		WHERE ` + LostAttempt + ` ORDER BY a.ended_at, o.id`
	lostSince = `SELECT ` + lostColumns + ` FROM attempts a INDEXED BY attempts_lost CROSS JOIN operations o ON o.id = a.operation_id
		WHERE ` + LostAttempt + ` AND a.ended_at >= ? AND a.ended_at < ? ORDER BY a.ended_at, o.id`
)

// answersOf are when kinds were answered last, of operations: by an answer that committed or
// refused, or by a check that saw clearly.
const answersOf = `
	SELECT kind, max(at) FROM (
		SELECT o.kind, o.settled_at AS at FROM json_each(?1) p CROSS JOIN operations o ON o.id = p.value
		 WHERE o.state = 'committed' AND o.by_answer = 1
		UNION ALL
		SELECT o.kind, a.ended_at FROM json_each(?1) p CROSS JOIN operations o ON o.id = p.value
		 CROSS JOIN attempts a ON a.operation_id = o.id WHERE a.proof = 'refused'
		UNION ALL
		SELECT o.kind, r.ended_at FROM json_each(?1) p CROSS JOIN operations o ON o.id = p.value
		 CROSS JOIN reads r ON r.operation_id = o.id
		 WHERE r.verdict NOT IN ('', 'cannot_tell') OR r.cause IN ('none_found', 'blind', 'not_there_now')) AS came
	 GROUP BY kind`

// running are the outages that are not known to be over.
const running = `SELECT ` + outageColumns + ` FROM outages i INDEXED BY outages_growing WHERE i.over_at = 0 ORDER BY i.last_at`

// foldOutages opens, grows and ends outages. What it reads first says whether there is
// anything to do; what it writes it works out of the outages as they are then.
func (s *Store) foldOutages(ctx context.Context, ids []string, all bool, burst func(string) ledger.Burst) error {
	m, err := s.db.Moment(ctx)
	if err != nil {
		return err
	}
	var lost []ledger.Lost
	if all {
		var newest int64
		if err = s.one(ctx, `SELECT coalesce(max(last_at), 0) FROM outages`, nil, &newest); err == nil {
			lost, err = Gather(ctx, s.db, scanLost, lostSince, newest, Millis(m.Wall)+1)
		}
	} else if len(ids) > 0 {
		lost, err = Gather(ctx, s.db, scanLost, lostOf, list(ids))
	}
	var going []ledger.Outage
	if err == nil {
		going, err = Gather(ctx, s.db, newOutageScan().row, running)
	}
	if err != nil {
		return err
	}
	answers := map[string]time.Time{}
	if len(ids) > 0 && len(going)+len(lost) > 0 {
		if _, err := Gather(ctx, s.db, func(rows Rows) (none struct{}, err error) {
			var kind string
			var at int64
			err = rows.Scan(&kind, &at)
			answers[kind] = At(at)
			return none, err
		}, answersOf, list(ids)); err != nil {
			return err
		}
	}
	moves := func(in ledger.Outage) bool { return !in.Answered(answers, m.Wall).Same(in) }
	if len(lost) == 0 && !slices.ContainsFunc(going, moves) {
		return nil
	}
	return s.update(ctx, func(tx *tx) error {
		if err := tx.Lock(outagesName); err != nil {
			return err
		}
		if err := tx.fold(lost, burst); err != nil {
			return err
		}
		going, err := Collect(tx.Tx, newOutageScan().row, running)
		for _, in := range going {
			if after := in.Answered(answers, m.Wall); err == nil && !after.Same(in) {
				err = tx.grown(after, in.OverAt.IsZero() && !after.OverAt.IsZero())
			}
		}
		return err
	})
}

// fold works out what errors make of the outages of their scopes.
func (tx *tx) fold(lost []ledger.Lost, burst func(string) ledger.Burst) error {
	of, scopes := map[string][]ledger.Lost{}, []string{}
	for _, l := range lost {
		scope := burst(l.Kind).Of(l.Kind).Scope
		if of[scope] == nil {
			scopes = append(scopes, scope)
		}
		of[scope] = append(of[scope], l)
	}
	for _, scope := range scopes {
		some := of[scope]
		b := burst(some[0].Kind).Of(some[0].Kind)
		from, to := some[0].At.Add(-b.Reach()), some[len(some)-1].At.Add(b.Reach())
		known, err := Collect(tx.Tx, newOutageScan().row, `SELECT `+outageColumns+` FROM outages i
			WHERE i.scope = ?1 AND i.last_at + i.gap_ms > ?2 AND i.first_at - i.gap_ms < ?3 ORDER BY i.first_at`, scope, Millis(from), Millis(to))
		if err != nil {
			return err
		}
		changed, loose := b.Fold(known, some)
		if len(loose) > 0 { // with those that were loose before
			near, err := Collect(tx.Tx, scanLost, lostSince, Millis(from), Millis(to)+1)
			if err != nil {
				return err
			}
			changed, _ = b.Fold(known, slices.DeleteFunc(near, func(l ledger.Lost) bool { return burst(l.Kind).Of(l.Kind).Scope != scope }))
		}
		for _, in := range changed {
			if slices.ContainsFunc(known, func(was ledger.Outage) bool { return was.ID == in.ID }) {
				err = cmp.Or(err, tx.grown(in, false))
			} else {
				err = cmp.Or(err, tx.opened(in, b))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// opened writes down a new outage.
func (tx *tx) opened(i ledger.Outage, b ledger.Burst) error {
	if err := tx.event(i.Opened(b)); err != nil {
		return err
	}
	return tx.Later(`
		INSERT INTO outages (id, scope, kinds, pipelines, classes, gap_ms, opened_at, first_at, last_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		i.ID, i.Scope, list(i.Kinds), list(i.Pipelines), list(i.Classes), i.Gap.Milliseconds(),
		tx.d.Time(i.OpenedAt), tx.d.Time(i.FirstAt), tx.d.Time(i.LastAt))
}

// grown writes down how far an outage has come, and whether it is over now.
func (tx *tx) grown(i ledger.Outage, over bool) error {
	if over {
		if err := tx.event(i.Ended()); err != nil {
			return err
		}
	}
	return tx.Later(`
		UPDATE outages SET kinds = ?, pipelines = ?, classes = ?, first_at = ?, last_at = ?, answered_at = ?, over_at = ? WHERE id = ?`,
		list(i.Kinds), list(i.Pipelines), list(i.Classes),
		tx.d.Time(i.FirstAt), tx.d.Time(i.LastAt), tx.d.Time(i.AnsweredAt), tx.d.Time(i.OverAt), i.ID)
}
