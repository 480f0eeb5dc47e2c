package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
)

// Schema is the number of the tables that this program makes and knows.
const Schema = 2

// Moved is how a refusal begins where the ledger was moved.
const Moved = "this ledger was moved"

// Names in meta, beside those of where a ledger is.
const (
	metaKey = "digests.check" // what the key of its digests is checked by
	metaGap = "gap"           // until when attempts may have begun that it has lost

	metaLapsed = "policy.lapsed" // change id of the policy that was in force when it was adopted
)

// MetaBackup names in meta when the newest backup that was read back was begun. It is no event: nothing of the history
// changes, and silence is told by the newest event.
const MetaBackup = "backup"

// Meta is what a ledger knows of itself.
func Meta(tx Tx) (map[string]string, error) {
	all := map[string]string{}
	_, err := Collect(tx, func(rows Rows) (none struct{}, err error) {
		var name, text string
		err = rows.Scan(&name, &text)
		all[name] = text
		return none, err
	}, `SELECT name, value FROM meta`)
	return all, err
}

// SetMeta writes one thing of it.
func SetMeta(tx Tx, name, text string) error {
	return exec(tx, `INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, text)
}

// HasKey reports whether the ledger knows a key of digests.
func HasKey(meta map[string]string) bool { return meta[metaKey] != "" }

// Adoption is what a person says of a ledger that was copied, moved or restored: it is the ledger from now on.
type Adoption struct {
	Actor  ledger.Actor
	Why    string // it is another one than before
	Newest string // change of the newest event when begins were held, "" where they were not
}

// Write makes it another ledger. It may lack what was sent: begins are held until a person has looked at the other
// sides, the policy in force lapses, and permissions and runs end, for the original may have used them. Where the
// newest event from before is here, and no attempt began after it, it lacks nothing. Errors: not_found, moved.
func (a Adoption) Write(tx Tx) error {
	now := tx.Moment().Wall
	since, err := a.since(tx, now)
	adopt := ledger.Event{ID: ledger.NewID(), At: now, Verb: "adopt", Actor: a.Actor, Reason: a.Why}
	adopt.Detail, _ = json.Marshal(map[string]int64{"since": millis(since)})
	told := errors.Join(err, SetMeta(tx, "id", ledger.NewID()), Tell(tx, adopt))
	if a.Newest != "" {
		return errors.Join(told, a.lacksNothing(tx))
	}
	allowed, err := loadAll(tx, ledger.AllParts, inOpen+` AND o.allow_until <> 0`)
	for _, l := range allowed {
		if err != nil {
			return err
		}
		_, err = apply(tx, l, ledger.NewID(), func(rec *ledger.Record) (ledger.Change, error) {
			o := rec.Operation
			o.Version++
			c := ledger.Change{Operation: &o, Event: &ledger.Event{Verb: "adopt", Actor: a.Actor, From: o.State, To: o.State,
				Version: o.Version, Reason: "this is a copy, and the original may have used the permission"}}
			for _, g := range rec.Allowed {
				if g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() {
					g.VoidedAt, g.VoidReason = now, c.Event.Reason
					c.Allowed = append(c.Allowed, g)
				}
			}
			return c, nil
		}, &ledger.Applied{})
	}
	if err == nil {
		err = a.endRuns(tx)
	}
	was, bad := policyInForce(tx, ledger.PolicyText{})
	if err = errors.Join(err, bad); err == nil && was.Number > 0 {
		err = SetMeta(tx, metaLapsed, was.ChangeID)
	}
	held := holding{Scope: "all", Begins: true, Actor: a.Actor, Reason: "adopted: what was sent last may be missing",
		ChangeID: ledger.NewID()}
	return errors.Join(err, told, SetMeta(tx, metaGap, decimal(int(millis(now)))), held.save(tx, nil),
		exec(tx, `DELETE FROM hold WHERE scope = ?`, string(ledger.ScopeLook)),
		exec(tx, `INSERT INTO hold (scope, actor, reason, created_at, change_id) VALUES (?, ?, ?, ?, ?)`,
			string(ledger.ScopeLook), named(a.Actor.Name), adopt.Reason, millis(now), adopt.ID))
}

// since is from when on the ledger may lack what was sent: its newest begin, of those that are older than what someone
// remembers and is not here; or where an adoption before says so.
func (a Adoption) since(tx Tx, now time.Time) (time.Time, error) {
	holds, look, err := holdsAt(tx, now)
	if err != nil {
		return now, err
	}
	known := now
	for _, h := range holds {
		if !h.Lacks.IsZero() {
			known = h.Lacks
		}
	}
	var newest int64
	err = One(tx, []any{&newest}, `SELECT coalesce(
		(SELECT at FROM ev WHERE verb IN ('begin', 'retry') AND at < ? ORDER BY seq DESC LIMIT 1),
		(SELECT max(begun_at) FROM op WHERE begun_at < ?), (SELECT CAST(value AS {int}) FROM meta WHERE name = 'created'), 0)`,
		millis(known), millis(known))
	if look != nil && millis(look.Since) < newest {
		newest = millis(look.Since)
	}
	return at(newest), err
}

func (a Adoption) endRuns(tx Tx) error {
	begun, err := EventsOf(tx, openRuns)
	if err != nil {
		return err
	}
	runs, _, err := accounts(tx, begun)
	for _, r := range runs {
		rec := &ledger.RunRecord{Run: r, Now: tx.Moment().Wall, ChangeID: ledger.NewID()}
		c, bad := ledger.RunHalt{Actor: a.Actor, Reason: "the ledger was adopted", End: true}.Rule(rec)
		if bad == nil && c.Event != nil {
			c.Event.At = rec.Now
			bad = Tell(tx, *c.Event)
		}
		err = errors.Join(err, bad)
	}
	return err
}

// lacksNothing refuses a ledger without an event, or one that went on after it.
func (a Adoption) lacksNothing(tx Tx) error {
	var at int64
	var later bool
	switch err := One(tx, []any{&at}, `SELECT at FROM ev WHERE id = ? ORDER BY seq DESC LIMIT 1`, a.Newest); {
	case errors.Is(err, sql.ErrNoRows):
		return ledger.Trouble{Code: "not_found", Message: "event " + a.Newest + " is not in this ledger: it lacks what came last",
			Do: "adopt it without --at, and look at the other sides"}
	case err != nil:
		return err
	}
	err := One(tx, []any{&later}, `SELECT EXISTS (SELECT 1 FROM op o WHERE o.begun_at > ?)`, at)
	if err == nil && later {
		err = ledger.Trouble{Code: "moved", Message: "attempts began after event " + a.Newest + ": others may have, too, that are not here",
			Do: "adopt it without --at, and look at the other sides"}
	}
	return err
}

// Key reads the key that the ledger knows the check value of. Where it knows none yet, it is
// made if that is asked for, and else nil.
func Key(ctx context.Context, db Database, at digestkey.Place, make bool) (key []byte, err error) {
	var check string
	err = db.View(ctx, func(tx Tx) error {
		m, err := Meta(tx)
		check = m[metaKey]
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case check != "":
		return digestkey.Checked(at, check)
	case !make:
		return nil, nil
	}
	err = db.Update(ctx, func(tx Tx) error {
		m, err := Meta(tx)
		if err != nil {
			return err
		}
		if check := m[metaKey]; check != "" { // another process was first
			key, err = digestkey.Checked(at, check)
			return err
		}
		if key, err = at.Make(); err != nil {
			return err
		}
		return SetMeta(tx, metaKey, digestkey.Check(key))
	})
	return key, err
}

// KeyFinding is what an examination says of a key that was read, or not: who only looks needs none.
func KeyFinding(err error) ledger.Finding {
	f := ledger.Finding{Check: "digest key", Level: ledger.LevelFail, Err: err}
	var no *digestkey.Error
	switch {
	case err == nil:
		f.Level, f.Found = ledger.LevelOK, "it is the ledger's"
	case errors.As(err, &no) && no.Absent:
		f.Level = ledger.LevelWarn
	}
	return f
}

// lets asks whether anyone may send because of this change (I1, I13). All else is written down even where it
// may never be seen, and so is what was sent before.
func lets(tx Tx, l *loaded, c ledger.Change) error {
	sent := slices.ContainsFunc(c.Attempts, func(a ledger.Attempt) bool { return l.rec.Attempt(a.ID) == nil })
	sends := slices.ContainsFunc(c.Attempts, func(a ledger.Attempt) bool {
		return l.rec.Attempt(a.ID) == nil && !a.StartedAt.Before(l.rec.Now)
	})
	allows := slices.ContainsFunc(c.Allowed, func(g ledger.Allowed) bool {
		return !slices.ContainsFunc(l.rec.Allowed, func(h ledger.Allowed) bool { return h.ID == g.ID })
	})
	var err error
	if gate, is := tx.(interface{ Lets() error }); is && (sent || allows) {
		err = gate.Lets()
	}
	if err == nil && l.whole != nil && (sends || allows) {
		err = l.whole()
	}
	return err
}

// Deviations are operations that do not stand where their history says.
func (s *Store) Deviations(ctx context.Context) (out []ledger.Deviation, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		d := ledger.Deviation{Table: "op"}
		err := One(tx, []any{&d.Rows, &d.One}, `SELECT count(*), coalesce(min(o.id), '') FROM op o WHERE o.moved = 0 AND NOT EXISTS (
			SELECT 1 FROM ev e WHERE e.op = o.seq AND e.id = o.change_id AND e.version = o.version
				AND e.state = CASE o.abandoned WHEN 1 THEN 'abandoned' ELSE o.state END)`)
		if d.Rows > 0 {
			out = append(out, d)
		}
		return err
	})
	return out, err
}
