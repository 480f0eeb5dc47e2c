package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// Run records a decision run with its items before its first change.
func (s *Store) Run(ctx context.Context, run ledger.DecisionRun, items []ledger.RunItem) (recorded ledger.DecisionRun, known bool, err error) {
	switch {
	case run.IdempotencyKey != "":
		run.ID = ledger.RunID(run.IdempotencyKey)
	case run.ID == "":
		run.ID = ledger.NewID()
	}
	err = s.update(ctx, func(tx *tx) error {
		if err := tx.Lock(runName(run.ID)); err != nil {
			return err
		}
		before, err := Collect(tx.Tx, event, begunRuns+`id = ?`, run.ID)
		if err != nil {
			return err
		}
		if known = len(before) > 0; known {
			all, _, err := accounts(tx.Tx, before)
			if err != nil {
				return err
			}
			if recorded = all[0]; recorded.Verb != run.Verb || recorded.Digest != run.Digest {
				return ledger.ErrKeyReused
			}
			return nil
		}
		now := At(Millis(tx.now()))
		r, e, err := run.Recorded(items, now)
		if err != nil {
			return err
		}
		recorded, e.At = r, now
		return cmp.Or(tx.event(e), tx.drives(r, now))
	})
	if err != nil && !errors.Is(err, ledger.ErrKeyReused) {
		return ledger.DecisionRun{}, false, err
	}
	return recorded, known, err
}

func runName(id string) string { return "run:" + id }

// event scans rows of EventColumns.
func event(rows Rows) (ledger.Event, error) { return ScanEvent(rows) }

// drives writes down who drives a run. No one is no row.
func (tx *tx) drives(r ledger.DecisionRun, now time.Time) error {
	if !r.Driver.Until.After(now) {
		return tx.Quietly(`DELETE FROM lead WHERE scope = ?`, runName(r.ID))
	}
	return tx.Quietly(`INSERT INTO lead (scope, holder, rank, since, until) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (scope) DO UPDATE SET holder = excluded.holder, until = excluded.until`,
		runName(r.ID), r.Driver.Holder+" "+r.Driver.Name, ledger.RankConsole, tx.d.Time(now), tx.d.Time(r.Driver.Until))
}

// drivers are who drives the runs.
func drivers(q Querier, ids ...string) (map[string]ledger.RunDriver, error) {
	all := map[string]ledger.RunDriver{}
	_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		l, err := leader(rows)
		holder, name, _ := strings.Cut(l.Holder, " ")
		all[strings.TrimPrefix(l.Scope, "run:")] = ledger.RunDriver{Name: name, Holder: holder, Until: l.Until}
		return none, err
	}, `SELECT scope, holder, rank, since, until FROM lead WHERE scope IN (SELECT value FROM json_each(?))`, list(ledger.Each(ids, runName)))
	return all, err
}

// newestOfRun is the newest event about a run, of which the first may have a long detail.
var newestOfRun = `SELECT ` + strings.Replace(EventColumns, `coalesce(detail, '')`, `CASE WHEN id = run THEN '' ELSE coalesce(detail, '') END`, 1) + `
	  FROM events WHERE run = ? AND ` + ofRuns + ` ORDER BY seq DESC LIMIT 1`

// ChangeRun applies a rule to a run.
func (s *Store) ChangeRun(ctx context.Context, known ledger.DecisionRun, changeID string, rule ledger.RunRule) (after ledger.DecisionRun, err error) {
	err = s.update(ctx, func(tx *tx) error {
		if err := tx.Lock(runName(known.ID)); err != nil {
			return err
		}
		rec := &ledger.RunRecord{Now: At(Millis(tx.now()))}
		newest, err := firstRow(tx.Tx, event, newestOfRun, known.ID)
		if err != nil {
			return err
		}
		if newest == nil {
			return fmt.Errorf("run %s: %w", known.ID, ledger.ErrNotFound)
		}
		rec.Run = known.Stands(*newest)
		driver, err := drivers(tx.Tx, known.ID)
		if err != nil {
			return err
		}
		if by, driven := driver[known.ID]; driven {
			rec.Run.Driver = by
		}
		after = rec.Run
		if known, err := tx.happened(changeID); known || err != nil {
			return err
		}
		if rec.Holds, err = loadHolds(tx.Tx, rec.Now); err != nil {
			return err
		}
		c, err := rule(rec)
		if err != nil || c.Run == nil {
			return err
		}
		after = *c.Run
		if c.Item != nil {
			if err := tx.leftOut(after, *c.Item, c.Actor, rec.Now); err != nil {
				return err
			}
		}
		if c.Event != nil {
			c.Event.At = rec.Now
			if err := tx.event(*c.Event); err != nil {
				return err
			}
		}
		return tx.drives(after, rec.Now)
	})
	return after, err
}

// leftOut tells what became of an item, where the history does not have its change.
func (tx *tx) leftOut(r ledger.DecisionRun, it ledger.RunItem, actor ledger.Actor, now time.Time) error {
	known, err := tx.happened(r.ChangeID(it))
	if known || err != nil {
		return err
	}
	e := r.LeftOut(it, actor)
	e.At = now
	if err := tx.LockOperation(false, byID, it.OperationID); err != nil {
		return err
	}
	_, err = firstRow(tx.Tx, func(rows Rows) (none struct{}, err error) {
		err = rows.Scan(&e.OperationID, &e.From, &e.Version)
		e.To = e.From
		return none, err
	}, `SELECT id, state, version FROM operations WHERE id = ?`, it.OperationID) // none: it is a scope
	return cmp.Or(err, tx.event(e))
}

// begunRuns are the events with which runs begin.
const begunRuns = `SELECT ` + EventColumns + ` FROM events WHERE run = id AND ` + ofRuns + ` AND `

// ofRuns are the verbs of the events about runs.
const ofRuns = `verb IN ('run', 'run_over')`

// openRuns are those of more than one item that are not over.
const openRuns = begunRuns + `version > 1 AND NOT EXISTS (
	SELECT 1 FROM events f WHERE f.run = events.id AND f.verb IN ('run', 'run_over') AND f.verb = 'run_over') ORDER BY seq DESC`

// Runs lists decision runs, newest first.
func (s *Store) Runs(ctx context.Context, q ledger.RunQuery) (runs []ledger.DecisionRun, err error) {
	most := max(q.Limit, 1)
	query, args := begunRuns+`version > 1 ORDER BY seq DESC LIMIT ?+0`, []any{most}
	switch {
	case q.ID != "":
		query, args = begunRuns+`id >= ? AND id < ? ORDER BY seq DESC LIMIT ?+0`, []any{q.ID, q.ID + "\U0010FFFF", most}
	case q.Open:
		query, args = openRuns, nil
	}
	err = s.db.View(ctx, func(n Querier) error {
		begun, err := Collect(n, event, query, args...)
		if err == nil {
			runs, _, err = accounts(n, begun)
		}
		return err
	})
	if q.Open && q.ID == "" {
		runs = slices.DeleteFunc(runs, func(r ledger.DecisionRun) bool { return !r.Open() })
	}
	return runs[:min(len(runs), most)], err
}

// Account is a run with its items in their order.
func (s *Store) Account(ctx context.Context, runID string) (run ledger.DecisionRun, items []ledger.RunItem, err error) {
	err = s.db.View(ctx, func(q Querier) error {
		begun, err := Collect(q, event, begunRuns+`id = ?`, runID)
		if err != nil {
			return err
		}
		runs, all, err := accounts(q, begun)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return fmt.Errorf("run %s: %w", runID, ledger.ErrNotFound)
		}
		run, items = runs[0], all[0]
		titles := map[string]string{}
		_, err = Collect(q, func(rows Rows) (none struct{}, err error) {
			var id, title string
			err = rows.Scan(&id, &title)
			titles[id] = title
			return none, err
		}, `SELECT o.id, o.title FROM json_each(?) p CROSS JOIN operations o ON o.id = p.value`, list(ledger.Each(items, func(it ledger.RunItem) string { return it.OperationID })))
		for i := range items {
			items[i].Title = titles[items[i].OperationID]
		}
		return err
	})
	return run, items, err
}

// accounts are runs with their items, by their first events.
func accounts(q Querier, begun []ledger.Event) (runs []ledger.DecisionRun, items [][]ledger.RunItem, err error) {
	if len(begun) == 0 {
		return nil, nil, nil
	}
	var changes, ids []string
	for _, e := range begun {
		r, set, err := ledger.RunBegun(e)
		if err != nil {
			return nil, nil, err
		}
		runs, items, ids = append(runs, r), append(items, set), append(ids, r.ID)
		changes = append(changes, ledger.Each(set, func(it ledger.RunItem) string { return it.Change })...)
	}
	about := map[string][]ledger.Event{}
	if _, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		e, err := ScanEvent(rows)
		about[e.Run] = append(about[e.Run], e)
		return none, err
	}, `SELECT `+EventColumns+` FROM events WHERE run IN (SELECT value FROM json_each(?)) AND id <> run AND `+ofRuns+` ORDER BY seq`, list(ids)); err != nil {
		return nil, nil, err
	}
	driver, err := drivers(q, ids...)
	if err != nil {
		return nil, nil, err
	}
	fates, err := runFates(q, changes)
	for i := range runs {
		runs[i].Account(items[i], about[runs[i].ID], fates, q.Moment().Wall)
		if by, driven := driver[runs[i].ID]; driven {
			runs[i].Driver = by
		}
	}
	return runs, items, err
}

// runFates are what the history has of changes, and of the attempts that they began.
func runFates(q Querier, changes []string) (map[string]ledger.RunFate, error) {
	fates, began := map[string]ledger.RunFate{}, map[string]string{}
	if _, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		e, err := ScanEvent(rows)
		fates[e.ID] = ledger.RunFate{Event: e}
		if e.To == ledger.Pending {
			began[ledger.AttemptID(e.ID)] = e.ID
		}
		return none, err
	}, `SELECT `+EventColumns+` FROM events WHERE id IN (SELECT value FROM json_each(?))`, list(changes)); err != nil || len(began) == 0 {
		return fates, err
	}
	_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		var a ledger.Attempt
		var deadline int64
		f := ledger.RunFate{Attempt: &a}
		err = rows.Scan(&a.ID, &a.Outcome, &a.Proof, &a.Receipt, &a.Error, &a.ErrorClass, &deadline, &f.Conflict, &f.Note)
		a.DeadlineAt, f.Event = At(deadline), fates[began[a.ID]].Event
		fates[f.Event.ID] = f
		return none, err
	}, `SELECT a.id, a.outcome, a.proof, a.receipt, a.error, a.error_class, a.deadline_at, o.conflict, o.conflict_note
		  FROM attempts a CROSS JOIN operations o ON o.id = a.operation_id
		 WHERE a.id IN (SELECT value FROM json_each(?))`, list(slices.Collect(maps.Keys(began))))
	return fates, err
}

// inRun stands in a query for who decided the newest run that o's turn in is still to come.
const inRun = `(running)`

// inRuns has a query say who that is, by what is to come.
func inRuns(q Querier, b *binder, query string) (string, error) {
	if !strings.Contains(query, inRun) {
		return query, nil
	}
	begun, err := Collect(q, event, openRuns)
	if err != nil {
		return "", err
	}
	runs, items, err := accounts(q, begun)
	waits, rows, who := map[string]string{}, map[string][]string{}, ``
	for i, r := range runs {
		ledger.ToCome(waits, r, items[i])
	}
	for row, actor := range waits {
		rows[actor] = append(rows[actor], row)
	}
	for actor, of := range rows {
		who += ` WHEN o.id || '@' || o.version IN (SELECT value FROM json_each(` + b.bind(list(of)) + `)) THEN ` + b.bind(actor)
	}
	if who = `CASE` + who + ` END`; len(rows) == 0 {
		who = `NULL`
	}
	return strings.ReplaceAll(query, inRun, `CAST(`+who+` AS text)`), err
}

// eraseRuns takes the text of runs that were about the operation, and are over.
func (tx *tx) eraseRuns(id, changeID string) error {
	begun, err := Collect(tx.Tx, event, begunRuns+tx.d.Glob(`coalesce(detail, '')`, "?1")+` ORDER BY seq`, tx.d.Pattern("", id, ""))
	if err != nil {
		return err
	}
	runs, items, err := accounts(tx.Tx, begun)
	for i, r := range runs {
		if err == nil && !r.Open() && slices.ContainsFunc(items[i], func(it ledger.RunItem) bool { return it.OperationID == id }) {
			err = tx.eraseEvents(`run = ?1 AND `+ofRuns+` AND id <> ?2`, r.ID, changeID, nil)
		}
	}
	return err
}
