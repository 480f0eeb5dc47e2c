package tables

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"indoubt/ledger"
)

// Change reads the record, applies the rule and writes the result. A key that turns out
// to be known, or that others hold, is looked at before others are kept from it: mostly
// there is nothing to write, and hundreds who want one key would wait for each other's
// round trips.
func (s *Store) Change(ctx context.Context, loc ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	var applied ledger.Applied
	err := s.db.Update(ctx, s.change(loc, changeID, rule, &applied, true))
	if errors.Is(err, errKnownKey) || s.d.Far && loc.Key != "" && errors.Is(err, ledger.ErrBusy) {
		done := false
		if done, err = s.look(ctx, loc, changeID, rule, &applied); !done && err == nil {
			err = s.db.Update(ctx, s.change(loc, changeID, rule, &applied, false))
		}
	}
	if err != nil {
		return ledger.Applied{}, err
	}
	return applied, nil
}

// errKnownKey: the guess that no operation has the key was wrong.
var errKnownKey = errors.New("the key is known")

// look applies the rule where it leaves everything as it is, and reports whether it does.
func (s *Store) look(ctx context.Context, loc ledger.Locator, changeID string, rule ledger.Rule, applied *ledger.Applied) (done bool, err error) {
	err = s.db.View(ctx, func(q Querier) error {
		rec, known, err := load(q, s.d, loc, changeID, false)
		if err != nil || known {
			return err
		}
		c, err := rule(&rec.Record)
		done = err == nil && writesNothing(c)
		*applied = ledger.Applied{Before: rec.Operation, After: rec.Operation, Noop: true}
		return err
	})
	return done, err
}

// change is the transaction of one Change. A change that lost a race to a writer that
// ignores the locks starts again from what is there now. With unheard, it may guess that
// no operation has the key.
func (s *Store) change(loc ledger.Locator, changeID string, rule ledger.Rule, applied *ledger.Applied, unheard bool) func(Tx) error {
	if changeID == "" {
		changeID = ledger.NewID()
	}
	tried := false // that guess
	return func(t Tx) error {
		if tried {
			return errKnownKey
		}
		tx := &tx{t, s.d}
		tx.Known(changeID)
		for tries := 0; ; tries++ {
			rec, guessed := tx.guess(loc, unheard)
			tried = guessed && rec.Operation.ID == ""
			if !guessed {
				var known bool
				var err error
				if rec, known, err = tx.load(loc, changeID); err != nil {
					return err
				}
				if known {
					return tx.known(changeID, applied)
				}
			}
			was := rec.Operation
			c, err := rule(&rec.Record)
			if guessed && (err != nil || writesNothing(c)) {
				continue // a guess is only written, and the database looks whether it holds
			}
			if err != nil {
				return err
			}
			rec.Operation = was // what is written is told from what was there
			err = tx.apply(&rec, c, changeID, applied)
			if err == nil && c.Then != nil {
				err = tx.then(c, applied)
			}
			if !errors.Is(err, ErrRaced) || tries == 3 {
				return err
			}
		}
	}
}

// then makes the change that follows an insertion.
func (tx *tx) then(inserted ledger.Change, applied *ledger.Applied) error {
	rec, _, err := load(tx.Tx, tx.d, ledger.Locator{ID: inserted.Operation.ID}, "", false)
	if err != nil {
		return err
	}
	was := rec.Operation
	c, err := inserted.Then(&rec.Record)
	if err != nil {
		return err
	}
	rec.Operation = was
	return tx.apply(&rec, c, "", applied)
}

// guess is the record as it most likely is, where a guess saves a round trip. What is
// written from it is refused if it is wrong.
func (tx *tx) guess(loc ledger.Locator, unheard bool) (rec Record, ok bool) {
	if !tx.d.Far {
		return rec, false
	}
	if loc.ID == "" && loc.AttemptID != "" && loc.Skip == ledger.AllParts {
		if rec, ok = tx.Take(loc.AttemptID); ok {
			rec = rec.at(tx.Moment(), loc.Skip)
		}
		return rec, ok
	}
	if unheard && loc.Key != "" && loc.ID+loc.AttemptID+loc.Awaits == "" && loc.Skip|ledger.PartHolds|ledger.PartRelated == ledger.AllParts && tx.Unheard(loc) {
		return nothing(tx), true
	}
	return rec, false
}

// load reads the record and reports whether the change is in the history.
func (tx *tx) load(loc ledger.Locator, changeID string) (rec Record, known bool, err error) {
	if tx.d.Locks {
		if err := tx.lock(loc); err != nil {
			return rec, false, err
		}
	}
	return load(tx.Tx, tx.d, loc, changeID, false)
}

// lock keeps others from what the change looks at.
func (tx *tx) lock(loc ledger.Locator) error {
	at, err := locate(loc)
	if err == nil && at.id == byKey {
		err = tx.Lock(KeyName(loc.Scope, loc.Key))
	}
	if err == nil {
		err = tx.LockOperation(loc.Skip&ledger.PartRelated == 0, at.id, at.args...)
	}
	if err == nil && loc.Gate != "" {
		err = tx.Lock(GateName(loc.Gate))
	}
	if err == nil && loc.Skip&ledger.PartHolds == 0 {
		err = tx.Share("holds")
	}
	return err
}

// KeyName is the name that is locked while it is not clear who has a key.
func KeyName(scope, key string) string { return "key:" + scope + "\n" + key }

// GateName is the name that is locked while it is not clear what is open under a gate.
func GateName(gate string) string { return "gate:" + ledger.GateBase(gate) }

// lockAll keeps others from several operations, always in the same order.
func (tx *tx) lockAll(ids []string) error {
	if !tx.d.Locks {
		return nil
	}
	return tx.LockOperations(list(ids))
}

// known fills in what a change that is recorded already has left.
func (tx *tx) known(changeID string, applied *ledger.Applied) error {
	*applied = ledger.Applied{Noop: true}
	var id, detail string
	if err := one(tx.Tx, `SELECT operation_id, coalesce(detail, '') FROM events WHERE id = ?`, []any{changeID}, &id, &detail); err != nil || id == "" {
		return err
	}
	rec, _, err := load(tx.Tx, tx.d, ledger.Locator{ID: id}, "", false)
	if err != nil {
		return err
	}
	*applied = ledger.Applied{Before: rec.Operation, After: rec.Operation, Noop: true}
	var names struct{ Attempt, Grant string }
	if detail != "" {
		_ = json.Unmarshal([]byte(detail), &names) // other writers may put anything there
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
func (tx *tx) apply(rec *Record, c ledger.Change, changeID string, applied *ledger.Applied) error {
	*applied = ledger.Applied{Before: rec.Operation, After: rec.Operation}
	if writesNothing(c) {
		applied.Noop = true
		return nil
	}
	if permits(rec, c) {
		if err := tx.Lets(c); err != nil {
			return err
		}
	}
	if c.Event != nil {
		e := *c.Event
		if e.ID == "" {
			e.ID = changeID
		}
		c.Event = &e
	}
	tx.Take(rec.Operation.LiveAttempt)
	if c.Insert {
		applied.Before = ledger.Operation{}
	}
	if err := tx.room(rec, c); err != nil {
		return err
	}
	for _, g := range c.Grants {
		if err := tx.grant(g, hasGrant(rec, g.ID)); err != nil {
			return err
		}
		applied.Grant = g
	}
	if c.Read != nil { // before what it settles: the database asks for it
		if err := tx.read(*c.Read); err != nil {
			return err
		}
	}
	after := &applied.After
	if err := tx.operation(rec, c, after); err != nil {
		return err
	}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		applied.Attempt = *a
		if err := tx.attempt(rec.Attempt(a.ID), *a); err != nil {
			return err
		}
		tx.keep(c, after, a)
	}
	if err := tx.erase(applied.Before, after.Key, changeID, c.Erase); err != nil {
		return err
	}
	if c.Pricing != nil { // after the change, which outdates the prices there were
		return tx.price(*c.Pricing, Millis(rec.Now), *after, c.Insert)
	}
	return nil
}

// room makes room for a new operation.
func (tx *tx) room(rec *Record, c ledger.Change) error {
	if !c.Insert {
		return nil
	}
	id := rec.Operation.ID
	*rec = Record{Record: ledger.Record{Now: rec.Now, Steady: rec.Steady}}
	if !c.Retire {
		return nil
	}
	return tx.Later(`UPDATE operations SET key_live = ? WHERE id = ?`, tx.d.Flag(false), id)
}

func writesNothing(c ledger.Change) bool {
	return c.Operation == nil && len(c.Attempts) == 0 && len(c.Grants) == 0 && c.Read == nil && c.Event == nil &&
		c.RecheckAt.IsZero() && c.Pricing == nil
}

// permits reports whether this change allows a send (I1). All else
// is written down even where it may never be seen.
func permits(rec *Record, c ledger.Change) bool {
	return slices.ContainsFunc(c.Attempts, func(a ledger.Attempt) bool { return rec.Attempt(a.ID) == nil }) ||
		slices.ContainsFunc(c.Grants, func(g ledger.Grant) bool { return !hasGrant(rec, g.ID) })
}

func hasGrant(rec *Record, id string) bool {
	for _, g := range rec.Grants {
		if g.ID == id {
			return true
		}
	}
	return false
}

// operation writes the row, which is o then, and leaves the event: by the database where
// the version moves, directly where nothing does.
func (tx *tx) operation(rec *Record, c ledger.Change, o *ledger.Operation) error {
	before := &rec.Operation
	recheck := recheckAt(rec, c)
	if c.Operation == nil {
		if !recheck.Equal(rec.RecheckAt) {
			if err := tx.Later(`UPDATE operations SET recheck_at = ? WHERE id = ?`, tx.d.Time(recheck), before.ID); err != nil {
				return err
			}
		}
		*o = *before
		return tx.remark(before, c.Event)
	}
	*o = *c.Operation
	round(columns, o)
	if !c.Insert && o.Gate != "" && !before.State.Open() && o.State.Open() { // it may have been asked again since
		other, err := openUnder(tx.Tx, tx.d, o.Gate)
		if err != nil {
			return err
		}
		if other != nil {
			o.Gate = ""
		}
	}
	switch {
	case c.Insert:
		if c.Event == nil {
			return errors.New("a new operation needs an event")
		}
		if err := tx.insertOperation(o, *c.Event); err != nil {
			return err
		}
		o.Actor, o.Reason = named(c.Event.Actor.Name), c.Event.Reason
		return tx.mark(o.ID, c.Marks)
	case o.Version == before.Version && o.State == before.State && o.Awaits == before.Awaits &&
		o.Actor == before.Actor && o.Reason == before.Reason && o.UpdatedAt.Equal(before.UpdatedAt):
		err := tx.Must(updateClocks, tx.d.Time(o.DeadlineAt), tx.d.Time(o.ParkedUntil), tx.d.Time(recheck), tx.d.Flag(o.Undelivered), o.Hands, o.ID, before.Version)
		if err != nil {
			return err
		}
		return tx.remark(o, c.Event)
	case c.Event == nil:
		return errors.New("a change of an operation needs an event")
	}
	of := changed
	if c.Erase != nil {
		of |= redactable
	}
	set := differences(tx.d, columns, before, o, of, o.State != before.State)
	if slices.Contains(set.names, "receipts") {
		set.set("receipt", o.Receipt())
	}
	if !recheck.Equal(rec.RecheckAt) {
		set.set("recheck_at", tx.d.Time(recheck))
	}
	set.told(tx.d, *c.Event)
	err := tx.Must(set.update("operations", atVersion), append(set.values, o.ID, before.Version)...)
	o.Actor, o.Reason = named(c.Event.Actor.Name), c.Event.Reason
	return err
}

// atVersion is an operation in a version. In another one it divides by zero, which is no
// row, or an error.
const atVersion = `id = ? AND 1 / CASE version WHEN ? THEN 1 ELSE 0 END = 1`

const updateClocks = `
	UPDATE operations SET deadline_at = ?, parked_until = ?, recheck_at = ?, undelivered = ?, hands = ? WHERE ` + atVersion

func (tx *tx) insertOperation(o *ledger.Operation, e ledger.Event) error {
	set := first(tx.d, columns, o)
	if !o.KeyLive {
		set.set("key_live", tx.d.Flag(false))
	}
	set.told(tx.d, e)
	return tx.Later(set.insert("operations"), set.values...)
}

// remark leaves an event that moves nothing.
func (tx *tx) remark(o *ledger.Operation, e *ledger.Event) error {
	if e == nil {
		return nil
	}
	r := *e
	r.OperationID, r.From, r.To, r.Version = o.ID, o.State, o.State, o.Version
	return tx.event(r)
}

func (tx *tx) event(e ledger.Event) error { return AddEvent(tx.Tx, tx.d, e) }

// AddEvent leaves an event, of now where it has no time.
func AddEvent(tx Tx, d *Dialect, e ledger.Event) error {
	if e.At.IsZero() {
		e.At = tx.Moment().Wall
	}
	return tx.Later(`
		INSERT INTO events (id, operation_id, outage, run, at, verb, actor, os_user, host, machine, terminal, reason, from_state, to_state, version, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, e.OperationID, e.Outage, e.Run, d.Time(e.At), e.Verb, named(e.Actor.Name), e.Actor.OSUser, e.Actor.Host, d.Flag(e.Actor.Machine), d.Flag(e.Actor.Terminal),
		e.Reason, e.From, e.To, e.Version, text(e.Detail))
}

// recheckAt is when a settled operation is read once more: as the change says,
// else as before, until a read was made or the operation is open again.
func recheckAt(rec *Record, c ledger.Change) time.Time {
	state := rec.Operation.State
	if c.Operation != nil {
		state = c.Operation.State
	}
	switch {
	case state == ledger.Pending || state == ledger.Uncertain:
		return time.Time{}
	case !c.RecheckAt.IsZero():
		return At(Millis(c.RecheckAt))
	case c.Read != nil:
		return time.Time{}
	}
	return rec.RecheckAt
}

func (tx *tx) grant(g ledger.Grant, there bool) error {
	if there {
		return tx.Later(`UPDATE grants SET consumed_at = ?, attempt_id = ?, voided_at = ?, void_reason = ? WHERE id = ?`,
			tx.d.Time(g.ConsumedAt), g.AttemptID, tx.d.Time(g.VoidedAt), g.VoidReason, g.ID)
	}
	return tx.Later(`
		INSERT INTO grants (id, operation_id, version, basis, sender, key_works, actor, reason,
			created_at, expires_at, related, consumed_at, attempt_id, voided_at, void_reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		g.ID, g.OperationID, g.Version, g.Basis, g.Sender, tx.d.Flag(g.KeyWorks), named(g.Actor), g.Reason,
		tx.d.Time(g.CreatedAt), tx.d.Time(g.ExpiresAt), list(g.Related), tx.d.Time(g.ConsumedAt), g.AttemptID, tx.d.Time(g.VoidedAt), g.VoidReason)
}

// attempt writes down an attempt that begins, or what has changed of one that was.
func (tx *tx) attempt(was *ledger.Attempt, a ledger.Attempt) error {
	if was == nil {
		set := first(tx.d, attemptColumns, &a)
		set.set("operation_id", a.OperationID)
		return tx.Later(set.insert("attempts"), set.values...)
	}
	set := differences(tx.d, attemptColumns, was, &a, changed, false)
	if len(set.names) == 0 {
		return nil
	}
	return tx.Later(set.update("attempts", "operation_id = ? AND n = ?"), append(set.values, a.OperationID, a.N)...)
}

// read writes a read down.
func (tx *tx) read(r ledger.Read) error {
	return tx.Later(`
		INSERT INTO reads (id, operation_id, began_at, ended_at, verdict, cause, reason, found, receipts, evidence, proof_at, digest, actor, seen_boot, seen_steady, seen_over)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.OperationID, tx.d.Time(r.BeganAt), tx.d.Time(r.EndedAt), r.Verdict, r.Cause, r.Reason, r.Found, list(r.Receipts),
		text(r.Evidence), tx.d.Time(r.ProofAt), r.Digest, r.Actor, r.Seen.Boot, r.Seen.At.Milliseconds(), r.Over)
}

// named keeps an actor without a name from failing the change it made.
func named(name string) string {
	if name == "" {
		return "unknown"
	}
	return name
}
