package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

const outageColumns = `i.id, i.scope, i.kinds, i.pipelines, i.classes, i.gap_ms, i.opened_at, i.first_at, i.last_at, i.answered_at,
	i.over_at, i.taken_by, i.taken_until`

func scanOutage(rows Rows) (in ledger.Outage, err error) {
	var kinds, pipelines, classes string
	var gap, opened, first, last, answered, over, until int64
	err = rows.Scan(&in.ID, &in.Scope, &kinds, &pipelines, &classes, &gap, &opened, &first, &last, &answered, &over, &in.TakenBy, &until)
	in.Kinds, in.Pipelines, in.Classes, in.Gap = unlist(kinds), unlist(pipelines), unlist(classes), time.Duration(gap)*time.Millisecond
	in.OpenedAt, in.FirstAt, in.LastAt, in.AnsweredAt = at(opened), at(first), at(last), at(answered)
	in.OverAt, in.TakenUntil = at(over), at(until)
	return in, err
}

// inOutageSQL selects the operations that count in the outages whose id begins so, or in any.
func inOutageSQL(b *binder, id string) string {
	where := ""
	if id != ledger.AnyOutage {
		where = " AND i.id >= " + b.bind(id) + " AND i.id < " + b.bind(id+"\U0010ffff")
	}
	return `SELECT l.op FROM outage i JOIN ev l ON l.lost_at <> 0 AND l.lost_at >= i.first_at AND l.lost_at < i.last_at + i.gap_ms
		JOIN op m ON m.seq = l.op WHERE {in {quoted m.kind}, i.kinds}` + where
}

// members are the operations of an outage, without what is skipped, and how many of them came to it in each minute.
func members(tx Tx, in ledger.Outage, now time.Time, skip ledger.Parts) (all []*loaded, minutes map[int64]int, err error) {
	marks, args := among(in.Kinds)
	lost := ` l.lost_at <> 0 AND l.lost_at >= ? AND l.lost_at < ?`
	ofKind := `o.kind IN (` + nonEmpty(marks, "NULL") + `) AND`
	args = append(args, millis(in.FirstAt), millis(in.End()))
	all, err = loadAll(tx, partText|skip, ofKind+` o.seq IN (SELECT l.op FROM ev l WHERE`+lost+`)`, args...)
	slices.SortFunc(all, func(a, b *loaded) int { return cmp.Compare(a.seq, b.seq) })
	for _, l := range all {
		l.rec.Now = now
	}
	if err != nil {
		return nil, nil, err
	}
	ends, err := Collect(tx, func(rows Rows) (at int64, err error) { return at, rows.Scan(&at) },
		`SELECT min(l.lost_at) FROM ev l JOIN op o ON o.seq = l.op WHERE `+ofKind+lost+` GROUP BY l.op`, args...)
	minutes = map[int64]int{}
	for _, at := range ends {
		minutes[at/60000]++
	}
	return all, minutes, err
}

// fate is what became of an operation, for its outage.
func (l *loaded) fate() ledger.Fate {
	switch o := l.o; {
	case l.rec.Row().LaneAt(l.rec.Now) == ledger.LaneReading:
		return ledger.FateChecking
	case o.Conflict != ledger.NoConflict || o.State.Open():
		return ledger.FateOpen
	case o.State == ledger.Committed:
		return ledger.FateLanded
	case o.State == ledger.Abandoned:
		return ledger.FateLeft
	case slices.ContainsFunc(l.allowed, func(g ledger.Allowed) bool { return g.Open(l.rec.Now) }):
		return ledger.FateOpen
	case !o.Doubted && slices.ContainsFunc(l.attempts, func(a ledger.Attempt) bool { return a.Proof == ledger.Refused }):
		return ledger.FateRefused
	}
	return ledger.FateNotLanded
}

// sum is the sum of one operation, at its price where it is open.
func (l *loaded) sum() ledger.Sum {
	s, o, p := ledger.Sum{N: 1}, l.o, l.price
	if p.listed && (o.State == ledger.Pending || l.open()) {
		s.Miss, s.MissWords = addend(p.Miss)
		s.Twice, s.TwiceWords = addend(p.Duplicate)
		s.Unpriced = number(p.Unpriced())
	}
	s.Resent = number(o.AttemptCount > 1)
	s.Doubled = number(o.Effects > 1 || o.Conflict == ledger.ConflictTwice)
	s.Unchecked = number(s.Resent == 1 && s.Doubled == 0 && o.State != ledger.Failed && o.CheckedAt(l.reads).IsZero())
	return s
}

// addend is what a cost adds to a sum: its amount, or one word.
func addend(c ledger.Cost) (amount float64, words int) {
	if c.Word != "" {
		return 0, 1
	}
	return c.Value, 0
}

// Outages lists outages without their sums.
func (s *Store) Outages(ctx context.Context, _ time.Time, limit int) ([]ledger.Outage, error) {
	return gather(ctx, s, scanOutage, `SELECT `+outageColumns+` FROM outage i ORDER BY i.last_at DESC, i.id LIMIT ?`, limit)
}

// Sums gives outages their sums.
func (s *Store) Sums(ctx context.Context, ins []ledger.Outage, now time.Time) error {
	return s.db.View(ctx, func(tx Tx) error {
		for i := range ins {
			all, _, err := members(tx, ins[i], now, ledger.PartReads|ledger.PartHolds|ledger.PartRelated)
			if err != nil {
				return err
			}
			ins[i].Fates = fates(all)
		}
		return nil
	})
}

func fates(all []*loaded) map[ledger.Fate]ledger.Sum {
	out := map[ledger.Fate]ledger.Sum{}
	for _, l := range all {
		out[l.fate()] = out[l.fate()].Add(l.sum())
	}
	return out
}

// Outage returns one outage with its account.
func (s *Store) Outage(ctx context.Context, id string, now time.Time) (a ledger.OutageAccount, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		var err error
		if a.Outage, err = outage(tx, id); err != nil {
			return err
		}
		all, minutes, err := members(tx, a.Outage, now, 0)
		if err != nil {
			return err
		}
		a.Fates = fates(all)
		waits, err := toCome(tx)
		if err != nil {
			return err
		}
		groups := map[ledger.OutageGroup]ledger.Sum{}
		for _, l := range all {
			run := waits[l.turn()]
			g := ledger.OutageGroup{Kind: l.o.Kind, Fate: l.fate(), Group: l.rec.Group(run != "")}
			if g.By = l.rec.By(g.Group); g.Group == ledger.GroupRunning {
				g.By = run
			}
			switch {
			case g.Group.Tab() == ledger.TabSettled || g.Group == ledger.GroupInFlight:
				g.Kind = ""
			case g.Group == ledger.GroupElsewhere && len(a.Elsewhere) < ledger.SomeElsewhere:
				a.Elsewhere = append(a.Elsewhere, ledger.Landing{Operation: l.o.ID, Title: l.o.Title, Other: l.rec.Landings()[0]})
			}
			sum := l.sum()
			groups[g] = groups[g].Add(sum)
			if sum.Resent == 0 {
				continue
			}
			a.Already += number(slices.ContainsFunc(l.attempts, func(at ledger.Attempt) bool { return at.Already }))
			if at := l.o.CheckedAt(l.reads); at.After(a.CheckedAt) {
				a.CheckedAt = at
			}
		}
		a.Fill(minutes, groups)
		a.Events, err = EventsOf(tx, `e.seq IN (SELECT seq FROM ev WHERE about = ? AND about <> '' UNION ALL
			SELECT seq FROM ev WHERE about >= 'run:' AND about < 'run;' AND about <> '' AND op = 0 AND facts ->> 'outage' = ?)
			ORDER BY e.seq DESC LIMIT 500`, aboutOutage+a.ID, a.ID)
		slices.Reverse(a.Events)
		return err
	})
	return a, err
}

// outage finds one by its id or the beginning of it.
func outage(tx Tx, id string) (ledger.Outage, error) {
	if len(id) < 4 {
		return ledger.Outage{}, &ledger.NoOutageError{ID: id}
	}
	found, err := Collect(tx, scanOutage, `SELECT `+outageColumns+` FROM outage i WHERE i.id >= ? AND i.id < ? ORDER BY i.id LIMIT 10`,
		id, id+"\U0010ffff")
	switch {
	case err != nil:
		return ledger.Outage{}, err
	case len(found) == 0:
		return ledger.Outage{}, &ledger.NoOutageError{ID: id}
	case len(found) > 1:
		return ledger.Outage{}, &ledger.AmbiguousError{Prefix: id, IDs: ledger.Each(found, func(in ledger.Outage) string { return in.ID })}
	}
	return found[0], nil
}

// lostBetween are the attempts that ended lost within a time, in its order.
func lostBetween(tx Tx, from, to int64) ([]ledger.Lost, error) {
	return Collect(tx, func(rows Rows) (l ledger.Lost, err error) {
		var when int64
		err = rows.Scan(&l.Operation, &when, &l.Kind, &l.Pipeline, &l.Class, &l.Refused)
		l.At = at(when)
		return l, err
	}, `SELECT o.id, e.lost_at, o.kind, o.source, coalesce(e.facts ->> 'error_class', ''), coalesce((SELECT f.facts ->> 'proof' FROM ev f
			WHERE f.op = e.op AND f.n = e.n AND f.facts ->> 'proof' IS NOT NULL ORDER BY f.seq DESC LIMIT 1), '') = 'refused'
		FROM ev e JOIN op o ON o.seq = e.op WHERE e.lost_at <> 0 AND e.lost_at >= ? AND e.lost_at < ? ORDER BY e.lost_at, o.id`, from, to)
}

// answered is when the other side last answered for an operation.
func (l *loaded) answered() (at time.Time) {
	if l.o.State == ledger.Committed && l.o.ByAnswer {
		at = l.o.SettledAt
	}
	for _, a := range l.attempts {
		if a.Proof == ledger.Refused && a.EndedAt.After(at) {
			at = a.EndedAt
		}
	}
	for _, r := range l.reads {
		if clear := r.Verdict != "" && r.Verdict != ledger.CannotTell || r.FoundNone(); clear && r.EndedAt.After(at) {
			at = r.EndedAt
		}
	}
	return at
}

// Fold opens, grows and ends outages; sums of the history are asked so far. What it reads first says whether there is anything to do.
func (s *Store) Fold(ctx context.Context, ended, heard []string, all bool, burst func(string) ledger.Burst) error {
	return s.db.Update(ctx, func(tx Tx) error {
		now := tx.Moment().Wall
		found, err := loadThese(tx, ledger.AllParts, ended)
		lost := lostOf(found)
		if all && err == nil {
			var newest int64
			if err = One(tx, []any{&newest}, `SELECT coalesce(max(last_at), 0) FROM outage`); err == nil {
				lost, err = lostBetween(tx, newest, millis(now)+1)
			}
		}
		if err != nil {
			return err
		}
		sums, err := sumsOf(tx, foldMost)
		if err == nil && sums.behind >= foldFrom {
			err = sums.save(tx)
		}
		if err = errors.Join(err, fold(tx, lost, burst)); err != nil {
			return err
		}
		going, err := Collect(tx, scanOutage, `SELECT `+outageColumns+` FROM outage i WHERE i.over_at = 0 ORDER BY i.last_at`)
		var heardOf []*loaded
		if err == nil && slices.ContainsFunc(going, func(in ledger.Outage) bool { return !in.AnsweredAt.After(in.LastAt) }) {
			heardOf, err = loadThese(tx, ledger.AllParts, heard)
		}
		answers := answersOf(heardOf)
		for _, in := range going {
			if after := in.Answered(answers, now); err == nil && !after.Same(in) {
				err = grown(tx, after, !after.OverAt.IsZero())
			}
		}
		return err
	})
}

// lostOf are the attempts of operations that ended lost.
func lostOf(all []*loaded) (lost []ledger.Lost) {
	for _, l := range all {
		for _, a := range l.attempts {
			if e, is := a.Lost(*l.o); is {
				lost = append(lost, e)
			}
		}
	}
	slices.SortFunc(lost, func(a, b ledger.Lost) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Operation, b.Operation))
	})
	return lost
}

// answersOf is when the other side last answered for operations of a kind.
func answersOf(all []*loaded) map[string]time.Time {
	answers := map[string]time.Time{}
	for _, l := range all {
		if at := l.answered(); at.After(answers[l.o.Kind]) {
			answers[l.o.Kind] = at
		}
	}
	return answers
}

// fold works out what errors make of the outages of their scopes.
func fold(tx Tx, lost []ledger.Lost, burst func(string) ledger.Burst) error {
	of := map[string][]ledger.Lost{}
	for _, l := range lost {
		scope := burst(l.Kind).Of(l.Kind).Scope
		of[scope] = append(of[scope], l)
	}
	for _, scope := range slices.Sorted(maps.Keys(of)) {
		some := of[scope]
		b := burst(some[0].Kind).Of(some[0].Kind)
		from, to := some[0].At.Add(-b.Reach()), some[len(some)-1].At.Add(b.Reach())
		known, err := Collect(tx, scanOutage, `SELECT `+outageColumns+` FROM outage i WHERE i.scope = ? AND i.last_at + i.gap_ms > ?
			AND i.first_at - i.gap_ms < ? ORDER BY i.first_at`,
			scope, millis(from), millis(to))
		if err != nil {
			return err
		}
		changed, loose := b.Fold(known, some)
		if len(loose) > 0 { // with those that were loose before
			near, err := lostBetween(tx, millis(from), millis(to)+1)
			if err != nil {
				return err
			}
			changed, _ = b.Fold(known, slices.DeleteFunc(near, func(l ledger.Lost) bool { return burst(l.Kind).Of(l.Kind).Scope != scope }))
		}
		for _, in := range changed {
			if !slices.ContainsFunc(known, func(was ledger.Outage) bool { return was.ID == in.ID }) {
				err = cmp.Or(err, opened(tx, in, b))
			}
			err = cmp.Or(err, grown(tx, in, false))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// opened writes down a new outage.
func opened(tx Tx, i ledger.Outage, b ledger.Burst) error {
	return errors.Join(Tell(tx, i.Opened(b)), exec(tx, `INSERT INTO outage (id, scope, kinds, pipelines, classes, gap_ms, opened_at,
		first_at, last_at) VALUES (?, ?, '[]', '[]', '[]', ?, ?, ?, ?)`,
		i.ID, i.Scope, i.Gap.Milliseconds(), millis(i.OpenedAt), millis(i.FirstAt), millis(i.LastAt)))
}

// grown writes down how far an outage has come, and whether it is over now.
func grown(tx Tx, i ledger.Outage, over bool) (err error) {
	if over {
		err = Tell(tx, i.Ended())
	}
	return cmp.Or(err, exec(tx, `UPDATE outage SET kinds = ?, pipelines = ?, classes = ?, first_at = ?, last_at = ?, answered_at = ?,
		over_at = ? WHERE id = ?`,
		list(i.Kinds), list(i.Pipelines), list(i.Classes), millis(i.FirstAt), millis(i.LastAt), millis(i.AnsweredAt), millis(i.OverAt),
		i.ID))
}

// OutagesSince names the outages that events behind the cursor are about.
func (s *Store) OutagesSince(ctx context.Context, after ledger.Cursor, limit int) (ids []string, all bool, err error) {
	events, _, err := s.Follow(ctx, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	ids, err = s.Concerned(ctx, events[:min(limit, len(events))])
	return ids, len(events) <= limit, err
}

// Concerned names the outages that events are about.
func (s *Store) Concerned(ctx context.Context, events []ledger.Event) (ids []string, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		var of []string
		for _, e := range events {
			ids, of = append(ids, e.Outage), append(of, e.OperationID)
		}
		found, err := loadThese(tx, ledger.AllParts, of)
		if err == nil {
			err = inOutages(tx, found)
		}
		for _, l := range found {
			ids = append(ids, l.rec.Outages...)
		}
		return err
	})
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" }), err
}

// ChangeOutage carries out what a person does with an outage.
func (s *Store) ChangeOutage(ctx context.Context, c ledger.OutageChange) (in ledger.Outage, err error) {
	c.ChangeID = nonEmpty(c.ChangeID, ledger.NewID())
	err = s.db.Update(ctx, func(tx Tx) (err error) {
		if in, err = outage(tx, c.ID); err != nil {
			return err
		}
		if known, err := happened(tx, 0, c.ChangeID); err != nil || known {
			return err
		}
		after, e, err := c.Apply(in, tx.Moment().Wall)
		if err != nil {
			return err
		}
		in = after
		return errors.Join(Tell(tx, e), exec(tx, `UPDATE outage SET taken_by = ?, taken_until = ? WHERE id = ?`, in.TakenBy,
			millis(in.TakenUntil), in.ID))
	})
	return in, err
}
