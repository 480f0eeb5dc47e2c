package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Follow returns what came into view after the cursor, and a cursor that has seen it.
// Events come in the order of their numbers, those of one operation in the order of
// their commits.
func (s *handle) Follow(ctx context.Context, after ledger.Cursor, limit int) ([]ledger.Event, ledger.Cursor, error) {
	at, err := placeOf(after)
	if err != nil {
		return nil, after, err
	}
	if at.cut {
		rest, next, err := s.rest(ctx, at, limit)
		if err != nil || len(rest) > 0 {
			return rest, next.cursor(), err
		}
		at = next
	}
	events, next, err := s.fresh(ctx, at, limit)
	if err != nil {
		return nil, after, err
	}
	return events, next.cursor(), nil
}

// located is an event with its transaction.
type located struct {
	event ledger.Event
	xid   uint64
}

// pageOf asks for a page and one event more.
func pageOf(where string, args []any, limit int) tables.Ask {
	return tables.Ask{Query: `SELECT ` + tables.EventColumns + `, xid FROM events WHERE ` + where + ` ORDER BY xid, seq LIMIT ?`, Args: append(args, limit+1)}
}

// fresh looks at what the snapshot of the place does not show.
func (s *handle) fresh(ctx context.Context, at place, limit int) (events []ledger.Event, next place, err error) {
	where, args := at.seen.unseen(nil)
	standby, now := false, snapshot{}
	err = s.View(ctx, func(q tables.Querier) error {
		found := pageOf(where, args, limit)
		q.Ahead(tables.Ask{Query: nowQuery}, found)
		if standby, now, err = current(q); err != nil || standby {
			return err
		}
		events, next, err = cut(q, found, at.seen, now, limit)
		return err
	})
	if err != nil || !standby {
		return events, next, err
	}
	// A standby does not list what runs on its primary: it is asked of each transaction,
	// and what had ended by then is looked at after that.
	if now, err = s.ended(ctx, at.seen); err != nil {
		return nil, at, err
	}
	return s.between(ctx, at.seen, now, "", nil, limit)
}

// rest looks at what is left of a page that was cut.
func (s *handle) rest(ctx context.Context, at place, limit int) ([]ledger.Event, place, error) {
	return s.between(ctx, at.seen, at.look, ` AND (xid, seq) > (CAST(? AS xid8), CAST(? AS bigint))`, []any{fmt.Sprint(at.xid), at.seq}, limit)
}

// between looks at what one snapshot does not show and a later one does.
func (s *handle) between(ctx context.Context, seen, look snapshot, more string, values []any, limit int) (events []ledger.Event, next place, err error) {
	where, args := seen.unseen(nil)
	shown, args := look.shown(args)
	found := pageOf(where+" AND "+shown+more, append(args, values...), limit)
	err = s.View(ctx, func(q tables.Querier) error {
		events, next, err = cut(q, found, seen, look, limit)
		return err
	})
	return events, next, err
}

// cut takes a page of what was found.
func cut(q tables.Querier, found tables.Ask, seen, look snapshot, limit int) ([]ledger.Event, place, error) {
	all, err := tables.Collect(q, func(rows tables.Rows) (l located, err error) {
		l.event, err = tables.ScanEvent(rows, &l.xid)
		return l, err
	}, found.Query, found.Args...)
	if err != nil {
		return nil, place{seen: seen}, err
	}
	next := place{seen: look}
	if len(all) > limit {
		all = all[:limit]
		next = place{seen: seen}
		if limit > 0 {
			last := all[limit-1]
			next = place{seen: seen, cut: true, look: look, xid: last.xid, seq: last.event.Seq}
		}
	}
	events := make([]ledger.Event, len(all))
	for i, l := range all {
		events[i] = l.event
	}
	slices.SortFunc(events, func(a, b ledger.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events, next, nil
}

const nowQuery = `SELECT pg_is_in_recovery(), CAST(pg_current_snapshot() AS text)`

// current is the snapshot that a querier reads.
func current(q tables.Querier) (standby bool, now snapshot, err error) {
	rows, err := q.Query(nowQuery)
	if err != nil {
		return false, now, err
	}
	defer rows.Close()
	var text string
	rows.Next()
	if err = rows.Scan(&standby, &text); err == nil {
		err = now.server(text)
	}
	return standby, now, err
}

// ended is a snapshot of a standby: of the transactions that were not seen to have
// ended, it asks which run. Those below the oldest that runs have all ended.
func (s *handle) ended(ctx context.Context, seen snapshot) (now snapshot, err error) {
	err = s.View(ctx, func(q tables.Querier) error {
		running, err := tables.Collect(q, func(rows tables.Rows) (x uint64, err error) {
			var text string
			var runs bool
			if err = rows.Scan(&text, &now.max, &runs); err == nil && runs {
				_, err = fmt.Sscan(text, &x)
			}
			return x, err
		}, `
			WITH now AS MATERIALIZED (SELECT CAST(CAST(pg_snapshot_xmin(s) AS text) AS bigint) AS low, CAST(CAST(pg_snapshot_xmax(s) AS text) AS bigint) AS high
			                            FROM pg_current_snapshot() s),
			     waits AS (SELECT x FROM unnest(CAST(? AS bigint[])) x, now WHERE x >= low
			               UNION SELECT x FROM now, generate_series(greatest(low, ?), high - 1) x)
			SELECT coalesce(x, 0), high, x IS NOT NULL FROM now
			  LEFT JOIN waits ON pg_xact_status(CAST(CAST(x AS text) AS xid8)) = 'in progress' ORDER BY x`,
			"{"+list(seen.running)+"}", int64(seen.max))
		for _, x := range running {
			if x != 0 {
				now.running = append(now.running, x)
			}
		}
		return err
	})
	return now, err
}

// here is the place behind all that can be seen now.
func (s *handle) here(ctx context.Context) (place, error) {
	var standby bool
	var now snapshot
	err := s.View(ctx, func(q tables.Querier) (err error) {
		standby, now, err = current(q)
		return err
	})
	if err == nil && standby {
		now, err = s.ended(ctx, beginning)
	}
	return place{seen: now}, err
}

// History returns events in the order of their numbers.
func (s *handle) History(ctx context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	since, err1 := placeOf(q.Since)
	until, err2 := placeOf(q.Until)
	if err1 != nil || err2 != nil {
		return nil, cmp.Or(err1, err2)
	}
	where, args := since.unseen(nil)
	if q.Until != "" {
		var behind string
		behind, args = until.unseen(args)
		where += ` AND NOT (` + behind + `)`
	}
	if q.Before > 0 {
		where, args = where+` AND seq < ?`, append(args, q.Before)
	}
	if q.Operation != "" {
		where, args = where+` AND operation_id = ? AND operation_id <> ''`, append(args, q.Operation)
	}
	order := ` ORDER BY seq`
	if q.Newest {
		order += ` DESC`
	}
	var events []ledger.Event
	err := s.View(ctx, func(v tables.Querier) (err error) {
		events, err = tables.Collect(v, func(rows tables.Rows) (ledger.Event, error) { return tables.ScanEvent(rows) },
			`SELECT `+tables.EventColumns+` FROM events WHERE `+where+order+` LIMIT ?`, append(args, q.Limit)...)
		return err
	})
	return events, err
}

// IncidentsSince names the incidents that the first events behind the cursor are about.
func (s *handle) IncidentsSince(ctx context.Context, after ledger.Cursor, limit int) (ids []string, all bool, err error) {
	at, err := placeOf(after)
	if err != nil {
		return nil, false, err
	}
	where, args := at.unseen(nil)
	n := 0
	err = s.View(ctx, func(q tables.Querier) error {
		found, err := tables.Collect(q, func(rows tables.Rows) (id string, err error) {
			var events int
			err = rows.Scan(&id, &events)
			n = max(n, events)
			return id, err
		}, `
			WITH e AS MATERIALIZED (SELECT operation_id, incident FROM events WHERE `+where+` ORDER BY xid, seq LIMIT ?)
			SELECT incident, 0 FROM e WHERE incident <> ''
			UNION SELECT o.incident, 0 FROM e JOIN operations o ON o.id = e.operation_id WHERE e.operation_id <> '' AND o.incident <> ''
			UNION SELECT '', count(*) FROM e`, append(args, limit+1)...)
		ids = slices.DeleteFunc(found, func(id string) bool { return id == "" })
		return err
	})
	return ids, n <= limit, err
}
