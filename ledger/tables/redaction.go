package tables

import "indoubt/ledger"

// erase takes the text of what belongs to an operation o, which has another key now and the
// change that allows it.
func (tx *tx) erase(o ledger.Operation, key, changeID string, e *ledger.Erasure) error {
	if e == nil {
		return nil
	}
	if key != o.Key { // one who begins with it waits, and then finds its digest
		if err := tx.Lock(KeyName(o.Scope, o.Key)); err != nil {
			return err
		}
	}
	for _, part := range []func() error{
		func() error { return tx.overtakes(o) },
		func() error { return tx.eraseReads(o.ID) },
		func() error { return tx.eraseGrants(o.ID) },
		func() error { return tx.eraseMarks(o.ID) },
		func() error {
			return tx.eraseEvents(`operation_id = ?1 AND operation_id <> '' AND id <> ?2`, o.ID, changeID, nil)
		},
		func() error { return tx.eraseRuns(o.ID, changeID) },
		func() error {
			return tx.Later(`UPDATE open_operations SET digest = '', priced_title = '', priced_target = '',
				search = (SELECT s.words || `+newline+` || `+newline+` FROM open_source s WHERE s.seq = open_operations.seq)
				WHERE seq = (SELECT seq FROM operations WHERE id = ?)`, o.ID)
		},
	} {
		if err := part(); err != nil {
			return err
		}
	}
	if len(e.Texts) == 0 {
		return nil
	}
	in, err := outagesOf(tx.Tx, []ledger.Row{o.Row()})
	for _, id := range in[o.ID] {
		if err == nil {
			err = tx.eraseEvents(`outage = ?1 AND outage <> '' AND operation_id = '' AND id <> ?2
				AND (run = '' OR EXISTS (SELECT 1 FROM events f WHERE f.run = events.run
					AND f.verb IN ('run', 'run_over') AND f.verb = 'run_over'))`,
				id, changeID, e.Texts) // a run that is open goes on by its words
		}
	}
	return err
}

// overtakes refuses to forget the target of what an earlier operation may have to know it by.
func (tx *tx) overtakes(o ledger.Operation) error {
	if o.Target == "" || ledger.IsMasked(o.Target) {
		return nil
	}
	earlier, err := firstRow(tx.Tx, word, `SELECT id FROM operations INDEXED BY operations_by_target WHERE target = ?1 AND target <> '' AND id <> ?2
		AND started_at <= ?3 AND state IN ('pending', 'uncertain', 'failed') ORDER BY started_at, seq LIMIT 1`, o.Target, o.ID, Millis(o.StartedAt))
	if err == nil && earlier != nil {
		err = ledger.Overtaken(*earlier)
	}
	return err
}

// eraseEvents takes the text of events, where texts are named of those that have one.
func (tx *tx) eraseEvents(where, of, changeID string, texts []string) error {
	events, err := Collect(tx.Tx, func(rows Rows) (ledger.Event, error) { return ScanEvent(rows) },
		`SELECT `+EventColumns+` FROM events WHERE `+where+` ORDER BY seq`, of, changeID)
	for _, was := range events {
		if texts != nil && !was.Tells(texts) {
			continue
		}
		if e := was.Without(); err == nil && (e.Reason != was.Reason || string(e.Detail) != string(was.Detail)) {
			err = tx.Later(`UPDATE events SET reason = ?, detail = ? WHERE id = ?`, e.Reason, text(e.Detail), e.ID)
		}
	}
	return err
}

func (tx *tx) eraseReads(id string) error {
	reads, err := Collect(tx.Tx, func(rows Rows) (r ledger.Read, err error) {
		var receipts, found string
		err = rows.Scan(&r.ID, &r.Reason, &receipts, &found)
		r.Receipts, r.Evidence = unlist(receipts), raw(found)
		return r, err
	}, `SELECT id, reason, receipts, coalesce(evidence, '') FROM reads WHERE operation_id = ? ORDER BY rowid`, id)
	for _, r := range reads {
		if r = r.Without(); err == nil {
			err = tx.Later(`UPDATE reads SET reason = ?, receipts = ?, evidence = ? WHERE id = ?`, r.Reason, list(r.Receipts), text(r.Evidence), r.ID)
		}
	}
	return err
}

func (tx *tx) eraseGrants(id string) error {
	grants, err := Collect(tx.Tx, func(rows Rows) (g ledger.Grant, err error) {
		return g, rows.Scan(&g.ID, &g.Reason, &g.VoidReason)
	}, `SELECT id, reason, void_reason FROM grants WHERE operation_id = ? ORDER BY rowid`, id)
	for _, g := range grants {
		if g = g.Without(); err == nil {
			err = tx.Later(`UPDATE grants SET reason = ?, void_reason = ? WHERE id = ?`, g.Reason, g.VoidReason, g.ID)
		}
	}
	return err
}

func (tx *tx) eraseMarks(id string) error {
	marks, err := Collect(tx.Tx, word, `SELECT value FROM marks WHERE operation_id = ? ORDER BY value`, id)
	for _, value := range marks {
		if masked := ledger.Masked(value); err == nil && masked != value {
			err = tx.Later(`UPDATE marks SET value = ? WHERE operation_id = ? AND value = ?`, masked, id, value)
		}
	}
	return err
}
