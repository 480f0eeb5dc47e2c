package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"indoubt/ledger"
)

// Change reads the record, applies the rule and writes the result.
func (s *Store) Change(ctx context.Context, loc ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	var applied ledger.Applied
	err := s.write(ctx, s.change(loc, changeID, rule, &applied))
	if err != nil {
		return ledger.Applied{}, err
	}
	return applied, nil
}

// write runs a job, if this ledger may be written here.
func (s *handle) write(ctx context.Context, run func(*tx) error) error {
	if err := s.writable(); err != nil {
		return err
	}
	return s.writer.do(ctx, run)
}

func (s *handle) writable() error {
	switch {
	case s.copied != "":
		return fmt.Errorf("%w (%s)", ledger.ErrCopied, s.copied)
	case s.writer == nil:
		return ledger.ErrReadOnly
	}
	return nil
}

// change is the job of one Change. A change that lost a race to a writer that
// ignores the write lock starts again from what is there now.
func (s *handle) change(loc ledger.Locator, changeID string, rule ledger.Rule, applied *ledger.Applied) func(*tx) error {
	if changeID == "" {
		changeID = ledger.NewID()
	}
	return func(tx *tx) error {
		tx.change = true
		for tries := 0; ; tries++ {
			now := s.moment()
			rec, known, err := tx.load(loc, changeID, now)
			if err != nil {
				return err
			}
			if known {
				return tx.known(changeID, now, applied)
			}
			was := rec.Operation
			c, err := rule(&rec.Record)
			if err != nil {
				return err
			}
			rec.Operation = was // what is written is told from what was there
			*applied, err = tx.apply(&rec, c, changeID)
			if !errors.Is(err, errRaced) || tries == 3 {
				return err
			}
		}
	}
}

// load reads the record and reports whether the change is in the history. Most
// attempts that are settled were begun here, and most reads made under a lease of here.
func (tx *tx) load(loc ledger.Locator, changeID string, now ledger.Moment) (rec record, known bool, err error) {
	if rec, ok := tx.w.begun.take(cmp.Or(loc.AttemptID, loc.ID)); ok && loc.Skip&rec.lacks == rec.lacks {
		known, err = tx.happened(changeID)
		return rec.at(now, loc.Skip), known, err
	}
	return load(tx, loc, changeID, now, false)
}

// known fills in what a change that is recorded already has left.
func (tx *tx) known(changeID string, now ledger.Moment, applied *ledger.Applied) error {
	*applied = ledger.Applied{Noop: true}
	var id string
	var detail sql.NullString
	if err := tx.scan(`SELECT operation_id, detail FROM events WHERE id = ?`, []any{changeID}, &id, &detail); err != nil || id == "" {
		return err
	}
	rec, _, err := load(tx, ledger.Locator{ID: id}, "", now, false)
	if err != nil {
		return err
	}
	*applied = ledger.Applied{Before: rec.Operation, After: rec.Operation, Noop: true}
	var names struct{ Attempt, Grant string }
	if detail.Valid {
		_ = json.Unmarshal([]byte(detail.String), &names) // other writers may put anything there
	}
	if a := rec.Attempt(names.Attempt); a != nil {
		applied.Attempt = *a
	}
	for _, g := range rec.Grants {
		if g.ID == names.Grant {
			applied.Grant = g
		}
	}
	return nil
}

// apply writes a change. Grants come first, because an attempt may need one;
// attempts after the operation with which they begin and end.
func (tx *tx) apply(rec *record, c ledger.Change, changeID string) (ledger.Applied, error) {
	applied := ledger.Applied{Before: rec.Operation, After: rec.Operation}
	if writesNothing(c) {
		applied.Noop = true
		return applied, nil
	}
	if tx.w.gone != nil && permits(rec, c) {
		return applied, tx.w.gone
	}
	if c.Event != nil {
		e := *c.Event
		if e.ID == "" {
			e.ID = changeID
		}
		c.Event = &e
	}
	tx.w.begun.forget(rec.Operation)
	if c.Insert {
		applied.Before = ledger.Operation{}
		if c.Retire {
			if err := tx.exec(`UPDATE operations SET key_live = 0 WHERE id = ?`, rec.Operation.ID); err != nil {
				return applied, err
			}
		}
		*rec = record{Record: ledger.Record{Now: rec.Now, Steady: rec.Steady}}
	}
	for _, g := range c.Grants {
		if err := tx.grant(g, hasGrant(rec, g.ID)); err != nil {
			return applied, err
		}
		applied.Grant = g
	}
	if err := tx.fault(c); err != nil {
		return applied, err
	}
	after, err := tx.operation(rec, c)
	if err != nil {
		return applied, err
	}
	applied.After = after
	for _, a := range c.Attempts {
		applied.Attempt = a
		if err := tx.attempt(rec.Attempt(a.ID), a); err != nil {
			return applied, err
		}
		if rec, ok := beginning(after, a); ok && c.Insert && after.LiveAttempt == a.ID {
			tx.began = append(tx.began, rec)
		}
	}
	if c.Read != nil {
		if err := tx.read(*c.Read, ""); err != nil {
			return applied, err
		}
	}
	if c.Release != nil {
		if err := tx.release(*c.Release); err != nil {
			return applied, err
		}
	}
	if c.Pricing != nil { // after the change, which outdates the prices there were
		if err := tx.price(*c.Pricing, ms(rec.Now), after, c.Insert); err != nil || after.State != ledger.Uncertain {
			return applied, err
		}
		return applied, tx.doubts([]ledger.Pricing{*c.Pricing})
	}
	return applied, nil
}

func writesNothing(c ledger.Change) bool {
	return c.Operation == nil && len(c.Attempts) == 0 && len(c.Grants) == 0 && c.Read == nil && c.Event == nil &&
		c.RecheckAt.IsZero() && c.Release == nil && c.Pricing == nil
}

// permits reports whether this change allows a send (I1). All else
// is written down even where it may never be seen.
func permits(rec *record, c ledger.Change) bool {
	return slices.ContainsFunc(c.Attempts, func(a ledger.Attempt) bool { return rec.Attempt(a.ID) == nil }) ||
		slices.ContainsFunc(c.Grants, func(g ledger.Grant) bool { return !hasGrant(rec, g.ID) })
}

func hasGrant(rec *record, id string) bool {
	for _, g := range rec.Grants {
		if g.ID == id {
			return true
		}
	}
	return false
}

// operation writes the row and leaves the event: by the database where the
// version moves, directly where nothing does.
func (tx *tx) operation(rec *record, c ledger.Change) (ledger.Operation, error) {
	before := rec.Operation
	recheck := recheckAt(rec, c)
	if c.Operation == nil {
		if recheck != rec.recheckAt {
			if err := tx.exec(`UPDATE operations SET recheck_at = ? WHERE id = ?`, recheck, before.ID); err != nil {
				return before, err
			}
		}
		return before, tx.remark(before, c.Event)
	}
	o := kept(columns, *c.Operation)
	switch {
	case c.Insert:
		if c.Event == nil {
			return o, errors.New("a new operation needs an event")
		}
		if err := tx.insertOperation(o, *c.Event); err != nil {
			return o, err
		}
		o.Actor, o.Reason = named(c.Event.Actor.Name), c.Event.Reason
		return o, tx.mark(o.ID, c.Marks)
	case o.Version == before.Version && o.State == before.State && o.Awaits == before.Awaits &&
		o.Actor == before.Actor && o.Reason == before.Reason && o.UpdatedAt.Equal(before.UpdatedAt):
		n, err := tx.execN(updateClocks, ms(o.DeadlineAt), ms(o.ParkedUntil), recheck, flag(o.Undelivered), o.Hands, o.ID, before.Version)
		if err == nil && n == 0 {
			err = errRaced
		}
		if err != nil {
			return o, err
		}
		return o, tx.remark(o, c.Event)
	case c.Event == nil:
		return o, errors.New("a change of an operation needs an event")
	}
	query, values := updateOperation(before, o, recheck, rec.recheckAt, *c.Event)
	n, err := tx.execN(query, values...)
	if err == nil && n == 0 {
		err = errRaced
	}
	o.Actor, o.Reason = named(c.Event.Actor.Name), c.Event.Reason
	return o, err
}

// updateOperation is the statement that changes an operation, and leaves the event.
func updateOperation(before, o ledger.Operation, recheck, was int64, e ledger.Event) (query string, values []any) {
	set := differences(columns, &before, &o, o.State != before.State)
	if slices.Contains(set.names, "receipts") {
		set.set("receipt", o.Receipt())
	}
	if recheck != was {
		set.set("recheck_at", recheck)
	}
	set.told(e)
	return set.update("operations", "id = ? AND version = ?"), append(set.values, o.ID, before.Version)
}

const updateClocks = `
	UPDATE operations SET deadline_at = ?, parked_until = ?, recheck_at = ?, undelivered = ?, hands = ? WHERE id = ? AND version = ?`

func (tx *tx) insertOperation(o ledger.Operation, e ledger.Event) error {
	set := first(columns, &o)
	set.told(e)
	return tx.exec(set.insert("operations"), set.values...)
}

// remark leaves an event that moves nothing.
func (tx *tx) remark(o ledger.Operation, e *ledger.Event) error {
	if e == nil {
		return nil
	}
	r := *e
	r.OperationID, r.From, r.To, r.Version = o.ID, o.State, o.State, o.Version
	return tx.event(r)
}

func (tx *tx) event(e ledger.Event) error {
	if e.At.IsZero() {
		e.At = tx.w.store.now()
	}
	return tx.exec(`
		INSERT INTO events (id, operation_id, incident, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, e.OperationID, e.Incident, ms(e.At), e.Verb, named(e.Actor.Name), e.Actor.OSUser, e.Actor.Host, flag(e.Actor.Machine), flag(e.Actor.Terminal),
		e.Reason, e.From, e.To, e.Version, text(e.Detail))
}

// recheckAt is when a settled operation is read once more: as the change says,
// else as before, until a read was made or the operation is open again.
func recheckAt(rec *record, c ledger.Change) int64 {
	state := rec.Operation.State
	if c.Operation != nil {
		state = c.Operation.State
	}
	switch {
	case state == ledger.Pending || state == ledger.Uncertain:
		return 0
	case !c.RecheckAt.IsZero():
		return ms(c.RecheckAt)
	case c.Read != nil:
		return 0
	}
	return rec.recheckAt
}

func (tx *tx) grant(g ledger.Grant, there bool) error {
	if there {
		return tx.exec(`UPDATE grants SET consumed_at = ?, attempt_id = ?, voided_at = ?, void_reason = ? WHERE id = ?`,
			ms(g.ConsumedAt), g.AttemptID, ms(g.VoidedAt), g.VoidReason, g.ID)
	}
	return tx.exec(`
		INSERT INTO grants (id, operation_id, version, basis, sender, key_works, actor, reason,
			created_at, boot_id, created_steady, expires_at, related, consumed_at, attempt_id, voided_at, void_reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		g.ID, g.OperationID, g.Version, g.Basis, g.Sender, flag(g.KeyWorks), named(g.Actor), g.Reason,
		ms(g.CreatedAt), g.CreatedSteady.Boot, g.CreatedSteady.At.Milliseconds(), ms(g.ExpiresAt), list(g.Related), ms(g.ConsumedAt), g.AttemptID, ms(g.VoidedAt), g.VoidReason)
}

// attempt writes down an attempt that begins, or what has changed of one that was.
func (tx *tx) attempt(was *ledger.Attempt, a ledger.Attempt) error {
	a.EndedSteady.Boot = seenBoot(a)
	if was == nil {
		set := first(attemptColumns, &a)
		set.set("operation_id", a.OperationID)
		return tx.exec(set.insert("attempts"), set.values...)
	}
	before := *was
	before.EndedSteady.Boot = seenBoot(before)
	set := differences(attemptColumns, &before, &a, false)
	if len(set.names) == 0 {
		return nil
	}
	return tx.exec(set.update("attempts", "operation_id = ? AND n = ?"), append(set.values, a.OperationID, a.N)...)
}

// seenBoot is the boot of an attempt's end, where that is not the one it began under.
func seenBoot(a ledger.Attempt) string {
	if a.EndedSteady.Boot == a.BootID {
		return ""
	}
	return a.EndedSteady.Boot
}

// read writes a read down; control is the kind that it is a positive control for.
func (tx *tx) read(r ledger.Read, control string) error {
	return tx.exec(`
		INSERT INTO reads (id, operation_id, control, kind, began_at, ended_at, verdict, cause, reason, found, receipts, evidence, proof_at, digest, actor)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.OperationID, flag(r.Control), control, ms(r.BeganAt), ms(r.EndedAt), r.Verdict, r.Cause, r.Reason, r.Found, list(r.Receipts),
		text(r.Evidence), ms(r.ProofAt), r.Digest, r.Actor)
}

// execN runs a statement that others should hear of and tells how many rows it
// changed.
func (tx *tx) execN(query string, args ...any) (int64, error) {
	tx.wrote, tx.touched = true, true
	return tx.w.execN(query, args...)
}

// named keeps an actor without a name from failing the change it made.
func named(name string) string {
	if name == "" {
		return "unknown"
	}
	return name
}
