package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"indoubt/ledger"
)

// record is what a rule gets, and what the store must know beside it.
type record struct {
	ledger.Record
	recheckAt int64
	lacks     ledger.Parts // of one that is remembered
}

// locate is the condition that finds a locator's operation o, with its values.
func locate(loc ledger.Locator) (string, []any, error) {
	switch {
	case loc.ID != "":
		return `o.id = ?`, []any{loc.ID}, nil
	case loc.AttemptID != "":
		return `o.id = (SELECT operation_id FROM attempts WHERE id = ?)`, []any{loc.AttemptID}, nil
	case loc.Awaits != "":
		return `o.scope = ? AND o.awaits = ? AND o.awaits <> '' AND o.state = 'pending'`, []any{loc.Scope, loc.Awaits}, nil
	}
	return "", nil, errors.New("which operation: a locator needs an id, an attempt, what is awaited or a key")
}

// holder names the operation that holds a key in a scope, of any kind where none is
// named, or nothing, and reports whether a change is in the history. It is small:
// most begins, and most looks for a made key, find nothing.
func holder(q querier, loc ledger.Locator, changeID string) (id string, known bool, err error) {
	_, err = collect(q, func(rows *sql.Rows) (none struct{}, err error) { return none, rows.Scan(&known, &id) }, `
		SELECT EXISTS (SELECT 1 FROM events WHERE id = ?),
		       coalesce((SELECT id FROM operations
		                  WHERE seq = (SELECT max(seq) FROM operations WHERE key = ? AND scope = ? AND ? IN ('', kind) AND key_live = 1)), '')`,
		changeID, loc.Key, loc.Scope, loc.Kind)
	return id, known, err
}

// recordShape is what a query of records reads.
type recordShape struct {
	where     string
	skip      ledger.Parts
	change    bool // whether a change is in the history: the first value
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
	if s.change {
		columns += `EXISTS (SELECT 1 FROM events WHERE id = ?), `
	}
	columns += operationColumns + `, o.recheck_at, EXISTS (SELECT 1 FROM grants g WHERE g.operation_id = o.id)`
	from := ` FROM operations o`
	if s.attempted {
		columns += `, ` + of("a.", attemptColumns)
		from += ` CROSS JOIN attempts a ON a.operation_id = o.id AND a.n = o.attempt_count`
	}
	if s.skip&ledger.PartPricing == 0 {
		columns += `, h.seq IS NOT NULL, ` + of("h.", pricingColumns)
		from += ` LEFT JOIN open_operations h ON h.seq = o.seq`
	}
	if s.skip&ledger.PartLease == 0 {
		columns += `, coalesce(l.holder, ''), coalesce(l.generation, 0), coalesce(l.digest, ''), coalesce(l.expires_at, 0)`
		from += ` LEFT JOIN leases l ON l.operation_id = o.id`
	}
	if s.skip&ledger.PartReads == 0 {
		columns += `, EXISTS (SELECT 1 FROM reads r WHERE r.operation_id = o.id)`
	}
	if s.skip&ledger.PartHolds == 0 {
		columns += `, EXISTS (SELECT 1 FROM holds WHERE released_at = 0)`
	}
	if s.skip&ledger.PartRelated == 0 {
		columns += `, ` + alike + `
			OR EXISTS (SELECT 1 FROM operations t WHERE t.target = o.target AND t.target <> '' AND t.created_at >= o.created_at AND t.seq <> o.seq)`
	}
	q := columns + from + ` WHERE ` + s.where
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
	known      bool
	recheckAt  int64
	lease      ledger.Lease
	leaseUntil int64

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
func (r *recordScan) scan(rows *sql.Rows, s recordShape) error {
	r.recordParts, r.dest = recordParts{}, r.dest[:0]
	if s.change {
		r.dest = append(r.dest, &r.known)
	}
	r.dest = append(r.op.dest(r.dest), &r.recheckAt, &r.grants)
	if s.attempted {
		r.dest = r.newest.dest(r.dest)
	}
	if s.skip&ledger.PartPricing == 0 {
		r.dest = r.pricing.dest(append(r.dest, &r.listed))
	}
	if s.skip&ledger.PartLease == 0 {
		r.dest = append(r.dest, &r.lease.Holder, &r.lease.Generation, &r.lease.Digest, &r.leaseUntil)
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

// record is what the row says, and what it does not say.
func (r *recordScan) record(s recordShape, now ledger.Moment) (rec record, more rest) {
	rec = record{Record: ledger.Record{Now: now.Wall, Steady: now.Steady, Found: true}, recheckAt: r.recheckAt}
	rec.Operation = operationOf(&r.op)
	o := &rec.Operation
	if r.listed {
		rec.Pricing = pricingOf(&r.pricing, o.ID)
	}
	if at(r.leaseUntil).After(now.Wall) && r.lease.Holder != "" {
		rec.Lease = r.lease
		rec.Lease.OperationID, rec.Lease.ExpiresAt = o.ID, at(r.leaseUntil)
	}
	more = rest{attempts: true, grants: r.grants, reads: r.reads, holds: r.holds, related: r.related}
	if s.attempted && o.AttemptCount == 1 {
		rec.Attempts, more.attempts = []ledger.Attempt{attemptOf(o.ID, r.newest.row())}, false
	}
	return rec, more
}

// complete asks the other tables.
func (rec *record) complete(q querier, more rest, evidence bool) (err error) {
	o := rec.Operation
	if more.attempts {
		rec.Attempts, err = loadAttempts(q, o.ID)
	}
	if err == nil && more.reads {
		rec.Reads, err = loadReads(q, o.ID, evidence)
	}
	if err == nil && more.grants {
		rec.Grants, err = loadGrants(q, o.ID)
	}
	if err == nil && more.holds {
		rec.Holds, err = loadHolds(q, rec.Now)
	}
	if err == nil && more.related {
		rec.Related, err = loadRelated(q, o)
	}
	return err
}

// load reads the record at the locator, without what the locator skips, and
// reports whether a change is in the history; then the record is empty. Not found
// is no error.
func load(q querier, loc ledger.Locator, changeID string, now ledger.Moment, evidence bool) (rec record, known bool, err error) {
	rec.Now, rec.Steady = now.Wall, now.Steady
	if loc.ID == "" && loc.AttemptID == "" && loc.Awaits == "" && loc.Key != "" {
		if loc.ID, known, err = holder(q, loc, changeID); err != nil || known || loc.ID == "" {
			return rec, known, err
		}
		changeID = ""
	}
	where, args, err := locate(loc)
	if err != nil {
		return rec, false, err
	}
	s := recordShape{where: where, skip: loc.Skip, change: changeID != "", attempted: true}
	if s.change {
		args = append([]any{changeID}, args...)
	}
	rec, known, err = loadOne(q, s, args, now, evidence)
	if err == nil && !known && !rec.Found {
		// A writer in plain SQL may name an attempt and then not record it.
		s.attempted = false
		rec, known, err = loadOne(q, s, args, now, evidence)
	}
	return rec, known, err
}

func loadOne(q querier, s recordShape, args []any, now ledger.Moment, evidence bool) (rec record, known bool, err error) {
	rec.Now, rec.Steady = now.Wall, now.Steady
	rows, err := q.rows(s.query(), args...)
	if err != nil {
		return rec, false, err
	}
	var more rest
	if rows.Next() {
		r := recordScans.Get().(*recordScan)
		if err = r.scan(rows, s); err == nil && !r.known {
			rec, more = r.record(s, now)
		}
		known = err == nil && r.known
		recordScans.Put(r)
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil || !rec.Found {
		rec.Found = false
		return rec, known, err
	}
	return rec, false, rec.complete(q, more, evidence)
}

// Read returns everything about one operation.
func (s *Store) Read(ctx context.Context, loc ledger.Locator) (ledger.Record, error) {
	var rec record
	err := s.brief(ctx, func(q querier) (err error) {
		at := loc
		rec, _, err = load(q, at, "", s.moment(), true)
		if err == nil && !rec.Found && len(at.ID) >= 4 {
			if at.ID, err = whole(q, at.ID); err == nil {
				rec, _, err = load(q, at, "", s.moment(), true)
			}
		}
		return err
	})
	if err == nil && !rec.Found {
		err = fmt.Errorf("%w: %s", ledger.ErrNotFound, strings.TrimSpace(loc.ID+loc.AttemptID+loc.Awaits+loc.Key))
	}
	return rec.Record, translate(s.path, err)
}

// Records returns everything about several operations but the evidence of their
// reads, all from one state of the ledger and with one query for most of it.
func (s *Store) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	n, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer n.close()
	recs, err := loadAll(n, ids, s.moment())
	return bare(recs), translate(s.path, err)
}

func bare(recs []record) []ledger.Record {
	out := make([]ledger.Record, len(recs))
	for i, rec := range recs {
		out[i] = rec.Record
	}
	return out
}

func loadAll(q querier, ids []string, now ledger.Moment) ([]record, error) {
	s := recordShape{where: `o.id IN (SELECT value FROM json_each(?))`, attempted: true}
	rows, err := q.rows(s.query(), list(ids))
	if err != nil {
		return nil, err
	}
	found := make(map[string]*record, len(ids))
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
	recs := make([]record, 0, len(ids))
	for _, id := range ids {
		rec := found[id]
		if rec == nil && id == "" {
			continue
		}
		if rec == nil { // unknown, or without the attempt it names
			one, _, err := load(q, ledger.Locator{ID: id}, "", now, false)
			if err != nil {
				return nil, err
			}
			if one.Found {
				recs = append(recs, one)
			}
			continue
		}
		if err := rec.complete(q, rests[id], false); err != nil {
			return nil, err
		}
		recs = append(recs, *rec)
	}
	return recs, nil
}

// whole completes a short id.
func whole(q querier, prefix string) (string, error) {
	ids, err := collect(q, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
		`SELECT id FROM operations WHERE id >= ? AND id < ? ORDER BY id LIMIT 10`, prefix, prefix+"\U0010ffff")
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
