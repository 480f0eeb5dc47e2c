package store

import (
	"errors"

	"indoubt/ledger"
)

// erase takes the text out of what belongs to the operation. The event restates what stays, over
// what its others say without their payload.
func (w *writing) erase() error {
	if err := w.overtakes(); err != nil {
		return err
	}
	s := &w.after
	for i := range s.reads {
		s.reads[i] = s.reads[i].Without(w.mask)
	}
	for i := range s.allowed {
		s.allowed[i] = s.allowed[i].Without()
	}
	w.is.mark = marked("", ledger.Each(marksOf(w.is.mark), w.mask.Text))
	w.before = state{op: &ledger.Operation{}}
	if w.was.o.Moved != "" {
		w.before.attempts = []ledger.Attempt{w.was.landed()}
	}
	return told(w.tx, `e.op = ?`, []any{w.was.seq}, func(_ int64, _ string, e said, facts, _ object) { w.before.apply(e, facts, nil) })
}

// overtakes refuses to forget the target of what an earlier operation may have to know it by.
func (w *writing) overtakes() error {
	o := w.was.o
	if o.Target == "" || ledger.IsMasked(o.Target) {
		return nil
	}
	earlier, err := Collect(w.tx, word, `SELECT id FROM op WHERE target = ? AND target <> '' AND seq <> ? AND started_at <= ?
		AND state IN ('pending', 'uncertain', 'failed') AND abandoned = 0
		ORDER BY started_at, seq LIMIT 1`, o.Target, w.was.seq, millis(o.StartedAt))
	if err == nil && len(earlier) > 0 {
		err = ledger.Overtaken(earlier[0])
	}
	return err
}

// erased empties what other events say, and what the history of its outages says of it.
func (w *writing) erased() error {
	err := exec(w.tx, `UPDATE ev SET payload = NULL, reason = CASE reason WHEN '' THEN ''
		ELSE '`+ledger.Marker+`' END WHERE op = ? AND id <> ?`, w.was.seq, w.id)
	if err == nil {
		err = errors.Join(inOutages(w.tx, []*loaded{w.was}), w.eraseRuns())
	}
	for _, id := range w.was.rec.Outages {
		events, failed := EventsOf(w.tx, `e.op = 0 AND e.about = ?`, aboutOutage+id)
		for _, e := range events {
			if e.Tells(w.c.Erase.Texts) {
				err = errors.Join(err, exec(w.tx, `UPDATE ev SET payload = NULL, reason = '`+ledger.Marker+`' WHERE seq = ?`, e.Seq))
			}
		}
		err = errors.Join(err, failed)
	}
	return err
}
