package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// Record is what a rule gets, and what the store must know beside it.
type Record struct {
	ledger.Record
	RecheckAt time.Time
}

// locate finds a locator's operation.
func locate(loc ledger.Locator) (located, error) {
	switch {
	case loc.ID != "":
		return located{byID, []any{loc.ID}}, nil
	case loc.AttemptID != "":
		return located{byAttempt, []any{loc.AttemptID}}, nil
	case loc.Awaits != "":
		return located{byAwaits, []any{loc.Scope, loc.Awaits}}, nil
	case loc.Key != "":
		return located{byKey, append(make([]any, 0, 5), loc.Key, loc.Scope, loc.Kind, ledger.Masked(loc.Key))}, nil
	}
	return located{}, errors.New("which operation: a locator needs an id, an attempt, what is awaited or a key")
}

// holderQuery reports whether a change is in the history, and whether an operation holds a
// key, or its digest, in a scope, of any kind where none is named. It is small: most begins,
// and most looks for a made key, find nothing. For an IN, SQLite would make a table each time.
const holderQuery = `
	SELECT EXISTS (SELECT 1 FROM events WHERE id = ?5),
	       EXISTS (SELECT 1 FROM operations WHERE key = ?1 AND scope = ?2 AND ?3 IN ('', kind) AND key_live = 1)
	    OR EXISTS (SELECT 1 FROM operations WHERE key = ?4 AND scope = ?2 AND ?3 IN ('', kind) AND key_live = 1)`

// GateOpen is the condition that finds what is open and holds a gate back, as ledger.GateHolds says.
const GateOpen = `gate >= ? AND gate < ? AND gate <> '' AND state IN ('pending', 'uncertain')
	 AND (gate = ? OR substr(gate, 33, 9) <> substr(?, 33, 9))`

// GateArgs are the arguments of GateOpen.
func GateArgs(gate string) []any {
	base := ledger.GateBase(gate)
	end := base + "~"
	if gate == "" { // nothing holds it
		end = ""
	}
	return []any{base, end, gate, gate}
}

const gateQuery = `SELECT id FROM operations WHERE ` + GateOpen + ` ORDER BY gate LIMIT 1`

// openUnder is what is open and holds a gate back, or nil. No lock keeps it from being settled
// between the two statements.
func openUnder(q Querier, d *Dialect, gate string) (*ledger.Record, error) {
	for {
		var id string
		if err := one(q, gateQuery, GateArgs(gate), &id); errors.Is(err, errNone) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		rec, _, err := load(q, d, ledger.Locator{ID: id, Skip: ledger.AllParts}, "", false)
		if err != nil || rec.Operation.State.Open() {
			return &rec.Record, err
		}
	}
}

func holderArgs(at located, args []any) []any {
	if len(args) == len(at.args) { // no change is asked for
		return append(args[:4:4], "")
	}
	return args
}

// recordShape is what a query of records reads.
type recordShape struct {
	id        string
	several   bool // the ids are a list
	skip      ledger.Parts
	change    int  // whether a change is in the history, by the value of this number; 0: not asked
	attempted bool // with the newest attempt, which plain SQL may have left out
}

var recordQueries sync.Map // string by recordShape

// query reads operations with what stands beside each once, and tells which of
// the other tables are worth asking.
func (s recordShape) query() string {
	if q, ok := recordQueries.Load(s); ok {
		return q.(string)
	}
	columns := `SELECT `
	if s.change > 0 {
		columns += fmt.Sprintf(`EXISTS (SELECT 1 FROM events WHERE id = ?%d), `, s.change)
	}
	columns += operationColumns + `, o.recheck_at, coalesce((SELECT at FROM gap), 0), EXISTS (SELECT 1 FROM grants g WHERE g.operation_id = o.id)`
	from := ` FROM operations o`
	if s.attempted {
		columns += `, ` + of("a.", attemptColumns)
		from += ` CROSS JOIN attempts a ON a.operation_id = o.id AND a.n = o.attempt_count`
	}
	if s.skip&ledger.PartPricing == 0 {
		columns += `, h.seq IS NOT NULL, ` + of("h.", pricingColumns)
		from += ` LEFT JOIN open_operations h ON h.seq = o.seq`
	}
	if s.skip&ledger.PartReads == 0 {
		columns += `, EXISTS (SELECT 1 FROM reads r WHERE r.operation_id = o.id)`
	}
	if s.skip&ledger.PartHolds == 0 {
		columns += `, EXISTS (SELECT 1 FROM holds WHERE released_at = 0)`
	}
	if s.skip&ledger.PartRelated == 0 {
		columns += `, EXISTS (SELECT 1 FROM operations t WHERE ` + sameTarget + ` AND t.seq <> o.seq)`
	}
	is := ` = `
	if s.several {
		is = ` IN `
	}
	q := columns + from + ` WHERE o.id` + is + s.id
	recordQueries.Store(s, q)
	return q
}

// recordScan takes the columns of a shape. It is large, and used again.
type recordScan struct {
	recordParts
	op      scan[ledger.Operation]
	newest  scan[ledger.Attempt]
	pricing scan[ledger.Pricing]
	dest    []any
}

// recordParts are what a shape may leave out.
type recordParts struct {
	known     bool
	recheckAt int64
	gap       int64

	grants, listed, reads, holds, related bool
}

var recordScans = sync.Pool{New: func() any {
	return &recordScan{
		op:      scan[ledger.Operation]{columns: columns},
		newest:  scan[ledger.Attempt]{columns: attemptColumns},
		pricing: scan[ledger.Pricing]{columns: pricingColumns},
	}
}}

// scan takes one row.
func (r *recordScan) scan(rows Rows, s recordShape) error {
	r.recordParts, r.dest = recordParts{}, r.dest[:0]
	if s.change > 0 {
		r.dest = append(r.dest, &r.known)
	}
	r.dest = append(r.op.dest(r.dest), &r.recheckAt, &r.gap, &r.grants)
	if s.attempted {
		r.dest = r.newest.dest(r.dest)
	}
	if s.skip&ledger.PartPricing == 0 {
		r.dest = r.pricing.dest(append(r.dest, &r.listed))
	}
	if s.skip&ledger.PartReads == 0 {
		r.dest = append(r.dest, &r.reads)
	}
	if s.skip&ledger.PartHolds == 0 {
		r.dest = append(r.dest, &r.holds)
	}
	if s.skip&ledger.PartRelated == 0 {
		r.dest = append(r.dest, &r.related)
	}
	return rows.Scan(r.dest...)
}

// rest are the tables that have more to say of a record.
type rest struct {
	attempts, grants, reads, holds, related bool
}

// asks are the queries of complete.
func (r rest) asks(at located, evidence bool) (asks []Ask) {
	t := textsBy[at.id]()
	if r.attempts {
		asks = append(asks, Ask{t.attempts, at.args})
	}
	if r.reads {
		asks = append(asks, Ask{t.ofReads(evidence), at.args})
	}
	if r.grants {
		asks = append(asks, Ask{t.grants, at.args})
	}
	if r.holds {
		asks = append(asks, Ask{holdsQuery, nil})
	}
	if r.related {
		asks = append(asks, Ask{t.related, at.args})
	}
	return asks
}

// record is what the row says, and what it does not say.
func (r *recordScan) record(s recordShape, now ledger.Moment) (rec Record, more rest) {
	rec = Record{Record: ledger.Record{Now: now.Wall, Steady: now.Steady, Found: true, Gap: At(r.gap)}, RecheckAt: At(r.recheckAt)}
	rec.Operation = r.op.row()
	o := &rec.Operation
	if r.listed {
		rec.Pricing = pricingOf(&r.pricing, o.ID)
	}
	more = rest{attempts: true, grants: r.grants, reads: r.reads, holds: r.holds, related: r.related}
	if s.attempted && o.AttemptCount == 1 {
		rec.Attempts, more.attempts = []ledger.Attempt{attemptOf(o.ID, r.newest.row())}, false
	}
	return rec, more
}

// complete asks the other tables.
func (rec *Record) complete(q Querier, at located, more rest, evidence bool) (err error) {
	if more.attempts {
		rec.Attempts, err = loadAttempts(q, at)
	}
	if err == nil && more.reads {
		rec.Reads, err = loadReads(q, at, evidence)
	}
	if err == nil && more.grants {
		rec.Grants, err = loadGrants(q, at)
	}
	if err == nil && more.holds {
		rec.Holds, err = loadHolds(q, rec.Now)
	}
	if err == nil && more.related {
		rec.Related, err = loadRelated(q, at)
	}
	return err
}

// load reads the record at the locator, without what the locator skips, and
// reports whether a change is in the history; then the record is empty. Not found
// is no error.
func load(q Querier, d *Dialect, loc ledger.Locator, changeID string, evidence bool) (rec Record, known bool, err error) {
	if d.Far && loc.Gate != "" {
		q.Ahead(Ask{gateQuery, GateArgs(loc.Gate)})
	}
	if rec, known, err = loadAt(q, d, loc, changeID, evidence); err == nil && !known && loc.Gate != "" {
		rec.Open, err = openUnder(q, d, loc.Gate)
	}
	return rec, known, err
}

// loadAt is load without what is open under the gate.
func loadAt(q Querier, d *Dialect, loc ledger.Locator, changeID string, evidence bool) (rec Record, known bool, err error) {
	at, err := locate(loc)
	if err != nil {
		return rec, false, err
	}
	s, args := recordShape{id: at.id, skip: loc.Skip, attempted: true}, at.args
	if changeID != "" {
		args = append(args, changeID)
		s.change = len(args)
	}
	if d.Far { // on this host it is not worth its list
		q.Ahead(s.asks(at, args, evidence)...)
	}
	if at.id == byKey {
		var found bool
		if err := one(q, holderQuery, holderArgs(at, args), &known, &found); err != nil || known || !found {
			return nothing(q), known, err
		}
	}
	rec, known, err = loadOne(q, s, at, args, evidence)
	if err == nil && !known && !rec.Found {
		// A writer in plain SQL may name an attempt and then not record it.
		s.attempted = false
		rec, known, err = loadOne(q, s, at, args, evidence)
	}
	return rec, known, err
}

// asks are all queries of a record.
func (s recordShape) asks(at located, args []any, evidence bool) []Ask {
	asks := make([]Ask, 0, 7)
	if at.id == byKey {
		asks = append(asks, Ask{holderQuery, holderArgs(at, args)})
	}
	all := rest{attempts: true, grants: true, reads: s.skip&ledger.PartReads == 0, holds: s.skip&ledger.PartHolds == 0, related: s.skip&ledger.PartRelated == 0}
	return append(append(asks, Ask{s.query(), args}), all.asks(at, evidence)...)
}

// nothing is the record of an operation that is not there.
func nothing(q Querier) (rec Record) {
	now := q.Moment()
	rec.Now, rec.Steady = now.Wall, now.Steady
	return rec
}

func loadOne(q Querier, s recordShape, at located, args []any, evidence bool) (rec Record, known bool, err error) {
	rows, err := q.Query(s.query(), args...)
	if err != nil {
		return rec, false, err
	}
	var more rest
	rec = nothing(q)
	if rows.Next() {
		r := recordScans.Get().(*recordScan)
		if err = r.scan(rows, s); err == nil && !r.known {
			rec, more = r.record(s, ledger.Moment{Wall: rec.Now, Steady: rec.Steady})
		}
		known = err == nil && r.known
		recordScans.Put(r)
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil || !rec.Found {
		rec.Found = false
		return rec, known, err
	}
	return rec, false, rec.complete(q, at, more, evidence)
}

// Read returns everything about one operation.
func (s *Store) Read(ctx context.Context, loc ledger.Locator) (ledger.Record, error) {
	var rec Record
	err := s.db.Brief(ctx, func(q Querier) (err error) {
		at := loc
		rec, _, err = load(q, s.d, at, "", true)
		if err == nil && !rec.Found && len(at.ID) >= 4 {
			if at.ID, err = whole(q, at.ID); err == nil {
				rec, _, err = load(q, s.d, at, "", true)
			}
		}
		if err == nil && rec.Found && loc.Skip&ledger.PartRelated == 0 {
			recs := []ledger.Record{rec.Record}
			err = inOutages(q, recs)
			rec.Record = recs[0]
		}
		return err
	})
	if err == nil && !rec.Found {
		err = fmt.Errorf("%w: %s", ledger.ErrNotFound, strings.TrimSpace(loc.ID+loc.AttemptID+loc.Awaits+loc.Key))
	}
	return rec.Record, err
}

// Records returns everything about several operations but the evidence of their
// reads, all from one state of the ledger and with one query for most of it.
func (s *Store) Records(ctx context.Context, ids []string) (out []ledger.Record, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.db.View(ctx, func(q Querier) error {
		recs, err := loadAll(q, s.d, ids, 0, false)
		if out = bare(recs); err == nil {
			err = inOutages(q, out)
		}
		return err
	})
	return out, err
}

func bare(recs []Record) []ledger.Record {
	return ledger.Each(recs, func(rec Record) ledger.Record { return rec.Record })
}

func loadAll(q Querier, d *Dialect, ids []string, skip ledger.Parts, evidence bool) ([]Record, error) {
	s := recordShape{id: `(SELECT value FROM json_each(?1))`, several: true, skip: skip, attempted: true}
	rows, err := q.Query(s.query(), list(ids))
	if err != nil {
		return nil, err
	}
	now := q.Moment()
	found := make(map[string]*Record, len(ids))
	rests := make(map[string]rest)
	r := recordScans.Get().(*recordScan)
	defer recordScans.Put(r)
	for rows.Next() && err == nil {
		if err = r.scan(rows, s); err != nil {
			break
		}
		rec, more := r.record(s, now)
		found[rec.Operation.ID], rests[rec.Operation.ID] = &rec, more
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	if d.Far {
		var asks []Ask
		for _, id := range ids {
			asks = append(asks, rests[id].asks(located{byID, []any{id}}, evidence)...)
		}
		q.Ahead(asks...)
	}
	recs := make([]Record, 0, len(ids))
	for _, id := range ids {
		rec := found[id]
		if rec == nil && id == "" {
			continue
		}
		if rec == nil { // unknown, or without the attempt it names
			one, _, err := load(q, d, ledger.Locator{ID: id, Skip: skip}, "", evidence)
			if err != nil {
				return nil, err
			}
			if one.Found {
				recs = append(recs, one)
			}
			continue
		}
		if err := rec.complete(q, located{byID, []any{id}}, rests[id], evidence); err != nil {
			return nil, err
		}
		recs = append(recs, *rec)
	}
	return recs, nil
}

// whole completes a short id.
func whole(q Querier, prefix string) (string, error) {
	ids, err := Collect(q, word, `SELECT id FROM operations WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 10`, prefix, prefix+"\U0010ffff")
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		if lower := strings.ToLower(prefix); lower != prefix { // ours are, and may be typed as they are read aloud
			return whole(q, lower)
		}
		return "", fmt.Errorf("%w: %s", ledger.ErrNotFound, prefix)
	case len(ids) > 1:
		return "", &ledger.AmbiguousError{Prefix: prefix, IDs: ids}
	}
	return ids[0], nil
}
