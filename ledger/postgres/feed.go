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
// their commits. A cursor of another lineage of the ledger goes on from what both have.
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
	var now moment
	err = s.View(ctx, func(q tables.Querier) error {
		page := func(at place) tables.Ask {
			where, args := at.seen.unseen(nil)
			return pageOf(where, args, limit)
		}
		var here place
		if now, here, err = current(q, at, page); err != nil || now.standby || now.foreign {
			next = at
			return err
		}
		at = here
		events, next, err = cut(q, page(at), at, now.seen, limit)
		return err
	})
	if err != nil || !now.standby {
		return events, next, err
	}
	// A standby does not list what runs on its primary: it is asked of each transaction,
	// and what had ended by then is looked at after that.
	look, err := s.ended(ctx, at.seen)
	if err != nil {
		return nil, at, err
	}
	at.look = look
	return s.between(ctx, at, "", nil, limit)
}

// rest looks at what is left of a page that was cut.
func (s *handle) rest(ctx context.Context, at place, limit int) ([]ledger.Event, place, error) {
	return s.between(ctx, at, ` AND (xid, seq) > (CAST(? AS xid8), CAST(? AS bigint))`, []any{fmt.Sprint(at.xid), at.seq}, limit)
}

// between looks at what a place has not seen and its later look has.
func (s *handle) between(ctx context.Context, at place, more string, values []any, limit int) (events []ledger.Event, next place, err error) {
	page := func(at place) tables.Ask {
		where, args := at.seen.unseen(nil)
		shown, args := at.look.shown(args)
		return pageOf(where+" AND "+shown+more, append(args, values...), limit)
	}
	err = s.View(ctx, func(q tables.Querier) error {
		_, at, err := current(q, at, page)
		if err == nil {
			events, next, err = cut(q, page(at), at, at.look, limit)
		}
		return err
	})
	return events, next, err
}

// cut takes a page of what was found.
func cut(q tables.Querier, found tables.Ask, at place, look snapshot, limit int) ([]ledger.Event, place, error) {
	all, err := tables.Collect(q, func(rows tables.Rows) (l located, err error) {
		l.event, err = tables.ScanEvent(rows, &l.xid)
		return l, err
	}, found.Query, found.Args...)
	if err != nil {
		return nil, at, err
	}
	next := place{line: at.line, seen: look}
	if len(all) > limit {
		all = all[:limit]
		next.seen = at.seen
		if limit > 0 {
			last := all[limit-1]
			next.cut, next.look, next.xid, next.seq = true, look, last.xid, last.event.Seq
		}
	}
	events := make([]ledger.Event, len(all))
	for i, l := range all {
		events[i] = l.event
	}
	slices.SortFunc(events, func(a, b ledger.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events, next, nil
}

// moment is what a querier reads.
type moment struct {
	standby bool
	foreign bool // the system is another one than was noted: the numbers of its transactions are none of the ledger's yet
	line    string
	seen    snapshot
}

const nowQuery = `
	SELECT pg_is_in_recovery(), CAST(pg_current_snapshot() AS text), lineage, coalesce(split_part(indoubt.lineage(), '.', 1) <> split_part(lineage, '.', 1), FALSE)
	  FROM indoubt.lineages ORDER BY n DESC LIMIT 1`

// lineageQuery gives where the lineages after this one begin; no row for one that is not
// known.
const lineageQuery = `
	SELECT coalesce(min(CAST(CAST(later.xid AS text) AS bigint)), 0) FROM indoubt.lineages l LEFT JOIN indoubt.lineages later ON later.n > l.n
	 WHERE l.lineage = ? GROUP BY l.n ORDER BY l.n DESC LIMIT 1`

// current is what a querier reads now, and the place in its lineage. What is going to be
// asked of the place travels with it.
func current(q tables.Querier, at place, asks ...func(place) tables.Ask) (now moment, here place, err error) {
	ahead := []tables.Ask{{Query: nowQuery}}
	for _, ask := range asks {
		ahead = append(ahead, ask(at))
	}
	q.Ahead(ahead...)
	rows, err := q.Query(nowQuery)
	if err != nil {
		return now, at, err
	}
	defer rows.Close()
	var text string
	if !rows.Next() {
		return now, at, fmt.Errorf("the ledger does not know its lineage: %w", rows.Err())
	}
	if err = rows.Scan(&now.standby, &text, &now.line, &now.foreign); err == nil {
		err = now.seen.server(text)
	}
	if err != nil || at.line == now.line {
		return now, at, err
	}
	if at.line != "" {
		begins, err := tables.Collect(q, func(rows tables.Rows) (xid uint64, err error) { return xid, rows.Scan(&xid) }, lineageQuery, at.line)
		switch {
		case err != nil:
			return now, at, err
		case len(begins) == 0:
			at = place{seen: beginning}
		default:
			at = at.from(now.line, begins[0])
		}
	}
	at.line = now.line
	return now, at, nil
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
	var now moment
	err := s.View(ctx, func(q tables.Querier) (err error) {
		now, _, err = current(q, place{})
		return err
	})
	if err == nil && now.standby {
		now.seen, err = s.ended(ctx, beginning)
	}
	return place{line: now.line, seen: now.seen}, err
}

// History returns events in the order of their numbers.
func (s *handle) History(ctx context.Context, q ledger.HistoryQuery) (events []ledger.Event, err error) {
	since, err1 := placeOf(q.Since)
	until, err2 := placeOf(q.Until)
	if err1 != nil || err2 != nil {
		return nil, cmp.Or(err1, err2)
	}
	err = s.View(ctx, func(v tables.Querier) error {
		for _, at := range []*place{&since, &until} {
			if at.line == "" {
				continue
			}
			if _, *at, err = current(v, *at); err != nil {
				return err
			}
		}
		where, args := historyOf(q, since, until)
		events, err = tables.Collect(v, func(rows tables.Rows) (ledger.Event, error) { return tables.ScanEvent(rows) },
			`SELECT `+tables.EventColumns+` FROM events WHERE `+where+` LIMIT ?`, append(args, q.Limit)...)
		return err
	})
	return events, err
}

// historyOf is the condition of what is asked for, and its order.
func historyOf(q ledger.HistoryQuery, since, until place) (where string, args []any) {
	where, args = since.unseen(nil)
	if q.Until != "" {
		var behind string
		behind, args = until.unseen(args)
		where += ` AND NOT (` + behind + `)`
	}
	if q.Before > 0 {
		where, args = where+` AND seq < ?`, append(args, q.Before)
	}
	of, ids := tables.OfOperations(q)
	where, args = where+of, append(args, ids...)
	where += ` ORDER BY seq`
	if q.Newest {
		where += ` DESC`
	}
	return where, args
}

// OutagesSince names the outages that the first events behind the cursor are about.
func (s *handle) OutagesSince(ctx context.Context, after ledger.Cursor, limit int) (ids []string, all bool, err error) {
	at, err := placeOf(after)
	if err != nil {
		return nil, false, err
	}
	n := 0
	err = s.View(ctx, func(q tables.Querier) error {
		concerned := func(at place) tables.Ask {
			where, args := at.unseen(nil)
			return tables.Ask{Query: `
				WITH e AS MATERIALIZED (SELECT operation_id, outage FROM events WHERE ` + where + ` ORDER BY xid, seq LIMIT ?)
				SELECT outage, 0 FROM e WHERE outage <> ''
				UNION SELECT i.id, 0 FROM e JOIN operations o ON o.id = e.operation_id ` + tables.TheirOutages + `
				UNION SELECT '', count(*) FROM e`, Args: append(args, limit+1)}
		}
		if at.line != "" {
			if _, at, err = current(q, at, concerned); err != nil {
				return err
			}
		}
		ask := concerned(at)
		found, err := tables.Collect(q, func(rows tables.Rows) (id string, err error) {
			var events int
			err = rows.Scan(&id, &events)
			n = max(n, events)
			return id, err
		}, ask.Query, ask.Args...)
		ids = slices.DeleteFunc(found, func(id string) bool { return id == "" })
		return err
	})
	return ids, n <= limit, err
}
