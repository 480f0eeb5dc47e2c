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

// loaded is an operation as it is recorded. Its row and what was folded have it where rec has it.
type loaded struct {
	row
	state
	price
	ids    []string     // of its events
	shares bool         // its target with others
	named  bool         // Times is known
	noKey  error        // why this process cannot find a name that was redacted
	whole  func() error // refuses a ledger that lacks what this process knows of; nil where nobody asks
	rec    ledger.Record
}

// found is the condition that o is where a locator points.
func found(loc ledger.Locator, m ledger.Mask) (where string, args []any, err error) {
	switch {
	case loc.ID != "":
		return `o.id = ?`, []any{loc.ID}, nil
	case loc.AttemptID != "":
		id, n := loc.AttemptID, 0
		if i := strings.LastIndexByte(id, '.'); i > 0 {
			id, n = id[:i], digits(id[i+1:])
		}
		return `o.seq = coalesce((SELECT e.op FROM ev e WHERE e.facts ->> 'id' = ? AND e.verb IN ('begin', 'retry') ORDER BY e.seq LIMIT 1),
			(SELECT a.seq FROM op a WHERE a.id = ? AND a.attempt >= ? AND ? > 0))`, []any{loc.AttemptID, id, n, n}, nil
	case loc.Awaits != "":
		where = `o.seq IN (SELECT o.seq FROM op o {by op_pending} WHERE ` + inFlight + ` AND o.scope = ? AND o.awaits = ?)`
		args = []any{loc.Scope, loc.Awaits}
	case loc.Key != "":
		where = `o.name IN (?, ?) AND o.scope = ? AND ` + nameOrder + ` = -1` // the one that lives
		args = []any{loc.Key, m.Text(loc.Key), loc.Scope}
		if !loc.AnyKind {
			where, args = where+` AND o.kind = ?`, append(args, loc.Kind)
		}
	default:
		return "", nil, errors.New("which operation: a locator needs an id, an attempt, what is awaited or a key")
	}
	return where + ` ORDER BY o.seq DESC LIMIT 1`, args, nil
}

// load reads the record at the locator, without what the locator skips, unless it is brought back. Not found is no error. The mask
// finds a key that was redacted.
func load(tx Tx, loc ledger.Locator, m ledger.Mask) (*loaded, error) {
	if kept, is := loc.Seen.(*loaded); is {
		if l, err := kept.again(tx, loc); err != nil || l != nil {
			return l, err
		}
	}
	where, args, err := found(loc, m)
	if err != nil {
		return nil, err
	}
	all, err := loadAll(tx, loc.Skip, where, args...)
	if err == nil && len(all) == 0 {
		now := tx.Moment()
		all = []*loaded{none()}
		all[0].rec.Now, all[0].rec.Steady = now.Wall, now.Steady
		if loc.Skip&ledger.PartHolds == 0 { // those on begins stop what is new
			all[0].rec.Holds, all[0].rec.Look, err = holdsAt(tx, now.Wall)
		}
	}
	return append(all, nil)[0], err
}

// none is an operation that is not there.
func none() *loaded {
	l := &loaded{}
	l.row.o, l.state.op = &l.rec.Operation, &l.rec.Operation
	return l
}

// partText is what only one who reads a record sees: most of the columns, and the events of an operation
// that was sent once and is committed, in doubt or abandoned, which its row tells as well.
const partText = ledger.AllParts + 1

// toldByRow reports whether the row alone tells what is true of the operation.
func (r *row) toldByRow() bool {
	return r.o.AttemptCount == 1 && r.state != string(ledger.Failed) && r.allowUntil.IsZero()
}

// loadAll reads records.
func loadAll(tx Tx, skip ledger.Parts, where string, args ...any) ([]*loaded, error) {
	columns := allColumns
	if skip&partText != 0 {
		columns = fewColumns
	}
	events := `e.op IN (SELECT o.seq FROM op o LEFT JOIN price p ON p.op = o.seq WHERE ` + where + `)`
	if skip&partText != 0 || !Ahead(tx, toldQuery(events), args...) {
		events = ""
	}
	if skip&ledger.PartHolds == 0 {
		Ahead(tx, holdsQuery)
	}
	var gap int64
	var shares bool
	var file string
	related := `0`
	if skip&ledger.PartRelated == 0 {
		related = `EXISTS (SELECT 1 FROM op t WHERE t.target = o.target AND t.target <> '' AND t.seq <> o.seq)`
	}
	prices := newPriceScan()
	scan := newRowScan(columns, append(prices.dest, &shares, &gap, &file)...)
	all, err := Collect(tx, func(rows Rows) (*loaded, error) {
		l := none()
		err := scan.row(rows, &l.row)
		l.price, l.rec.Gap, l.shares = prices.price(&l.row), at(gap), shares
		if l.o.Moved = file; file != "" {
			l.attempts = []ledger.Attempt{l.landed()}
		}
		return l, err
	}, `SELECT `+rowColumns(columns)+`, `+priceColumns+`, `+bare(related,
		`CAST(coalesce((SELECT value FROM meta WHERE name = 'gap'), '0') AS {int})`,
		`CASE o.moved WHEN 0 THEN '' ELSE coalesce((SELECT substr(f.about, 6) FROM ev f WHERE f.seq = o.moved), '') END`)+`
		FROM op o LEFT JOIN price p ON p.op = o.seq WHERE `+where, args...)
	if err == nil && len(all) > 0 {
		err = complete(tx, all, skip, events, args...)
	}
	return all, err
}

// complete reads what became of operations. events is the condition that their events have, where that
// was asked ahead.
func complete(tx Tx, all []*loaded, skip ledger.Parts, events string, args ...any) (err error) {
	of := map[int64]*loaded{}
	for _, l := range all {
		of[l.seq] = l
	}
	fold := func(op int64, id string, e said, facts, payload object) {
		of[op].apply(e, facts, payload)
		of[op].ids = append(of[op].ids, id)
	}
	if events != "" {
		err = told(tx, events, args, fold)
	} else {
		telling := all
		if skip&partText != 0 {
			telling = slices.DeleteFunc(slices.Clone(all), func(l *loaded) bool { return l.toldByRow() })
		}
		for some := range slices.Chunk(telling, manyIDs) {
			marks, seqs := among(ledger.Each(some, func(l *loaded) int64 { return l.seq }))
			err = errors.Join(err, told(tx, `e.op IN (`+marks+`)`, seqs, fold))
		}
	}
	now := tx.Moment()
	var holds []ledger.Hold
	var look *ledger.Look
	if err == nil && skip&ledger.PartHolds == 0 {
		holds, look, err = holdsAt(tx, now.Wall)
	}
	for _, l := range all {
		l.belongs(&l.state)
		l.rec.Found, l.rec.Now, l.rec.Steady, l.rec.Holds, l.rec.Look = true, now.Wall, now.Steady, holds, look
		l.rec.Attempts = slices.Clone(l.attempts)
		if a := l.rec.Attempt(l.o.LiveAttempt); a != nil {
			a.DeadlineAt = l.o.DeadlineAt // a heartbeat moves it, and no event says so
		}
		l.rec.Allowed = slices.Clone(l.allowed)
		slices.Reverse(l.rec.Allowed)
		if skip&ledger.PartReads == 0 {
			l.rec.Reads = slices.Clone(l.reads)
			slices.Reverse(l.rec.Reads)
		}
		if skip&ledger.PartPricing == 0 {
			l.rec.Pricing = l.price.Pricing
			l.rec.Pricing.OperationID = l.o.ID
		}
	}
	for _, l := range all {
		if l.shares && err == nil {
			l.rec.Related, err = relatedTo(tx, l.row)
		}
	}
	return err
}

// told reads events, oldest first.
func told(tx Tx, where string, args []any, each func(op int64, id string, e said, facts, payload object)) error {
	var op, when int64
	var e said
	var id, facts, payload string
	dest := []any{&op, &id, &e.n, &when, &e.actor, &facts, &payload}
	_, err := Collect(tx, func(rows Rows) (none struct{}, err error) {
		if err = rows.Scan(dest...); err == nil {
			said := parse(facts)
			e.at, e.host = at(when), whoIn(said).Host
			each(op, id, e, said, parse(payload))
		}
		return none, err
	}, toldQuery(where), args...)
	return err
}

func toldQuery(where string) string {
	return `SELECT ` + bare(`e.op`, `e.id`, `e.n`, `e.at`, `e.actor`, `coalesce({text e.facts}, '')`,
		`coalesce({text e.payload}, '')`) + ` FROM ev e WHERE ` + where + ` ORDER BY e.seq`
}

// among are placeholders for an IN. The first value is repeated, so that there are few statements
// to prepare and to keep.
func among[T any](values []T) (string, []any) {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	for len(args)&(len(args)-1) != 0 {
		args = append(args, args[0])
	}
	return placeholders(len(args)), args
}

func placeholders(n int) string { return strings.TrimPrefix(strings.Repeat(", ?", n), ", ") }

// withoutEvidence is what a rule, or one who reads several, gets of reads.
func withoutEvidence(reads []ledger.Read) {
	for i := range reads {
		reads[i].Evidence = nil
	}
}

// gateQuery asks what is open and holds a gate back, as ledger.GateHolds says.
const gateQuery = `SELECT coalesce((SELECT o.seq FROM op o WHERE o.gate >= ? AND o.gate < ? AND o.gate <> ''
	AND o.state IN ('pending', 'uncertain') AND o.abandoned = 0
	AND (o.gate = ? OR substr(o.gate, 33, 9) <> substr(?, 33, 9)) ORDER BY o.gate LIMIT 1), 0)`

// nameOrder is the order of the operations of a name in its index.
const nameOrder = `(CASE o.live WHEN 1 THEN -1 ELSE o.n END)`

// timesQuery asks for the ends of a name in its index: one that has it now is the first, and the newest of
// the others is the last. It may stand there as its digest.
var timesQuery = func() string {
	var ends []string
	for _, name := range []string{"?1", "?2"} {
		for _, order := range []string{"", " DESC"} {
			ends = append(ends, `coalesce((SELECT o.n FROM op o WHERE o.name = `+name+` AND o.scope = ?3 AND o.kind = ?4
				ORDER BY `+nameOrder+order+` LIMIT 1), -1)`)
		}
	}
	return `SELECT ` + bare(ends...)
}()

func underName(name string, m ledger.Mask, scope, kind string) []any {
	return []any{name, m.Text(name), scope, kind}
}

// countNamed finds out how many operations had a name before.
func (l *loaded) countNamed(tx Tx, named []any) error {
	var n [4]int
	err := One(tx, []any{&n[0], &n[1], &n[2], &n[3]}, timesQuery, named...)
	l.named, l.rec.Times = true, 1+slices.Max(n[:])
	return err
}

func underGate(gate string) []any {
	base := ledger.GateBase(gate)
	return []any{base, base + "~", gate, gate}
}

// openUnder is what is open and holds a gate back, or nil.
func openUnder(tx Tx, gate string) (*ledger.Record, error) {
	if gate == "" {
		return nil, nil
	}
	var open int64
	err := One(tx, []any{&open}, gateQuery, underGate(gate)...)
	if err != nil || open == 0 {
		return nil, err
	}
	all, err := loadAll(tx, ledger.AllParts, `o.seq = ?`, open)
	if err != nil {
		return nil, err
	}
	return &all[0].rec, nil
}

// Read returns everything about one operation.
func (s *Store) Read(ctx context.Context, loc ledger.Locator) (rec ledger.Record, err error) {
	var m ledger.Mask
	if loc.Key != "" {
		m, _ = s.masks.get(ctx) // else only what was not redacted is found
	}
	err = s.db.View(ctx, func(tx Tx) error {
		l, err := load(tx, loc, m)
		if err == nil && !l.rec.Found && len(loc.ID) >= 4 {
			at := loc
			if at.ID, err = completed(tx, loc.ID); err == nil {
				l, err = load(tx, at, nil)
			}
		}
		if err != nil {
			return err
		}
		if rec = l.rec; !rec.Found {
			return fmt.Errorf("%w: %s", ledger.ErrNotFound, strings.TrimSpace(loc.ID+loc.AttemptID+loc.Awaits+loc.Key))
		}
		if loc.Skip&ledger.PartRelated == 0 {
			err = inOutages(tx, []*loaded{l})
			rec = l.rec
		}
		return err
	})
	s.masks.give(ctx, &rec)
	return rec, err
}

// completed completes a short id.
func completed(tx Tx, prefix string) (string, error) {
	ids, err := Collect(tx, word, `SELECT id FROM op WHERE id >= ? AND id < ? ORDER BY id LIMIT 10`, prefix, prefix+"\U0010ffff")
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		if lower := strings.ToLower(prefix); lower != prefix { // ours are, and may be typed as they are read aloud
			return completed(tx, lower)
		}
		return "", fmt.Errorf("%w: %s", ledger.ErrNotFound, prefix)
	case len(ids) > 1:
		return "", &ledger.AmbiguousError{Prefix: prefix, IDs: ids}
	}
	return ids[0], nil
}

// Records returns what Read does of several, without the evidence of their reads.
func (s *Store) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	return several(ctx, s, ids, func(l *loaded) ledger.Record { return l.rec })
}

// Kept returns what Records does, each with what a change may bring back.
func (s *Store) Kept(ctx context.Context, ids []string) ([]ledger.Record, error) {
	return several(ctx, s, ids, func(l *loaded) ledger.Record {
		rec := l.rec
		rec.Kept = l
		return rec
	})
}

// several reads operations in the order of their ids, without the evidence of their reads.
func several(ctx context.Context, s *Store, ids []string, of func(*loaded) ledger.Record) (out []ledger.Record, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		all, err := loadThese(tx, 0, ids)
		if err == nil {
			err = inOutages(tx, all)
		}
		out = make([]ledger.Record, 0, len(all))
		for _, id := range ids {
			if i := slices.IndexFunc(all, func(l *loaded) bool { return l.o.ID == id }); i >= 0 && id != "" {
				withoutEvidence(all[i].rec.Reads)
				out = append(out, of(all[i]))
			}
		}
		return err
	})
	for i := range out {
		s.masks.give(ctx, &out[i])
	}
	return out, err
}

// loadThese reads operations in any order.
func loadThese(tx Tx, skip ledger.Parts, ids []string) ([]*loaded, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	marks, args := among(ids)
	return loadAll(tx, skip, `o.id IN (`+marks+`)`, args...)
}

// overtook: t was first sent later than o, on the same target, or it may have acted there after
// o was done: it is open still, or was found to have landed since.
const (
	later    = `(t.started_at > o.started_at OR t.started_at = o.started_at AND t.seq > o.seq)`
	overtook = `(` + later + ` OR o.state = 'committed' AND o.abandoned = 0 AND (t.state IN ('pending', 'uncertain') AND t.abandoned = 0
		OR t.state = 'committed' AND t.abandoned = 0 AND t.settled_at > o.settled_at))`
	mayHaveLanded = `(t.state <> 'failed' AND t.abandoned = 0 OR t.person_only = 1 OR t.unproven > 0)`
	relations     = 20 // of each sort at most
)

// relatedQuery brings the newest of each sort, and the newest that landed or may have, which any
// number of newer ones without effect must not hide.
var relatedQuery = func() string {
	var parts []string
	for _, when := range []string{overtook, "NOT " + overtook, overtook + " AND " + mayHaveLanded, "NOT " + overtook + " AND " +
		mayHaveLanded} {
		parts = append(parts, fmt.Sprintf(`SELECT * FROM (SELECT t.seq, t.id, t.title, t.state, t.abandoned, t.created_at, t.settled_at,
			coalesce(t.receipts ->> 0, '') AS receipt,
			%s AS overtook, %s AS landed FROM op o JOIN op t ON t.target = o.target AND t.target <> '' AND t.seq <> o.seq
			WHERE o.seq = ?1 AND %s ORDER BY t.started_at DESC, t.seq DESC LIMIT %d) AS few`, overtook, mayHaveLanded, when, relations))
	}
	return `SELECT r.id, r.title, CASE r.abandoned WHEN 1 THEN 'abandoned' ELSE r.state END, r.created_at, r.settled_at, r.receipt,
		r.overtook, r.landed,
		coalesce((SELECT CAST(e.facts -> 'op' -> 'source' AS TEXT) FROM ev e WHERE e.op = r.seq AND e.verb = 'begin'
			ORDER BY e.seq LIMIT 1), '')
		FROM (` + strings.Join(parts, " UNION ") + `) AS r ORDER BY r.overtook DESC, r.created_at DESC, r.id DESC`
}()

// relatedTo are the operations on the target of another one.
func relatedTo(tx Tx, r row) ([]ledger.Relation, error) {
	return Collect(tx, func(rows Rows) (rel ledger.Relation, err error) {
		var created, settled int64
		var source string
		err = rows.Scan(&rel.ID, &rel.Title, &rel.State, &created, &settled, &rel.Receipt, &rel.Overtook, &rel.MayHaveLanded, &source)
		rel.CreatedAt, rel.SettledAt = at(created), at(settled)
		var o ledger.Operation
		patch(&o, object{{"source", source}}, false)
		rel.Source = o.Source
		return rel, err
	}, relatedQuery, r.seq)
}

// ended is when the attempts of an operation ended that count in outages.
func (l *loaded) ended() (at []time.Time) {
	for _, a := range l.attempts {
		if lost, is := a.Lost(*l.o); is {
			at = append(at, lost.At)
		}
	}
	return at
}

// inOutages says of records which outages they are in, the newest first.
func inOutages(tx Tx, all []*loaded) error {
	ends := ledger.Each(all, (*loaded).ended)
	times := slices.Concat(ends...)
	if len(times) == 0 {
		return nil
	}
	_, err := Collect(tx, func(rows Rows) (none struct{}, err error) {
		var in ledger.Outage
		var kinds string
		var first, last, gap int64
		if err = rows.Scan(&in.ID, &kinds, &first, &last, &gap); err != nil {
			return none, err
		}
		in.FirstAt, in.LastAt, in.Gap = at(first), at(last), time.Duration(gap)*time.Millisecond
		for i, l := range all {
			if slices.ContainsFunc(ends[i], in.Takes) && slices.Contains(unlist(kinds), l.o.Kind) {
				l.rec.Outages = append(l.rec.Outages, in.ID)
			}
		}
		return none, err
	}, `SELECT i.id, i.kinds, i.first_at, i.last_at, i.gap_ms FROM outage i WHERE i.last_at + i.gap_ms > ? AND i.first_at <= ?
		ORDER BY i.last_at DESC, i.id`,
		millis(slices.MinFunc(times, time.Time.Compare)), millis(slices.MaxFunc(times, time.Time.Compare)))
	return err
}
