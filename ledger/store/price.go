package store

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
)

// price is what a policy says of an operation that is open or in flight. There is a row of it for
// each that is open, and for one in flight where somebody has priced it.
type price struct {
	ledger.Pricing
	listed bool
}

const priceNames = `downstream, title, target, duplicate, duplicate_word, duplicate_guess, miss, miss_word, miss_guess, odds,
	look_at, looks`

var savePrice = sync.OnceValue(func() string {
	return `INSERT INTO price (op, ` + priceNames + `) VALUES ((SELECT seq FROM op WHERE id = ?), ` + placeholders(12) + `)
		ON CONFLICT (op) DO UPDATE SET ` + regexp.MustCompile(`\w+`).ReplaceAllString(priceNames, `$0 = excluded.$0`)
})

// priceColumns are what a priceScan reads, of price p that may not be there.
var priceColumns = bare(`p.op IS NOT NULL`, `coalesce(p.downstream, '')`, `coalesce(p.title, '')`, `coalesce(p.target, '')`,
	`coalesce(p.duplicate, 0)`, `coalesce(p.duplicate_word, '')`, `coalesce(p.duplicate_guess, 0) = 1`, `coalesce(p.miss, 0)`,
	`coalesce(p.miss_word, '')`, `coalesce(p.miss_guess, 0) = 1`, `coalesce(p.odds, 0)`, `coalesce(p.look_at, 0)`, `coalesce(p.looks, 0)`)

type priceScan struct {
	p    price
	look int64
	dest []any
}

func newPriceScan() *priceScan {
	s := &priceScan{}
	p := &s.p
	s.dest = []any{&p.listed, &p.Downstream, &p.Title, &p.Target, &p.Duplicate.Value, &p.Duplicate.Word, &p.Duplicate.Guess,
		&p.Miss.Value, &p.Miss.Word, &p.Miss.Guess, &p.Odds, &s.look, &p.Reads}
	return s
}

// price is what was read, with what stands in the row.
func (s *priceScan) price(r *row) price {
	s.p.Digest, s.p.Rank, s.p.DecideAt, s.p.ReadAt = r.policy, r.rank, r.personAt, at(s.look)
	return s.p
}

// in puts into a row what lists and counts ask of its price.
func (p price) in(r *row) {
	r.policy, r.rank, r.byWord, r.personAt = p.Digest, finite(p.Rank), p.Miss.Word != "", p.DecideAt
}

// save writes the price beside an operation, or takes it away. A writer in plain SQL, or without a
// policy, names nothing: the policy's words stay with the operation, and tell what it overtakes.
func (p price) save(tx Tx, r row) error {
	if !p.listed {
		return exec(tx, `{take price} WHERE op = (SELECT seq FROM op WHERE id = ?)`, r.o.ID)
	}
	is := r
	p.in(&is)
	title, target := nonEmpty(r.o.Title, p.Title), nonEmpty(ledger.NamedTarget(r.o.Target), nonEmpty(p.Target, r.o.Target))
	if title != r.o.Title || target != r.o.Target || is.policy != r.policy || is.rank != r.rank || is.byWord != r.byWord ||
		millis(is.personAt) != millis(r.personAt) {
		if err := exec(tx, `UPDATE op SET title = ?, target = ?, policy = ?, rank = ?, by_word = ?, person_at = ? WHERE id = ?`,
			title, target, is.policy, is.rank, number(is.byWord), millis(is.personAt), r.o.ID); err != nil {
			return err
		}
	}
	values := []any{r.o.ID, p.Downstream, p.Title, p.Target, finite(p.Duplicate.Value), p.Duplicate.Word, number(p.Duplicate.Guess),
		finite(p.Miss.Value), p.Miss.Word, number(p.Miss.Guess), finite(p.Odds), millis(p.ReadAt), p.Reads}
	return exec(tx, savePrice(), values...)
}

// with is the price after a policy said another one. What is settled keeps its look.
func (p price) with(is ledger.Pricing, of *row) price {
	if p.listed = p.listed || of.o.State == ledger.Pending || of.open() || of.o.Doubted; !p.listed {
		return p
	}
	is.Version, is.OperationID = 0, ""
	if p.Reads > is.Reads {
		is.Reads, is.ReadAt = p.Reads, p.ReadAt
	}
	if !of.o.State.Open() && !p.looked() {
		is.ReadAt = ledger.Never
	}
	p.Pricing = is
	return p
}

// looked reports whether it is looked at again.
func (p price) looked() bool { return p.listed && p.ReadAt.Before(ledger.Never) }

// worth works out the price of what a change writes. What was in doubt keeps it.
func (w *writing) worth() {
	c, o, was, p := w.c, w.is.o, w.was.o, w.was.price
	if c.Operation != nil && o.Version != was.Version {
		p.Digest = ""
	}
	if o.State == ledger.Uncertain && was.State != ledger.Uncertain {
		p.ReadAt, p.Reads = time.Time{}, 0
	}
	again := !c.RecheckAt.IsZero() && !o.State.Open()
	open := w.is.open() || again || !o.State.Open() && !was.State.Open() && p.looked() && c.Read == nil
	switch {
	case open && !p.listed:
		p = price{listed: true}
	case open || o.State == ledger.Pending:
	case !o.Doubted:
		p = price{}
	default:
		p.Rank, p.DecideAt = 0, time.Time{}
	}
	if c.Pricing != nil {
		p = p.with(*c.Pricing, &w.is)
	}
	switch {
	case o.State.Open():
	case again:
		p.ReadAt = c.RecheckAt
	case was.State.Open() || c.Read != nil:
		p.ReadAt = ledger.Never
	}
	if c.Erase != nil {
		p.Title, p.Target, p.Digest = "", "", ""
	}
	w.price = p
	p.in(&w.is)
}

// Price writes what a policy says beside open operations. Those that have moved since are passed over.
func (s *Store) Price(ctx context.Context, prices []ledger.Pricing) error {
	return s.db.Update(ctx, func(tx Tx) error {
		for _, of := range prices {
			l, err := load(tx, ledger.Locator{ID: of.OperationID, Skip: ledger.AllParts}, nil)
			if err == nil && l.rec.Found && (of.Version == 0 || of.Version == l.o.Version) {
				err = l.price.with(of, &l.row).save(tx, l.row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// passing is how long something must have been in flight to be worth a price.
const passing = time.Second

// Unpriced returns open operations whose price is of another policy or of an older version of the
// operation, newest first; those in flight only when they stay there.
func (s *Store) Unpriced(ctx context.Context, digest string, limit int) (out []ledger.Operation, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		all, err := loadAll(tx, ledger.AllParts, `o.seq IN (SELECT o.seq FROM op o {by op_open} WHERE `+isOpen+` AND o.policy <> ?
			ORDER BY o.seq DESC LIMIT ?) ORDER BY o.seq DESC`, digest, limit)
		if err != nil {
			return err
		}
		some, err := loadAll(tx, ledger.AllParts, `o.seq IN (SELECT o.seq FROM op o {by op_pending} WHERE `+inFlight+` AND o.policy <> ?
			AND o.begun_at < ? ORDER BY o.seq DESC LIMIT ?) ORDER BY o.seq DESC`,
			digest, millis(tx.Moment().Wall.Add(-passing)), limit-len(all))
		for _, l := range append(all, some...) {
			out = append(out, *l.o)
		}
		return err
	})
	return out, err
}

// What is not settled is in flight or open: the conditions of op_pending, and of op_open word for word, by
// which it is found.
const (
	inFlight = `o.state = 'pending'`
	inOpen   = `(o.abandoned = 0 AND (o.state = 'uncertain' OR o.state = 'failed' AND o.doubted = 1) OR o.conflict <> ''
		OR o.allow_until <> 0 OR o.parked_until <> 0)`
	isOpen = inOpen + ` AND o.state <> 'pending'`
)

// open is inOpen of a row.
func (r *row) open() bool {
	o := r.o
	return o.State == ledger.Uncertain || o.State == ledger.Failed && o.Doubted || o.Conflict != ledger.NoConflict ||
		!r.allowUntil.IsZero() || !o.ParkedUntil.IsZero()
}

// Beside goes from each operation t by the index of its target to operations o that are in doubt
// and that it overtakes.
func (s *Store) Beside(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	marks, args := among(ids)
	return gather(ctx, s, word, `SELECT DISTINCT o.id FROM op t JOIN op o ON o.target = t.target AND o.target <> ''
		WHERE t.id IN (`+marks+`) AND o.state = 'uncertain' AND o.abandoned = 0 AND o.started_at >= coalesce((SELECT c.started_at FROM op c
			WHERE c.target = t.target AND c.target <> '' AND c.started_at <= t.started_at
				ORDER BY c.started_at DESC LIMIT 1 OFFSET `+decimal(relations)+`), 0) AND `+later, args...)
}

// Expire writes down deadlines that have passed, earliest first. One that the database refuses to have written
// down keeps no other from it.
func (s *Store) Expire(ctx context.Context, limit int) (n int, err error) {
	var ids []string
	err = s.db.View(ctx, func(tx Tx) (err error) {
		ids, err = Collect(tx, word, `SELECT o.id FROM op o WHERE `+inFlight+` AND o.deadline_at < ?
			ORDER BY o.deadline_at LIMIT ?`, millis(tx.Moment().Wall), limit)
		return err
	})
	for _, id := range ids {
		applied, failed := s.Change(ctx, ledger.Locator{ID: id, Skip: ledger.AllParts}, ledger.NewID(), ledger.ExpireRule())
		if err = errors.Join(err, failed); failed != nil && !errors.Is(failed, ledger.ErrGuard) {
			return n, err
		}
		n += number(failed == nil && !applied.Noop)
	}
	return n, err
}

// Due asks the index of looks. Only what there is room for is read whole, by Records.
func (s *Store) Due(ctx context.Context, downstream string, now time.Time, limit int) ([]ledger.Due, error) {
	return gather(ctx, s, func(rows Rows) (d ledger.Due, err error) { return d, rows.Scan(&d.ID, &d.Kind, &d.Version) },
		`SELECT o.id, o.kind, o.version FROM price p JOIN op o ON o.seq = p.op WHERE p.downstream = ? AND p.look_at <= ?
			AND (o.state = 'uncertain' AND o.abandoned = 0 OR o.state <> 'pending' AND p.look_at <> 0) ORDER BY p.look_at, p.op LIMIT ?`,
		downstream, millis(now), limit)
}

// Stepped writes down that the wall clock was set.
func (s *Store) Stepped(ctx context.Context, step time.Duration) (first bool, err error) {
	err = s.db.Update(ctx, func(tx Tx) error {
		told, when, err := lastStep(tx)
		now := tx.Moment().Wall
		if first = err == nil && !ledger.SameStep(told, step, when, now); !first {
			return err
		}
		e := ledger.StepEvent(step)
		e.At = now
		if err := Tell(tx, e); err != nil {
			return err
		}
		if step >= 0 { // what must have passed has not
			return exec(tx, `UPDATE meta SET value = CAST(CAST(value AS {int}) + ? AS TEXT) WHERE name = 'gap'`, step.Milliseconds())
		}
		return exec(tx, `UPDATE price SET look_at = CASE WHEN look_at + ?1 > ?2 THEN look_at + ?1 ELSE ?2 END WHERE look_at > ?2
			AND look_at < ?3`,
			step.Milliseconds(), millis(now), millis(ledger.Never))
	})
	return first, err
}

// lastStep is the newest step of the clock that was written down.
func lastStep(tx Tx) (step time.Duration, when time.Time, err error) {
	found, err := Collect(tx, func(rows Rows) (at [2]int64, err error) { return at, rows.Scan(&at[0], &at[1]) },
		`SELECT CAST(coalesce(e.facts -> 'detail' ->> 'step_ms', '0') AS {int}), e.at FROM ev e WHERE e.about = 'clock' AND e.about <> ''
			ORDER BY e.seq DESC LIMIT 1`)
	if err != nil || len(found) == 0 {
		return 0, when, err
	}
	return time.Duration(found[0][0]) * time.Millisecond, at(found[0][1]), nil
}

// Siblings asks the index of tokens, or what landed by its own answer. Unlike a person's word and a
// check's, what was tried is an event of its attempts.
func (s *Store) Siblings(ctx context.Context, q ledger.SiblingQuery) ([]ledger.Sibling, error) {
	where, args := `o.kind = ?1 AND o.state = 'committed' AND o.abandoned = 0 AND o.by_answer = 1 AND o.token_sent = 1
		AND o.settled_at < ?3 AND o.title <> '`+ledger.Marker+`'
		ORDER BY o.settled_at DESC LIMIT ?2`, []any{q.Kind, q.Limit, millis(q.Before)}
	if q.Tokens != nil {
		marks, tokens := among(q.Tokens)
		where, args = `o.token IN (`+nonEmpty(marks, "NULL")+`) AND o.token <> '' AND o.kind = ? ORDER BY o.seq DESC LIMIT ?`,
			append(slices.Clip(tokens), q.Kind, q.Limit)
	}
	beside, verbs := "", append(slices.Clone(ledger.BesideAttempts), verbLook)
	for _, verb := range verbs {
		beside += ", '" + verb + "'"
	}
	return gather(ctx, s, func(rows Rows) (b ledger.Sibling, err error) {
		var born, ended int64
		err = rows.Scan(&b.ID, &b.Token, &b.Failed, &born, &ended, &b.Began, &b.Ended)
		b.BornAt, b.EndedAt = at(born), at(ended)
		return b, err
	}, `SELECT o.id, o.token, o.state = 'failed', o.created_at, o.ended_at, coalesce((SELECT min(e.seq) FROM ev e WHERE e.op = o.seq
		AND e.verb <> '`+verbLook+`'), 0),
		coalesce((SELECT max(e.seq) FROM ev e WHERE e.op = o.seq AND e.verb NOT IN (`+beside[2:]+`)), 0) FROM op o WHERE `+where, args...)
}

// Keyed asks the index of names.
func (s *Store) Keyed(ctx context.Context, key string, limit int) ([]string, error) {
	m, _ := s.masks.get(ctx) // else only what was not redacted is found
	return gather(ctx, s, word, `SELECT id FROM op WHERE name IN (?, ?) AND live = 1 ORDER BY created_at DESC, id DESC LIMIT ?`, key,
		m.Text(key), limit)
}

// FieldNames goes from one list of fields to the next by the index of names. What a caller gave as
// a key that looks like one is passed by.
func (s *Store) FieldNames(ctx context.Context) (out []string, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		for after := "fields-"; ; {
			names, err := Collect(tx, word, `SELECT name FROM op WHERE name > ? AND name < 'fields.' AND live = 1
				ORDER BY name LIMIT 1`, after)
			if err != nil || len(names) == 0 {
				return err
			}
			after = names[0]
			if _, fields := ledger.FieldsOf(after); fields != nil {
				out, after = append(out, after), ledger.FieldsList(after)+"g"
			}
		}
	})
	return out, err
}

// Marked asks the index of marks, whose texts are short and of few operations.
func (s *Store) Marked(ctx context.Context, value string, limit int) ([]string, error) {
	if value == "" {
		return nil, nil
	}
	m, _ := s.masks.get(ctx)
	return gather(ctx, s, word, `SELECT id FROM op WHERE mark <> '' AND ({in ?1, mark} OR {in ?2, mark}) ORDER BY created_at DESC,
		id DESC LIMIT ?3`,
		"\n"+value+"\n", "\n"+m.Text(value)+"\n", limit)
}

// markedAtOnce is how many events are looked through at once for births of operations that lack marks.
const markedAtOnce = 10_000

// Mark gives marks to operations that were written under other rules than their kind's. How far it has come in
// the history by each kind's rules is kept beside the sums.
func (s *Store) Mark(ctx context.Context, rules func(kind string) string, marks func(ledger.Operation) ledger.Marks,
	limit int) (more bool, err error) {
	err = s.db.Update(ctx, func(tx Tx) error {
		sums, err := sumsOf(tx, math.MaxInt64)
		sums.moved = nil // who leads moves them
		for _, kind := range sums.kinds() {
			want := rules(kind)
			if want == "" || err != nil {
				continue
			}
			if limit <= 0 {
				more = true
				break
			}
			by := what{"marked", "", string(list([]string{kind, want}))}
			to, n, err := sums.upTo(tx, by, markedAtOnce)
			if err != nil {
				return err
			}
			var seqs []int64
			if _, err = Collect(tx, func(rows Rows) (none struct{}, err error) {
				var seq, at int64
				if err = rows.Scan(&seq, &at); len(seqs) == limit-1 {
					to, n = at, markedAtOnce
				}
				seqs = append(seqs, seq)
				return none, err
			},
				`SELECT e.op, {place} FROM ev e CROSS JOIN op m ON m.seq = e.op WHERE {place} > ? AND {place} <= ? AND e.before = ''
				AND e.state = 'pending' AND m.kind = ?
				AND NOT EXISTS (SELECT 1 FROM ev x WHERE x.op = e.op AND x.facts -> 'op' ->> 'mark_rules' = ?) ORDER BY 2 LIMIT ?`,
				sums.n[by], to, kind, want, limit); err != nil {
				return err
			}
			limit -= len(seqs)
			more = more || n == markedAtOnce
			if len(seqs) > 0 || n >= foldFrom {
				sums.n[by], sums.moved = int(to), append(sums.moved, by)
			}
			if len(seqs) == 0 {
				continue
			}
			in, args := among(seqs)
			all, err := loadAll(tx, ledger.AllParts, `o.seq IN (`+in+`) ORDER BY o.seq`, args...)
			for _, l := range all {
				err = errors.Join(err, l.remark(tx, want, marks(*l.o).Values))
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(err, sums.save(tx))
	})
	return more, err
}

// remark gives an operation marks by the rules that are wanted.
func (l *loaded) remark(tx Tx, want string, values []string) error {
	if want == l.o.MarkRules || !l.o.RedactedAt.IsZero() {
		return nil
	}
	after, o := l.state, *l.o
	after.op, o.MarkRules = &o, want
	var facts, payload object
	l.changes(&after, said{}, &facts, &payload)
	err := addEvent(tx, l.seq, 0, ledger.Event{ID: ledger.NewID(), Verb: verbLook,
		Actor: ledger.Actor{Name: ledger.ActorChecks, Machine: true},
		From:  l.o.State, To: l.o.State, Version: l.o.Version}, facts, payload)
	if mark := marked(l.mark, values); mark != l.mark {
		err = errors.Join(err, exec(tx, `UPDATE op SET mark = ? WHERE seq = ?`, mark, l.seq))
	}
	return err
}
