package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"indoubt/ledger"
)

// Hold stops a scope.
func (s *Store) Hold(ctx context.Context, h ledger.Hold) error {
	h.ChangeID = nonEmpty(h.ChangeID, ledger.NewID())
	return s.db.Update(ctx, func(tx Tx) error {
		if known, err := happened(tx, 0, h.ChangeID); err != nil || known {
			return err
		}
		if err := h.Actor.MaySign("hold"); err != nil {
			return err
		}
		return holding(h).save(tx, nil)
	})
}

// holding is a hold on its way into the ledger.
type holding ledger.Hold

// save writes it down, and what the ledger lacks where that is why.
func (h holding) save(tx Tx, why *lacking) error {
	now := tx.Moment().Wall // and not the clock of who holds: a run that goes on is stopped by what came since
	standing, _, err := holdsAt(tx, now)
	if err != nil {
		return err
	}
	said := map[string]any{"scope": h.Scope, "until": h.Until, "kinds": h.Kinds}
	if why != nil {
		said["lacks"] = why
	}
	h.Begins = h.Begins || slices.ContainsFunc(standing, func(s ledger.Hold) bool { return s.Scope == h.Scope && s.Begins })
	said["begins"] = h.Begins
	before, err := Collect(tx, word, `SELECT scope FROM hold WHERE scope = ?`, string(h.Scope))
	if err == nil && len(before) > 0 { // an engine's account may hold, and not release
		err = exec(tx, `DELETE FROM hold WHERE scope = ?`, string(h.Scope))
	}
	detail, _ := json.Marshal(said)
	return errors.Join(err,
		exec(tx, `INSERT INTO hold (scope, kinds, actor, reason, begins, created_at, until, change_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			string(h.Scope), list(h.Kinds), named(h.Actor.Name), h.Reason, number(h.Begins), millis(now), millis(h.Until), h.ChangeID),
		Tell(tx, ledger.Event{ID: h.ChangeID, At: now, Verb: "hold", Actor: h.Actor, Reason: h.Reason, Detail: detail}))
}

// LiftHold releases a scope. One that is not held is no error and no event.
func (s *Store) LiftHold(ctx context.Context, l ledger.Lift) error {
	l.ChangeID = nonEmpty(l.ChangeID, ledger.NewID())
	return s.db.Update(ctx, func(tx Tx) error {
		if known, err := happened(tx, 0, l.ChangeID); err != nil || known {
			return err
		}
		if err := unlacked(tx, l.Scope); err != nil {
			return err
		}
		if p, err := policyInForce(tx, ledger.PolicyText{}); err != nil {
			return err
		} else if p.Lapsed && (l.Scope == "all" || l.LookFirst != nil) { // which is what an adoption holds
			return &ledger.RefusedError{Verb: "release", Why: ledger.Lapsed, Hint: ledger.ApplyAnew}
		}
		n, err := tx.Exec(`DELETE FROM hold WHERE scope = ? AND scope <> ?`, string(l.Scope), string(ledger.ScopeLook))
		if err != nil {
			return err
		}
		_, look, err := holdsAt(tx, tx.Moment().Wall)
		if next := look.After(l, tx.Moment().Wall); err == nil && next != nil {
			n++
			err = exec(tx, `UPDATE hold SET until = ?, kinds = ? WHERE scope = ?`, millis(next.Until), list(next.Kinds),
				string(ledger.ScopeLook))
		}
		if err != nil || n == 0 {
			return err
		}
		return Tell(tx, l.Event())
	})
}

// Holds returns the holds in force at now.
func (s *Store) Holds(ctx context.Context, now time.Time) (out []ledger.Hold, err error) {
	err = s.db.View(ctx, func(tx Tx) (err error) {
		out, _, err = holdsAt(tx, now)
		return err
	})
	return out, err
}

// holdsQuery reads the holds; who holds is in the event.
const holdsQuery = `SELECT h.scope, h.kinds, h.actor, coalesce(e.machine, 0) = 1, coalesce({text e.facts}, ''), h.reason, h.begins,
	h.created_at, h.until, h.change_id FROM hold h LEFT JOIN ev e ON e.op = 0 AND e.id = h.change_id ORDER BY h.created_at, h.scope`

// holdsAt are the holds in force, and what an adoption left behind; nil where it has ended.
func holdsAt(tx Tx, now time.Time) (in []ledger.Hold, look *ledger.Look, err error) {
	all, err := Collect(tx, func(rows Rows) (h ledger.Hold, err error) {
		var kinds, facts string
		var created, until int64
		err = rows.Scan(&h.Scope, &kinds, &h.Actor.Name, &h.Actor.Machine, &facts, &h.Reason, &h.Begins, &created, &until, &h.ChangeID)
		said := parse(facts)
		w := whoIn(said)
		h.Actor.OSUser, h.Actor.Host, h.Actor.Terminal = w.OSUser, w.Host, w.Terminal
		h.Kinds, h.CreatedAt, h.Until = unlist(kinds), at(created), at(until)
		h.Lacks, _ = time.Parse(time.RFC3339, quoted(parse(parse(said.get("detail")).get("lacks")).get("At")))
		if h.Scope == ledger.ScopeLook {
			since, _ := strconv.ParseInt(parse(said.get("detail")).get("since"), 10, 64)
			look = &ledger.Look{Since: at(since), Adopted: h.CreatedAt, Until: h.Until, Kinds: h.Kinds}
		}
		return h, err
	}, holdsQuery)
	if !look.At(now) {
		look = nil
	}
	return slices.DeleteFunc(all, func(h ledger.Hold) bool {
		return h.Scope == ledger.ScopeLook || !h.Until.IsZero() && millis(h.Until) < millis(now)
	}), look, err
}

// Lead takes the scopes, renews them, and gives the holder's others up.
func (s *Store) Lead(ctx context.Context, holder string, rank int, scopes []string) (all ledger.Leaders, err error) {
	if holder == "" {
		return all, errors.New("a leader needs a name")
	}
	all, err = s.Leaders(ctx)
	if err != nil || len(ledger.TakeLead(all, holder, rank, scopes)) == 0 {
		return all, err
	}
	var lacks *lacking
	err = s.db.Update(ctx, func(tx Tx) (err error) {
		if err = s.newest.asks(tx, s.newest.get()); err != nil && !errors.As(err, &lacks) {
			return err
		}
		if all, err = leaders(tx); err != nil {
			return err
		}
		for _, l := range ledger.TakeLead(all, holder, rank, scopes) {
			if err := exec(tx, `INSERT INTO lead (name, holder, rank, since, until) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, rank = excluded.rank, since = excluded.since,
					until = excluded.until`,
				l.Scope, l.Holder, l.Rank, millis(l.Since), millis(l.Until)); err != nil {
				return err
			}
		}
		all, err = leaders(tx)
		return err
	})
	if err == nil && lacks != nil {
		err = lacks.hold(ctx, s.db)
	}
	return all, err
}

// Leaders are all who lead, or led last.
func (s *Store) Leaders(ctx context.Context) (all ledger.Leaders, err error) {
	err = s.db.View(ctx, func(tx Tx) (err error) {
		all, err = leaders(tx)
		return err
	})
	return all, err
}

func leaders(tx Tx) (all ledger.Leaders, err error) {
	all.Now = tx.Moment().Wall
	all.All, err = Collect(tx, scanLeader, leaderColumns+` WHERE name NOT LIKE 'run:%' ORDER BY name`)
	return all, err
}

const leaderColumns = `SELECT name, holder, rank, since, until FROM lead`

func scanLeader(rows Rows) (l ledger.Leader, err error) {
	var since, until int64
	err = rows.Scan(&l.Scope, &l.Holder, &l.Rank, &since, &until)
	l.Since, l.Until = at(since), at(until)
	return l, err
}

// ApplyPolicy puts a policy in force.
func (s *Store) ApplyPolicy(ctx context.Context, p ledger.PolicyText) error {
	return s.db.Update(ctx, func(tx Tx) error {
		if known, err := happened(tx, 0, p.ChangeID); err != nil || known {
			return err
		}
		if err := p.Actor.MaySign("apply"); err != nil {
			return err
		}
		last, err := policyInForce(tx, ledger.PolicyText{})
		if err == nil {
			err = p.Follows(last)
		}
		if err != nil {
			return err
		}
		e, err := p.Event()
		if e.At = tx.Moment().Wall; err != nil {
			return err
		}
		return Tell(tx, e)
	})
}

// Tell writes the event of a notice, and reports whether this is the first to do so.
func (s *Store) Tell(ctx context.Context, notice ledger.Event) (first bool, err error) {
	err = s.db.Update(ctx, func(tx Tx) error {
		known, err := happened(tx, 0, notice.ID)
		if first = err == nil && !known; !first {
			return err
		}
		return Tell(tx, notice)
	})
	return first, err
}

// Policy returns the policy in force.
func (s *Store) Policy(ctx context.Context, have ledger.PolicyText) (p ledger.PolicyText, err error) {
	err = s.db.View(ctx, func(tx Tx) (err error) {
		p, err = policyInForce(tx, have)
		return err
	})
	return p, err
}

// policyInForce is have where that is it. It has lapsed where the ledger was adopted since.
func policyInForce(tx Tx, have ledger.PolicyText) (p ledger.PolicyText, err error) {
	var id, lapsed string
	err = One(tx, []any{&id, &lapsed}, `SELECT
		coalesce((SELECT id FROM ev WHERE about = 'policy' AND about <> '' ORDER BY seq DESC LIMIT 1), ''),
		coalesce((SELECT value FROM meta WHERE name = 'policy.lapsed'), '')`)
	if err != nil || id == "" {
		return p, err
	}
	if p = have; id != have.ChangeID {
		events, err := EventsOf(tx, `e.op = 0 AND e.id = ?`, id)
		if err != nil || len(events) == 0 {
			return p, err
		}
		if p, err = ledger.PolicyOf(events[0]); err != nil {
			return p, err
		}
	}
	p.Lapsed = id == lapsed
	return p, nil
}

// Info describes the ledger.
func (s *Store) Info(ctx context.Context) (info ledger.Info, err error) {
	err = s.db.View(ctx, func(tx Tx) (err error) {
		lacks := s.Lacking(tx)
		if info, err = Describe(tx); err == nil && info.Lacks == "" { // held for no one yet
			info.Lacks, err = lacks()
		}
		return err
	})
	return info, err
}

// Describe is what the tables say of the ledger.
func Describe(tx Tx) (info ledger.Info, err error) {
	var last, lost, engine, created, backup, adopted, until int64
	var kinds string
	Ahead(tx, describing)
	if info.Step, info.SteppedAt, err = lastStep(tx); err != nil {
		return info, err
	}
	err = One(tx, []any{&info.ID, &created, &info.MovedTo, &info.LastSeq, &last, &lost, &info.LastBy, &engine, &info.Lacks, &backup,
		&adopted, &until, &kinds}, describing)
	info.CreatedAt, info.LastWrite, info.LastError = at(created), at(last), at(lost)
	info.EngineAt, info.Unsaved = at(engine), at(backup)
	info.Cursor = ledger.NumberCursor(info.LastSeq)
	if look := (&ledger.Look{Adopted: at(adopted), Until: at(until), Kinds: unlist(kinds)}); adopted != 0 && look.At(tx.Moment().Wall) {
		info.Look = look
	}
	return info, err
}

const describing = `SELECT coalesce((SELECT value FROM meta WHERE name = 'id'), ''),
	CAST(coalesce((SELECT value FROM meta WHERE name = 'created'), '0') AS {int}),
	coalesce((SELECT value FROM meta WHERE name = 'moved_to'), ''),
	coalesce((SELECT max(seq) FROM ev), 0), coalesce((SELECT at FROM ev ORDER BY seq DESC LIMIT 1), 0),
	coalesce((SELECT max(lost_at) FROM ev WHERE lost_at <> 0 AND outcome = 'uncertain'), 0),
	coalesce((SELECT source FROM op ORDER BY seq DESC LIMIT 1), ''),
	coalesce((SELECT max(until) FROM lead WHERE name NOT LIKE 'run:%'), 0),
	coalesce((SELECT h.reason FROM hold h JOIN ev e ON e.op = 0 AND e.id = h.change_id
		WHERE h.scope = 'all' AND h.begins = 1 AND e.machine = 1), ''),
	CAST(coalesce((SELECT value FROM meta WHERE name = '` + MetaBackup + `'), '0') AS {int}),
	` + ofLook + `created_at` + ending + `0), ` + ofLook + `until` + ending + `0), ` + ofLook + `{text kinds}` + ending + `'[]')`

const ofLook, ending = `coalesce((SELECT `, ` FROM hold WHERE scope = '` + string(ledger.ScopeLook) + `'), `
