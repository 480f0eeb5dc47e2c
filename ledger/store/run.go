package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

const aboutRun = "run:"

// ofRuns is the condition that an event e says where a run stands, begunRuns that one begins with it.
const (
	ofRuns    = `e.op = 0 AND e.verb IN ('run', '` + ledger.VerbRunOver + `')`
	begunRuns = ofRuns + ` AND e.about >= 'run:' AND e.about < 'run;' AND e.about = 'run:' || e.id`
)

// openRuns are those of more than one item that are not over.
const openRuns = begunRuns + ` AND e.version > 1 AND NOT EXISTS (SELECT 1 FROM ev f WHERE f.about = e.about AND f.op = 0
	AND f.verb = '` + ledger.VerbRunOver + `') ORDER BY e.seq DESC`

// Run records a decision run with its items before its first change.
func (s *Store) Run(ctx context.Context, run ledger.DecisionRun, items []ledger.RunItem) (recorded ledger.DecisionRun, known bool,
	err error) {
	if run.IdempotencyKey != "" {
		run.ID = ledger.RunID(run.IdempotencyKey)
	}
	run.ID = nonEmpty(run.ID, ledger.NewID())
	err = s.db.Update(ctx, func(tx Tx) error {
		before, err := EventsOf(tx, begunRuns+` AND e.id = ?`, run.ID)
		if err != nil {
			return err
		}
		if known = len(before) > 0; known {
			all, _, err := accounts(tx, before)
			if err != nil {
				return err
			}
			if recorded = all[0]; recorded.Verb != run.Verb || recorded.Digest != run.Digest {
				return ledger.ErrKeyReused
			}
			return nil
		}
		now := tx.Moment().Wall
		r, e, err := run.Recorded(items, now)
		if err != nil {
			return err
		}
		recorded, e.At = r, now
		return errors.Join(Tell(tx, e), drives(tx, r, now))
	})
	if err != nil {
		return ledger.DecisionRun{}, false, err
	}
	return recorded, known, nil
}

// drives writes down who drives a run. No one is no row.
func drives(tx Tx, r ledger.DecisionRun, now time.Time) error {
	if err := exec(tx, `DELETE FROM lead WHERE name = ?`, aboutRun+r.ID); err != nil || !r.Driver.Until.After(now) {
		return err
	}
	return exec(tx, `INSERT INTO lead (name, holder, rank, since, until) VALUES (?, ?, ?, ?, ?)`,
		aboutRun+r.ID, r.Driver.Holder+" "+r.Driver.Name, ledger.RankConsole, millis(now), millis(r.Driver.Until))
}

// driven puts into a run who drives it.
func driven(tx Tx, r *ledger.DecisionRun) error {
	found, err := Collect(tx, scanLeader, leaderColumns+` WHERE name = ?`, aboutRun+r.ID)
	for _, l := range found {
		holder, name, _ := strings.Cut(l.Holder, " ")
		r.Driver = ledger.RunDriver{Name: name, Holder: holder, Until: l.Until}
	}
	return err
}

// ChangeRun applies a rule to a run.
func (s *Store) ChangeRun(ctx context.Context, known ledger.DecisionRun, rule ledger.RunRule) (after ledger.DecisionRun, err error) {
	changeID := ledger.NewID()
	err = s.db.Update(ctx, func(tx Tx) error {
		rec := &ledger.RunRecord{Now: tx.Moment().Wall, ChangeID: changeID}
		newest, err := EventsOf(tx, ofRuns+` AND e.about = ? ORDER BY e.seq DESC LIMIT 1`, aboutRun+known.ID)
		if err == nil && len(newest) == 0 {
			err = fmt.Errorf("run %s: %w", known.ID, ledger.ErrNotFound)
		}
		if err != nil {
			return err
		}
		rec.Run = known.Stands(newest[0])
		if err := driven(tx, &rec.Run); err != nil {
			return err
		}
		after = rec.Run
		if known, err := happened(tx, 0, changeID); known || err != nil {
			return err
		}
		if rec.Holds, _, err = holdsAt(tx, rec.Now); err != nil {
			return err
		}
		c, err := rule(rec)
		if err != nil || c.Run == nil {
			return err
		}
		after = *c.Run
		if c.LeftOut != nil {
			if err := leaveOut(tx, *c.LeftOut, rec.Now); err != nil {
				return err
			}
		}
		if c.Event != nil {
			c.Event.At = rec.Now
			if err := Tell(tx, *c.Event); err != nil {
				return err
			}
		}
		return drives(tx, after, rec.Now)
	})
	return after, err
}

// leaveOut tells what became of an item, unless the history says it already.
func leaveOut(tx Tx, e ledger.Event, now time.Time) error {
	e.At = now
	l, err := load(tx, ledger.Locator{ID: e.OperationID, Skip: ledger.AllParts}, nil)
	if err != nil {
		return err
	}
	// What is not found is "" here, as an event of the ledger itself has it.
	e.OperationID, e.From, e.To, e.Version = l.o.ID, l.o.State, l.o.State, l.o.Version
	if known, err := happened(tx, l.seq, e.ID); known || err != nil {
		return err
	}
	return Tell(tx, e)
}

// Runs lists decision runs, newest first.
func (s *Store) Runs(ctx context.Context, q ledger.RunQuery) (runs []ledger.DecisionRun, err error) {
	most := max(q.Limit, 1)
	where, args := begunRuns+` AND e.version > 1 ORDER BY e.seq DESC LIMIT ?`, []any{most}
	switch {
	case q.ID != "":
		where, args = begunRuns+` AND e.id >= ? AND e.id < ? ORDER BY e.seq DESC LIMIT ?`, []any{q.ID, q.ID + "\U0010ffff", most}
	case q.Open:
		where, args = openRuns, nil
	}
	err = s.db.View(ctx, func(tx Tx) error {
		begun, err := EventsOf(tx, where, args...)
		if err == nil {
			runs, _, err = accounts(tx, begun)
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
	err = s.db.View(ctx, func(tx Tx) error {
		begun, err := EventsOf(tx, begunRuns+` AND e.id = ?`, runID)
		if err != nil {
			return err
		}
		runs, all, err := accounts(tx, begun)
		if err == nil && len(runs) == 0 {
			err = fmt.Errorf("run %s: %w", runID, ledger.ErrNotFound)
		}
		if err == nil {
			run, items = runs[0], all[0]
		}
		return err
	})
	return run, items, err
}

// accounts are runs with their items, by their first events.
func accounts(tx Tx, begun []ledger.Event) (runs []ledger.DecisionRun, items [][]ledger.RunItem, err error) {
	for _, e := range begun {
		r, set, err := ledger.RunBegun(e)
		if err != nil {
			return nil, nil, err
		}
		about, err := EventsOf(tx, ofRuns+` AND e.about = ? AND e.id <> ? ORDER BY e.seq`, aboutRun+r.ID, r.ID)
		if err != nil {
			return nil, nil, err
		}
		fates, err := fatesOf(tx, set)
		if err != nil {
			return nil, nil, err
		}
		r.Account(set, about, fates, tx.Moment().Wall)
		if err := driven(tx, &r); err != nil {
			return nil, nil, err
		}
		runs, items = append(runs, r), append(items, set)
	}
	return runs, items, nil
}

// fatesOf are what the history has of the changes of items, which get their titles.
func fatesOf(tx Tx, items []ledger.RunItem) (map[string]ledger.RunFate, error) {
	fates, titles, began := map[string]ledger.RunFate{}, map[string]string{}, []string(nil)
	for from := 0; from < len(items); from += manyIDs {
		to := min(from+manyIDs, len(items))
		changed, change := among(ledger.Each(items[from:to], func(it ledger.RunItem) string { return it.Change }))
		some, of := among(ledger.Each(items[from:to], func(it ledger.RunItem) string { return it.OperationID }))
		anew, those := among(ledger.Each(items[from:to], func(it ledger.RunItem) string {
			return ledger.Anew(ledger.AttemptID(it.Change))
		}))
		_, err := Collect(tx, func(rows Rows) (none struct{}, err error) {
			var id, title string
			err = rows.Scan(&id, &title)
			titles[id] = title
			return none, err
		}, `SELECT id, title FROM op WHERE id IN (`+some+`)`, of...)
		if err != nil {
			return nil, err
		}
		its, err := EventsOf(tx, `e.op IN (SELECT seq FROM op WHERE id IN (`+some+`) OR id IN (`+anew+`))
			AND e.id || '' IN (`+changed+`)`,
			slices.Concat(of, those, change)...)
		ledgers, failed := EventsOf(tx, `e.op = 0 AND e.id IN (`+changed+`)`, change...)
		if err = errors.Join(err, failed); err != nil {
			return nil, err
		}
		for _, e := range append(its, ledgers...) {
			if fates[e.ID] = (ledger.RunFate{Event: e}); e.To == ledger.Pending {
				began = append(began, e.ID)
			}
		}
	}
	for from := 0; from < len(began); from += manyIDs {
		these := began[from:min(from+manyIDs, len(began))]
		some, of := among(ledger.Each(these, func(id string) string { return fates[id].Event.OperationID }))
		all, err := loadAll(tx, ledger.AllParts, `o.id IN (`+some+`)`, of...)
		for _, l := range all {
			for _, id := range these {
				f := fates[id]
				if a := l.rec.Attempt(ledger.AttemptID(id)); a != nil && f.Event.OperationID == l.o.ID {
					f.Attempt, f.Conflict, f.Note = a, l.o.Conflict, l.o.ConflictNote
					fates[id] = f
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range items {
		items[i].Title = nonEmpty(titles[items[i].OperationID], items[i].Title)
	}
	return fates, nil
}

// manyIDs are as many as one statement asks for.
const manyIDs = 500

// toCome are the operations whose turn in an open run is still to come, as ID@VERSION, with who decided.
func toCome(tx Tx) (map[string]string, error) {
	who := map[string]string{}
	begun, err := EventsOf(tx, openRuns)
	if err != nil {
		return nil, err
	}
	runs, items, err := accounts(tx, begun)
	for i, r := range runs { // the newest comes first, and counts
		for _, it := range items[i] {
			row := fmt.Sprintf("%s@%d", it.OperationID, it.Version)
			if r.Open() && (it.Came == "" || it.Came == ledger.CameHeld) && who[row] == "" {
				who[row] = r.Actor.Name
			}
		}
	}
	return who, err
}

// turn is an operation as toCome has it.
func (l *loaded) turn() string { return fmt.Sprintf("%s@%d", l.o.ID, l.o.Version) }

// eraseRuns takes the text of runs that were about the operation, and are over.
func (w *writing) eraseRuns() error {
	begun, err := EventsOf(w.tx, begunRuns+` AND {in ?1, e.facts}`, `"`+w.was.o.ID+`"`)
	if err != nil {
		return err
	}
	runs, items, err := accounts(w.tx, begun)
	for i, r := range runs {
		if err == nil && !r.Open() && slices.ContainsFunc(items[i], func(it ledger.RunItem) bool { return it.OperationID == w.was.o.ID }) {
			err = exec(w.tx, `UPDATE ev SET payload = NULL,
				reason = '`+ledger.Marker+`' WHERE about = ? AND op = 0 AND verb IN ('run', '`+ledger.VerbRunOver+`')`, aboutRun+r.ID)
		}
	}
	return err
}
