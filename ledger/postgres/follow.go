package postgres

import (
	"cmp"
	"context"
	"slices"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// eight is a ledger in eight tables on a server. Numbers of events are given before their
// transactions end, so a place in its feed is a snapshot: which transactions had ended.
type eight struct {
	*store.Store
	database
}

// located is where an event is in the feed.
type spot struct {
	xid uint64
	seq int64
}

// Follow returns what came into view after the cursor, in the order of transactions, each
// whole; so a page may be longer than asked for.
func (s eight) Follow(ctx context.Context, after ledger.Cursor, limit int) (events []ledger.Event, next ledger.Cursor, err error) {
	seen, err := snapshotOf(after)
	if err != nil {
		return nil, after, err
	}
	var found []spot
	look := seen
	err = s.View(ctx, func(tx store.Tx) error {
		var text string
		if err := store.One(tx, []any{&text}, `SELECT CAST(pg_current_snapshot() AS text)`); err != nil {
			return err
		}
		if err := look.server(text); err != nil {
			return err
		}
		where, args := seen.behind(nil)
		ask := func(more string, args ...any) (spots []spot, err error) {
			return store.Collect(tx, func(rows store.Rows) (at spot, err error) {
				var xid int64
				err = rows.Scan(&xid, &at.seq)
				at.xid = uint64(xid)
				return at, err
			}, `SELECT CAST(CAST(e.xid AS text) AS bigint), e.seq FROM ev e WHERE `+where+` AND e.verb <> 'look'`+more, args...)
		}
		var err error
		if found, err = ask(` ORDER BY e.xid, e.seq LIMIT ?`, append(args, limit+1)...); err != nil || len(found) <= limit {
			return err
		}
		cut := found[limit].xid
		if found = slices.DeleteFunc(found, func(at spot) bool { return at.xid == cut }); len(found) == 0 {
			found, err = ask(` AND e.xid = CAST(? AS xid8)`, append(args, decimal(cut))...)
			cut++
		}
		look = seen.until(cut, look)
		return err
	})
	if err != nil || len(found) == 0 {
		return nil, look.place(), err
	}
	where, args := ``, []any{}
	for _, at := range found {
		where, args = where+`, ?`, append(args, at.seq)
	}
	events, err = s.Events(ctx, ledger.HistoryQuery{Limit: len(found)}, `e.seq IN (`+where[2:]+`)`, args...)
	return events, look.place(), err
}

// History returns events in the order of their numbers.
func (s eight) History(ctx context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	since, err1 := snapshotOf(q.Since)
	until, err2 := snapshotOf(q.Until)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	where, args := since.behind(nil)
	if q.Until != "" {
		var behind string
		behind, args = until.behind(args)
		where += ` AND NOT (` + behind + `)`
	}
	return s.Events(ctx, q, where, args...)
}

// OutagesSince names the outages that the first events behind the cursor are about.
func (s eight) OutagesSince(ctx context.Context, after ledger.Cursor, limit int) (ids []string, all bool, err error) {
	events, _, err := s.Follow(ctx, after, limit+1)
	if err != nil {
		return nil, false, err
	}
	ids, err = s.Concerned(ctx, events[:min(limit, len(events))])
	return ids, len(events) <= limit, err
}

// Info describes the ledger.
func (s eight) Info(ctx context.Context) (ledger.Info, error) {
	info, err := s.Store.Info(ctx)
	if err == nil {
		err = s.View(ctx, func(tx store.Tx) error {
			var text string
			var now snapshot
			err := store.One(tx, []any{&text}, `SELECT CAST(pg_current_snapshot() AS text)`)
			if err == nil {
				err = now.server(text)
			}
			info.Cursor = now.place()
			return err
		})
	}
	return info, err
}

// Close ends it.
func (s eight) Close() error { return s.Store.Close() }

// Watch is the handle's.
func (s eight) Watch(ctx context.Context) <-chan struct{} { return s.database.Watch(ctx) }
