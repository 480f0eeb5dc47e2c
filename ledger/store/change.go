package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
)

// Change reads the record, applies the rule and writes the result. Where it would let someone send, and the ledger
// lacks what was recorded in it, begins are held for everyone first.
func (s *Store) Change(ctx context.Context, loc ledger.Locator, changeID string, rule ledger.Rule) (applied ledger.Applied, err error) {
	if changeID == "" {
		changeID = ledger.NewID()
	}
	applied, err = change(ctx, s, loc, changeID, rule)
	if lacks := (*lacking)(nil); errors.As(err, &lacks) {
		if held := lacks.hold(ctx, s.db); held != nil {
			return applied, errors.Join(err, held)
		}
		return change(ctx, s, loc, changeID, rule)
	}
	return applied, err
}

func change(ctx context.Context, s *Store, loc ledger.Locator, changeID string, rule ledger.Rule) (applied ledger.Applied, err error) {
	mask, err := s.masks.get(ctx)
	if err != nil && !errors.As(err, new(*digestkey.Error)) {
		return applied, err
	}
	unmasked, name := loc.Key != "" && mask == nil, underName(loc.Key, mask, loc.Scope, loc.Kind)
	id := ""       // of an operation that is inserted
	var left known // by this change
	err = s.db.Update(ctx, func(tx Tx) error {
		applied, left = ledger.Applied{}, known{}
		must := s.newest.get()
		if loc.Key != "" {
			Ahead(tx, newestQuery, must.Operation, must.Change)
			Ahead(tx, timesQuery, name...)
		}
		if loc.Gate != "" {
			Ahead(tx, gateQuery, underGate(loc.Gate)...)
		}
		if unmasked {
			Ahead(tx, checkQuery)
		}
		l, err := load(tx, loc, mask)
		if err != nil {
			return err
		}
		if slices.Contains(l.ids, changeID) {
			return l.known(tx, changeID, &applied)
		}
		if l.rec.Open, err = openUnder(tx, loc.Gate); err != nil {
			return err
		}
		if loc.Key != "" {
			if err = l.countNamed(tx, name); err != nil {
				return err
			}
		}
		if l.rec.Mask = mask; unmasked {
			l.noKey = s.masks.lacks(tx)
		}
		l.whole = func() error { return s.newest.asks(tx, must) }
		c, err := apply(tx, l, changeID, rule, &applied)
		if c.Insert {
			id = c.Operation.ID
		}
		if err == nil && c.Event != nil && !applied.Noop {
			left = known{applied.After.ID, nonEmpty(c.Event.ID, changeID), l.rec.Now}
		}
		if err != nil || c.Then == nil || applied.Noop {
			return err
		}
		if l, err = load(tx, ledger.Locator{ID: c.Operation.ID}, nil); err != nil {
			return err
		}
		l.rec.Mask = mask
		then := ledger.Applied{}
		_, err = apply(tx, l, ledger.NewID(), c.Then, &then)
		applied = then
		return err
	})
	if refused := (*ledger.GuardError)(nil); id != "" && errors.As(err, &refused) {
		err = recorded(ctx, s.db, id, changeID, refused, &applied)
	}
	if err != nil {
		return ledger.Applied{}, err
	}
	s.newest.saw(left)
	return applied, nil
}

// recorded is for an insertion that was refused: the operation may be there, by this change, and have
// given its name up since.
func recorded(ctx context.Context, db Database, id, changeID string, refused error, applied *ledger.Applied) error {
	return db.View(ctx, func(tx Tx) error {
		l, err := load(tx, ledger.Locator{ID: id}, nil)
		switch {
		case err != nil:
			return err
		case !slices.Contains(l.ids, changeID):
			return refused
		}
		return l.known(tx, changeID, applied)
	})
}

// happened reports whether a change is in the history of an operation, or of the ledger (0).
func happened(tx Tx, seq int64, changeID string) (known bool, err error) {
	err = One(tx, []any{&known}, `SELECT EXISTS (SELECT 1 FROM ev WHERE op = ? AND id = ?)`, seq, changeID)
	return known, err
}

// known fills in what a change that is recorded already has left.
func (l *loaded) known(tx Tx, changeID string, applied *ledger.Applied) error {
	*applied = ledger.Applied{Before: *l.o, After: *l.o, Noop: true}
	events, err := EventsOf(tx, `e.op = ? AND e.id = ?`, l.seq, changeID)
	if err != nil || len(events) == 0 {
		return err
	}
	var names struct{ Attempt, Allow string }
	_ = json.Unmarshal(events[0].Detail, &names) // other writers may put anything there
	if a := l.rec.Attempt(names.Attempt); a != nil {
		applied.Attempt = *a
	}
	for _, g := range l.rec.Allowed {
		if g.ID == names.Allow {
			applied.Allowed = g
		}
	}
	return nil
}

func writesNothing(c ledger.Change) bool {
	return c.Operation == nil && len(c.Attempts) == 0 && len(c.Allowed) == 0 && c.Read == nil && c.Event == nil &&
		c.RecheckAt.IsZero() && c.Pricing == nil
}

// apply applies a rule to a record, and writes what comes of it.
func apply(tx Tx, l *loaded, changeID string, rule ledger.Rule, applied *ledger.Applied) (ledger.Change, error) {
	withoutEvidence(l.rec.Reads)
	c, err := rule(&l.rec)
	if err != nil {
		return c, err
	}
	if writesNothing(c) {
		*applied = ledger.Applied{Before: *l.o, After: *l.o, Noop: true}
		return c, nil
	}
	if c.Event != nil && c.Event.ID != "" {
		changeID = c.Event.ID
	}
	if c.Insert && l.noKey != nil { // a name that was redacted would count as a new one
		return c, l.noKey
	}
	if err := lets(tx, l, c); err != nil {
		return c, err
	}
	w := &writing{tx: tx, c: c, id: changeID, now: l.rec.Now, mask: l.rec.Mask, was: l, is: l.row, before: l.state,
		after: state{attempts: slices.Clone(l.attempts), reads: slices.Clone(l.reads), allowed: slices.Clone(l.allowed)}}
	if c.Insert {
		if err := w.room(); err != nil {
			return c, err
		}
	}
	if err := w.gather(); err != nil {
		return c, err
	}
	if err := w.write(); err != nil {
		return c, err
	}
	*applied = ledger.Applied{Before: *w.was.o, After: *w.is.o}
	if len(c.Attempts) > 0 {
		applied.Attempt = c.Attempts[len(c.Attempts)-1]
	}
	if len(c.Allowed) > 0 {
		applied.Allowed = c.Allowed[len(c.Allowed)-1]
	}
	if w.price == w.was.price {
		return c, nil
	}
	return c, w.price.save(tx, w.is)
}

// writing is one change on its way into the tables.
type writing struct {
	tx            Tx
	c             ledger.Change
	id            string // of the change
	now           time.Time
	mask          ledger.Mask
	was           *loaded
	is            row
	before, after state // as its events say, and will say
	n             int   // of the attempt that it is about
	times         int   // how many had the name of a new operation before
	price         price
}

// room makes room for a new operation under its name.
func (w *writing) room() error {
	if o := w.c.Operation; !w.was.named {
		if err := w.was.countNamed(w.tx, underName(o.Key, w.mask, o.Scope, o.Kind)); err != nil {
			return err
		}
	}
	w.times = w.was.rec.Times
	if w.c.Retire {
		if err := exec(w.tx, `UPDATE op SET live = 0 WHERE seq = ?`, w.was.seq); err != nil {
			return err
		}
	}
	if w.was.rec.Found {
		w.was = none()
	}
	w.is, w.before, w.after = row{mark: marked("", w.c.Marks)}, w.was.state, state{}
	if !w.c.Operation.KeyLive && w.c.Then == nil {
		return &ledger.GuardError{Message: "what has no name was sent before"}
	}
	return nil
}

// marked adds marks to those of an operation, each between line ends.
func marked(had string, values []string) string {
	for _, v := range values {
		if v != "" && !strings.Contains(had, "\n"+v+"\n") {
			had = nonEmpty(had, "\n") + v + "\n"
		}
	}
	return had
}

// marksOf are the marks of an operation.
func marksOf(had string) []string {
	return strings.FieldsFunc(had, func(r rune) bool { return r == '\n' })
}

// gather works out the row and the state as they will be.
func (w *writing) gather() error {
	c, s, o := w.c, &w.after, *w.was.o
	if c.Operation != nil {
		o = *c.Operation
	}
	if !c.Insert && o.Gate != "" && !w.was.o.State.Open() && o.State.Open() { // it may have been asked again since
		other, err := openUnder(w.tx, o.Gate)
		if err != nil {
			return err
		}
		if other != nil {
			o.Gate = ""
		}
	}
	if o.UpdatedAt.IsZero() {
		o.UpdatedAt = w.now
	}
	s.op, w.n = &o, o.AttemptCount
	for _, a := range c.Attempts {
		if i := slices.IndexFunc(s.attempts, func(b ledger.Attempt) bool { return b.ID == a.ID }); i >= 0 {
			w.is.unproven -= mayHaveActed(s.attempts[i])
			s.attempts[i] = a
		} else {
			s.attempts = append(s.attempts, a)
			w.is.begun = a.StartedAt
		}
		w.is.unproven = max(0, w.is.unproven+mayHaveActed(a))
		w.n = a.N
	}
	for _, g := range c.Allowed {
		if i := slices.IndexFunc(s.allowed, func(h ledger.Allowed) bool { return h.ID == g.ID }); i >= 0 {
			s.allowed[i] = g
		} else {
			s.allowed = append(s.allowed, g)
		}
	}
	moves := len(c.Allowed) > 0 || o.Version != w.was.o.Version
	if moves { // and a permission that only a column has is over
		w.is.allowUntil, w.is.allowedAt = time.Time{}, time.Time{}
	}
	for _, g := range s.allowed {
		if moves && g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() {
			w.is.allowUntil, w.is.allowedAt = g.ExpiresAt, g.CreatedAt
		}
	}
	if c.Read != nil {
		s.reads = append(s.reads, *c.Read)
	}
	if c.Erase != nil {
		if err := w.erase(); err != nil {
			return err
		}
	}
	w.is.keep(s)
	w.worth()
	return nil
}

// write writes the row and the event.
func (w *writing) write() error {
	var facts, payload object
	names, values, moves := w.differences()
	e := w.c.Event
	if n := len(w.before.attempts); n > 0 && !moves { // a column has the deadline in flight, and no event of its own
		w.before.attempts[n-1].DeadlineAt = w.after.attempts[n-1].DeadlineAt
	}
	w.before.changes(&w.after, w.says(moves), &facts, &payload)
	switch {
	case e == nil && w.c.Insert, e == nil && (moves || len(w.c.Allowed) > 0):
		return errors.New("a change needs an event")
	case e == nil:
		if len(names) > 0 {
			if err := w.update(names, values); err != nil {
				return err
			}
		}
		if w.c.Read == nil {
			return nil
		}
		return addEvent(w.tx, w.was.seq, w.n, ledger.Event{ID: w.id, At: w.now, Verb: verbLook,
			Actor: ledger.Actor{Name: w.c.Read.Actor, Machine: true},
			From:  w.is.o.State, To: w.is.o.State, Version: w.is.o.Version}, facts, payload)
	case !moves:
		if len(names) > 0 {
			if err := w.update(names, values); err != nil {
				return err
			}
		}
		if lock, is := w.tx.(interface{ Lock(op int64) error }); is && len(names) == 0 {
			if err := lock.Lock(w.was.seq); err != nil {
				return err
			}
		}
		told := *e
		told.ID, told.At, told.From, told.To, told.Version = w.id, w.now, w.is.o.State, w.is.o.State, w.is.o.Version
		describe(told, &facts, &payload)
		return addEvent(w.tx, w.was.seq, w.n, told, facts, payload)
	}
	w.remark(&facts)
	describe(*e, &facts, &payload)
	w.is.o.Actor, w.is.o.Reason = named(e.Actor.Name), e.Reason
	change := []struct {
		name  string
		value any
	}{
		{"change_id", w.id}, {"changed_at", millis(w.is.o.UpdatedAt)}, {"actor", w.is.o.Actor}, {"machine", number(e.Actor.Machine)},
		{"verb", e.Verb}, {"reason", e.Reason}, {"facts", facts.text()}, {"payload", payload.text()},
	}
	for _, c := range change {
		names, values = append(names, c.name), append(values, c.value)
	}
	if w.c.Insert {
		names, values = append(names, "n"), append(values, w.times)
		return exec(w.tx, `INSERT INTO op (`+strings.Join(names, ", ")+`) VALUES (`+placeholders(len(values))+`)`, values...)
	}
	if err := w.update(names, values); err != nil || w.c.Erase == nil {
		return err
	}
	return w.erased()
}

// says is what the columns of the event will say of its attempt.
func (w *writing) says(moves bool) said {
	e := said{n: w.n, at: at(millis(w.now))}
	if w.c.Event != nil {
		e.actor, e.host = named(w.c.Event.Actor.Name), w.c.Event.Actor.Host
	} else if w.c.Read != nil {
		e.actor = named(w.c.Read.Actor)
	}
	if moves {
		e.at = at(millis(w.is.o.UpdatedAt))
	}
	return e
}

func (w *writing) update(names []string, values []any) error {
	n, err := w.tx.Exec(`UPDATE op SET `+strings.Join(names, " = ?, ")+` = ? WHERE seq = ? AND version = ?`, append(values, w.was.seq,
		w.was.o.Version)...)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: another writer changed it meanwhile", ledger.ErrBusy)
	}
	return err
}

// quiet are the columns that change without a word in the history.
var quiet = []string{"deadline_at", "undelivered", "live", "policy", "rank", "by_word", "person_at"}

// defaulted are the columns whose default is not what an empty row has.
var defaulted = []string{"live", "state", "version", "attempt", "created_at", "started_at", "begun_at", "deadline_at"}

// differences are the columns that change, or of an insertion all that are not empty, and whether
// the operation moves: else nothing but a clock does.
func (w *writing) differences() (names []string, values []any, moves bool) {
	was, most := &w.was.row, len(columns)
	names, values = make([]string, 0, most), make([]any, 0, most)
	for _, c := range columns {
		is := c.field(&w.is)
		if w.c.Insert && slices.Contains(defaulted, c.name) || !same(is, c.field(was)) {
			names, values = append(names, c.name), append(values, value(is))
			moves = moves || !slices.Contains(quiet, c.name)
		}
	}
	a, b := w.is.o, was.o
	return names, values, moves || a.Actor != b.Actor || a.Reason != b.Reason || !a.UpdatedAt.Equal(b.UpdatedAt)
}

// remark adds what the event of a change says beside it.
func (w *writing) remark(facts *object) {
	was, is := w.was.o, w.is.o
	if w.n != is.AttemptCount {
		facts.set("n", w.n)
	}
	if w.n > 0 && w.n <= len(w.after.attempts) && facts.get("outcome") != "" {
		if lost, is := w.after.attempts[w.n-1].Lost(*is); is {
			facts.set("lost_at", millis(lost.At))
		}
	}
	if is.Conflict != "" && is.Conflict == was.Conflict && is.ConflictNote != was.ConflictNote {
		facts.set("raised", is.Conflict)
	}
	person := slices.Contains([]string{"confirm", "deny", "abandon", "ack"}, w.c.Event.Verb)
	if ended := is.State == ledger.Committed || is.State == ledger.Failed; ended && !person && was.StateAt(w.now) == ledger.Uncertain {
		class := was.ErrorClass
		if was.State == ledger.Pending {
			class = ledger.ClassDeadline
		}
		facts.set("doubt", class)
	}
}

// named keeps an actor without a name from failing the change it made.
func named(name string) string { return nonEmpty(name, "unknown") }
