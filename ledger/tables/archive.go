package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
)

// archivable says of an operation o that it is settled since before ?2 and that nothing
// waits for it at ?3. Of an incident nothing leaves that a list still has: its account says
// what is to be done about that. Of the controls of a kind the newest stays, and of a
// target that others have, too: what overtook those must be known while they can be asked
// for again.
const archivable = `(o.state IN ('committed', 'failed', 'abandoned') AND o.conflict = '' AND o.updated_at < ?2 AND o.settled_at < ?2
	AND o.parked_until = 0 AND o.recheck_at = 0 AND o.undelivered = 0 AND o.awaits = '' AND o.live_attempt = ''
	AND o.seq < (SELECT max(seq) FROM operations)
	AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.operation_id = o.id AND g.consumed_at = 0 AND g.voided_at = 0)
	AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.operation_id = o.id AND l.holder <> '' AND l.expires_at > ?3)
	AND (o.incident = '' OR o.attempt_count = 1 AND EXISTS (SELECT 1 FROM incidents i WHERE i.id = o.incident AND i.last_at + i.gap_ms <= ?2)
	                                            AND NOT EXISTS (SELECT 1 FROM open_operations l WHERE l.seq = o.seq))
	AND NOT EXISTS (SELECT 1 FROM decisions d INDEXED BY decisions_open CROSS JOIN decision_items i ON i.run_id = d.id AND i.operation_id = o.id
	                 WHERE d.finished_at = 0 AND d.size > 1)
	AND (o.state <> 'committed' OR o.by_answer = 0 OR o.token_sent = 0 OR EXISTS (
	     SELECT 1 FROM operations t INDEXED BY operations_by_answer WHERE t.kind = o.kind AND t.state = 'committed' AND t.by_answer = 1 AND t.token_sent = 1
	        AND t.settled_at > o.settled_at AND t.settled_at < ?2))
	AND (o.target = '' OR EXISTS (
	     SELECT 1 FROM operations t INDEXED BY operations_by_target WHERE t.target = o.target AND t.target <> '' AND (t.started_at, t.seq) > (o.started_at, o.seq) AND t.state = 'committed')
	  OR NOT EXISTS (SELECT 1 FROM operations t INDEXED BY operations_by_target WHERE t.target = o.target AND t.target <> '' AND t.seq <> o.seq)
	 AND NOT EXISTS (SELECT 1 FROM archived t WHERE t.target = o.target AND t.target <> '')))`

// shelf takes operations out of the tables.
type shelf struct{ s *Store }

// armful is how many operations are read whole at once at most, and room how many bytes of
// text, after which no more are.
const (
	armful = 100
	room   = 16 << 20
)

// Archivable reads the operations in the order they came, no further than where all
// are newer than the time, or than there is room for.
func (k shelf) Archivable(ctx context.Context, before time.Time, after int64, limit int) (ops []ledger.Whole, place int64, err error) {
	err = k.s.db.View(ctx, func(q Querier) error {
		ops, place = nil, 0
		var ids []string
		var places, sizes []int64
		var seen int
		var older bool
		_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
			var seq, created, size int64
			var id string
			if err = rows.Scan(&seq, &created, &id, &size); err != nil {
				return none, err
			}
			seen, place, older = seen+1, seq, older || created < Millis(before)
			if id != "" {
				ids, places, sizes = append(ids, id), append(places, seq), append(sizes, size)
			}
			return none, nil
		}, `SELECT o.seq, o.created_at, CASE WHEN `+archivable+` THEN o.id ELSE '' END, coalesce(octet_length(o.input), 0) + coalesce(octet_length(o.result), 0)
			FROM operations o WHERE o.seq > ?1 ORDER BY o.seq LIMIT ?4+0`,
			after, Millis(before), Millis(q.Moment().Wall), limit)
		if err != nil {
			return err
		}
		if seen < limit || !older {
			place = 0
		}
		if len(ids) == 0 {
			return nil
		}
		asked, err := askedFor(q)
		for i, bytes := 0, 0; i < len(ids) && err == nil; {
			if bytes >= room {
				place = places[i-1]
				break
			}
			n := together(sizes[i:])
			var some []ledger.Whole
			some, err = wholes(q, k.s.d, ids[i:i+n], asked)
			for _, w := range some {
				bytes += weight(w)
			}
			ops, i = append(ops, some...), i+n
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return ops, place, nil
}

// together is how many operations of these sizes are read at once: one at least.
func together(sizes []int64) (n int) {
	for sum := int64(0); n < min(armful, len(sizes)); n++ {
		if sum += sizes[n]; n > 0 && sum > room {
			break
		}
	}
	return n
}

// weight is how long the texts of an operation are, about.
func weight(w ledger.Whole) int {
	n := len(w.Operation.Input) + len(w.Operation.Result)
	for _, a := range w.Attempts {
		n += len(a.Result) + len(a.Error)
	}
	for _, r := range w.Reads {
		n += len(r.Evidence) + len(r.Reason)
	}
	for _, e := range w.Events {
		n += len(e.Detail) + len(e.Reason)
	}
	return n
}

// askedFor are the kinds and inputs of open operations.
func askedFor(q Querier) (map[string]bool, error) {
	asked := map[string]bool{"": true}
	_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		var kind, fingerprint string
		err = rows.Scan(&kind, &fingerprint)
		if fingerprint != "" {
			asked[kind+"\n"+fingerprint] = true
		}
		return none, err
	}, `SELECT t.kind, t.fingerprint FROM open_operations h CROSS JOIN operations t ON t.seq = h.seq WHERE h.class <> 'not_landed'
	     UNION ALL SELECT kind, fingerprint FROM operations INDEXED BY operations_pending WHERE state = 'pending'`)
	return asked, err
}

// wholes reads operations with everything, but for those that an open one asks for: one
// that wants the same, whose history a person may have to compare.
func wholes(q Querier, d *Dialect, ids []string, asked map[string]bool) ([]ledger.Whole, error) {
	recs, err := loadAll(q, d, ids, 0, true)
	if err != nil {
		return nil, err
	}
	events, err := byOperation(q, ids, func(rows Rows) (string, ledger.Event, error) {
		e, err := ScanEvent(rows)
		return e.OperationID, e, err
	}, `SELECT `+EventColumns+` FROM events WHERE operation_id IN (SELECT value FROM json_each(?)) AND operation_id <> '' ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	marks, err := byOperation(q, ids, func(rows Rows) (id, mark string, err error) {
		return id, mark, rows.Scan(&id, &mark)
	}, `SELECT operation_id, value FROM marks WHERE operation_id IN (SELECT value FROM json_each(?)) ORDER BY value`)
	if err != nil {
		return nil, err
	}
	ops := make([]ledger.Whole, 0, len(recs))
	for _, rec := range recs {
		o := rec.Operation
		if o.Fingerprint != "" && asked[o.Kind+"\n"+o.Fingerprint] ||
			len(rec.Reads) == most || len(rec.Grants) == most { // there may be more than were read
			continue
		}
		ops = append(ops, ledger.Whole{Operation: o, Attempts: rec.Attempts, Reads: rec.Reads, Grants: rec.Grants, Events: events[o.ID], Marks: marks[o.ID]})
	}
	return ops, nil
}

// byOperation sorts rows by their operation.
func byOperation[T any](q Querier, ids []string, scan func(Rows) (string, T, error), query string) (map[string][]T, error) {
	out := map[string][]T{}
	_, err := Collect(q, func(rows Rows) (none struct{}, err error) {
		id, v, err := scan(rows)
		out[id] = append(out[id], v)
		return none, err
	}, query, list(ids))
	return out, err
}

const archiveColumns = `
	SELECT n, id, file, digest, size, operations, committed + failed + abandoned, settled_before, oldest, newest, actor, os_user, host, machine, terminal, created_at, until, closed_at FROM archives `

type numbered struct {
	n int64
	ledger.Archive
}

func scanArchive(rows Rows) (a numbered, err error) {
	var before, oldest, newest, created, until, closed int64
	err = rows.Scan(&a.n, &a.ID, &a.File, &a.Digest, &a.Size, &a.Operations, &a.Removed, &before, &oldest, &newest, &a.Actor.Name, &a.Actor.OSUser, &a.Actor.Host,
		&a.Actor.Machine, &a.Actor.Terminal, &created, &until, &closed)
	a.Oldest, a.Newest = At(oldest), At(newest)
	a.Before, a.CreatedAt, a.Until, a.ClosedAt = At(before), At(created), At(until), At(closed)
	return a, err
}

// Archives returns the archives, oldest first.
func (k shelf) Archives(ctx context.Context) ([]ledger.Archive, error) {
	all, err := Gather(ctx, k.s.db, scanArchive, archiveColumns+`ORDER BY n`)
	return ledger.Each(all, func(a numbered) ledger.Archive { return a.Archive }), err
}

// ChangeArchive carries an archive on.
func (k shelf) ChangeArchive(ctx context.Context, next ledger.Archive) error {
	return k.s.update(ctx, func(tx *tx) error {
		if err := tx.Lock("archive"); err != nil {
			return err
		}
		all, err := Collect(tx, scanArchive, archiveColumns+`WHERE closed_at = 0 OR id = ?`, next.ID)
		if err != nil {
			return err
		}
		now := tx.now()
		for _, a := range all {
			if a.ID != next.ID && a.Until.After(now) && next.ClosedAt.IsZero() {
				return &ledger.LeasedError{Holder: a.Actor.Name, Until: a.Until}
			}
		}
		i := slices.IndexFunc(all, func(a numbered) bool { return a.ID == next.ID })
		if i < 0 {
			return tx.Later(`INSERT INTO archives (id, file, settled_before, actor, os_user, host, machine, terminal, created_at, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				next.ID, next.File, tx.d.Time(next.Before), named(next.Actor.Name), next.Actor.OSUser, next.Actor.Host, tx.d.Flag(next.Actor.Machine), tx.d.Flag(next.Actor.Terminal),
				tx.d.Time(now), tx.d.Time(next.Until))
		}
		a, e := all[i].Carry(next, now)
		if e != nil {
			if err := tx.event(*e); err != nil {
				return err
			}
		}
		return tx.Later(`UPDATE archives SET digest = ?, size = ?, operations = ?, oldest = ?, newest = ?, until = ?, closed_at = ? WHERE id = ?`,
			a.Digest, a.Size, a.Operations, tx.d.Time(a.Oldest), tx.d.Time(a.Newest), tx.d.Time(a.Until), tx.d.Time(a.ClosedAt), a.ID)
	})
}

// Reseal seals an archive anew.
func (k shelf) Reseal(ctx context.Context, r ledger.Resealing) error {
	return k.s.update(ctx, func(tx *tx) error {
		if err := tx.Lock("archive"); err != nil {
			return err
		}
		was, err := firstRow(tx, scanArchive, archiveColumns+`WHERE id = ?`, r.ID)
		if err != nil || was == nil {
			return errors.Join(err, fmt.Errorf("%w: archive %s", ledger.ErrNotFound, r.ID))
		}
		a, e, err := r.Apply(was.Archive, tx.now())
		if err != nil || e == nil {
			return err
		}
		if err := tx.event(*e); err != nil {
			return err
		}
		return tx.Later(`UPDATE archives SET digest = ?, size = ? WHERE id = ?`, a.Digest, a.Size, a.ID)
	})
}

// Archive leaves a stub of each operation, and takes the rest, in one transaction. Stubs
// that no one asks for any more go as well. Others may wait for it from when it has what
// it locks until it is durable.
func (k shelf) Archive(ctx context.Context, id string, ops []ledger.Whole) (removed int, held time.Duration, err error) {
	var locked time.Time
	ids := ledger.Each(ops, func(w ledger.Whole) string { return w.Operation.ID })
	err = k.s.update(ctx, func(tx *tx) error {
		removed = 0
		if err := errors.Join(tx.Lock("archive"), tx.lockAll(ids)); err != nil {
			return err
		}
		a, err := firstRow(tx, scanArchive, archiveColumns+`WHERE id = ?`, id)
		locked = time.Now()
		if err != nil || a == nil {
			return errors.Join(err, fmt.Errorf("%w: archive %s", ledger.ErrNotFound, id))
		}
		still, err := tx.unmoved(ids, *a)
		if err != nil {
			return err
		}
		sheaves, gone := map[time.Duration]*sheaf{}, []string(nil)
		for _, w := range ops {
			seq, ok := still[standing(w)]
			if !ok {
				continue
			}
			gone = append(gone, w.Operation.ID)
			// Those of one memory are forgotten together.
			until, ttl := w.ForgetAt(tx.Moment()), time.Duration(0)
			if !until.IsZero() {
				ttl = w.Operation.TTL
			}
			if sheaves[ttl] == nil {
				sheaves[ttl] = &sheaf{}
			}
			sheaves[ttl].add(seq, until, w)
		}
		if removed = len(gone); removed == 0 {
			return tx.forget()
		}
		for _, ttl := range slices.Sorted(maps.Keys(sheaves)) {
			if err := tx.leave(sheaves[ttl], a.n); err != nil {
				return err
			}
		}
		for _, query := range removing(tx.d) {
			if err := tx.Later(query, list(gone)); err != nil {
				return err
			}
		}
		return tx.forget()
	})
	return removed, time.Since(locked), err
}

// stands is what an operation was read as.
type stands struct {
	id               string
	version, event   int64
	reads, attempted int
	keyLive          bool
}

func standing(w ledger.Whole) stands {
	s := stands{id: w.Operation.ID, version: w.Operation.Version, reads: len(w.Reads), attempted: len(w.Attempts), keyLive: w.Operation.KeyLive}
	if n := len(w.Events); n > 0 {
		s.event = w.Events[n-1].Seq
	}
	return s
}

// unmoved are the numbers of operations as they stand, of those that may be archived.
func (tx *tx) unmoved(ids []string, a numbered) (map[stands]int64, error) {
	out := map[stands]int64{}
	_, err := Collect(tx, func(rows Rows) (none struct{}, err error) {
		var s stands
		var seq int64
		err = rows.Scan(&seq, &s.id, &s.version, &s.keyLive, &s.event, &s.reads, &s.attempted)
		out[s] = seq
		return none, err
	}, `SELECT o.seq, o.id, o.version, o.key_live, (SELECT coalesce(max(e.seq), 0) FROM events e WHERE e.operation_id = o.id AND e.operation_id <> ''),
	           (SELECT count(*) FROM reads r WHERE r.operation_id = o.id), (SELECT count(*) FROM attempts t WHERE t.operation_id = o.id)
	      FROM operations o WHERE o.id IN (SELECT value FROM json_each(?1)) AND `+archivable, list(ids), Millis(a.Before), Millis(tx.now()))
	return out, err
}

// removing takes what belongs to operations that have a stub.
func removing(d *Dialect) []string {
	if d.Remove != "" {
		return []string{d.Remove}
	}
	of := ` WHERE operation_id IN (SELECT value FROM json_each(?))`
	return []string{`DELETE FROM leases` + of, `DELETE FROM grants` + of, `DELETE FROM reads` + of, `DELETE FROM attempts` + of,
		`DELETE FROM events` + of + ` AND operation_id <> '' AND incident = '' AND doubt IS NULL`,
		`DELETE FROM operations WHERE id IN (SELECT value FROM json_each(?))`,
		`DELETE FROM open_operations WHERE seq IN (SELECT seq FROM archived WHERE id IN (SELECT value FROM json_each(?)))`}
}

// giveBack puts an archived operation that changes into the ledger again.
func (tx *tx) giveBack(rec *Record) error {
	o := rec.Operation
	e := ledger.Returned(o)
	set := every(tx.d, columns, &o)
	set.set("seq", rec.stub)
	set.told(tx.d, ledger.Event{ID: ledger.NewID(), Verb: e.Verb, Actor: e.Actor, Reason: o.Reason})
	if o.Receipt() != "" {
		set.set("receipt", o.Receipt())
	}
	if err := tx.Later(set.insert("operations"), set.values...); err != nil {
		return err
	}
	for _, a := range rec.Attempts {
		a.EndedSteady.Boot = endedBoot(a)
		set := every(tx.d, attemptColumns, &a)
		set.set("operation_id", o.ID)
		if err := tx.Later(set.insert("attempts"), set.values...); err != nil {
			return err
		}
	}
	for _, query := range returning(tx.d) {
		if err := tx.Later(query, rec.stub); err != nil {
			return err
		}
	}
	rec.stub = 0
	return tx.event(e)
}

// returning forgets the stub, and has the list take the operation where it belongs there.
func returning(d *Dialect) []string {
	if d.Return != "" {
		return []string{d.Return}
	}
	return []string{`DELETE FROM archived WHERE seq = ?`, `UPDATE operations SET parked_until = parked_until WHERE seq = ?`}
}

// every are all columns that have something. change_id and what goes with it are told.
func every[T any](d *Dialect, columns []column[T], row *T) assignment {
	a := newAssignment()
	for _, c := range columns {
		f := c.field(row)
		if (c.use&required != 0 || !empty(f) || c.name == "key_live") && c.name != "actor" && c.name != "reason" {
			a.set(c.name, d.value(f))
		}
	}
	return a
}
