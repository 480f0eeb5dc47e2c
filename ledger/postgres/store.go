package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Store is a ledger in a PostgreSQL database: what is asked of it.
type Store struct {
	*tables.Store
	*handle
	meta described
}

var _ ledger.Store = (*Store)(nil)

// Create opens the ledger at the address for writing, and makes one in a database that
// has none. Errors: those of Open.
func Create(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o, func(s *handle) error { return s.install(ctx) })
}

// Open opens the ledger at the address, and refuses a database that has none. Errors:
// *ledger.MissingError, *ledger.SchemaError, *Error, and
// ledger.ErrBusy for a server that takes no more connections.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	return open(ctx, url, o, nil)
}

func open(ctx context.Context, url string, o Options, prepare func(*handle) error) (*Store, error) {
	a, err := parse(url)
	if err != nil {
		return nil, err
	}
	s, err := connected(a, o)
	if err != nil {
		return nil, err
	}
	if prepare != nil {
		err = prepare(s)
	}
	var meta described
	if err == nil {
		meta, err = s.describe(ctx)
	}
	wanted := cmp.Or(o.To, Record)
	switch has := meta.schema(); {
	case err != nil:
	case has != tables.Schema:
		err = &ledger.SchemaError{Ledger: a.shown, Has: has, Knows: tables.Schema}
	case o.ReadOnly:
	case tables.MovedTo(meta[tables.MetaMove]) != "":
		err = &ledger.AwayError{Ledger: a.shown, To: tables.MovedTo(meta[tables.MetaMove])}
	case meta.has("standby"):
		err = &Error{Standby, a.shown, "it follows another server", "", nil}
	case !meta.has("may " + wanted):
		err = &Error{Looker, a.shown, "it may not " + wanted, lacking(a.shown, []string{roleOf[wanted]}), nil}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return &Store{tables.New(s), s, meta}, nil
}

// Close ends the store. Changes already begun are finished first.
func (s *Store) Close() error {
	s.close()
	return nil
}

const infoQuery = `
	SELECT coalesce((SELECT seq FROM events ORDER BY seq DESC LIMIT 1), 0),
	       coalesce((SELECT at FROM events ORDER BY seq DESC LIMIT 1), 0),
	       coalesce((SELECT at FROM events WHERE from_state = 'pending' AND to_state = 'uncertain' ORDER BY seq DESC LIMIT 1), 0),
	       coalesce((SELECT source FROM operations ORDER BY seq DESC LIMIT 1), ''),
	       coalesce((SELECT max(until) FROM lead), 0),
	       coalesce((SELECT value FROM meta WHERE name = 'clock.stepped_at'), ''),
	       coalesce((SELECT value FROM meta WHERE name = 'clock.step_ms'), '0'), coalesce(nullif(f.at, 0), CASE WHEN NOT f.noted THEN indoubt.ms(clock_timestamp()) END, 0), coalesce(f.missing_ms, 0), coalesce(f.noted, TRUE),
	       (` + successionQuery + `), ` + absentStandby + `, coalesce((SELECT value FROM meta WHERE name = 'move'), ''), coalesce((SELECT string_agg(act, ' ') FROM ` + allowed + `), '')
	  FROM (SELECT 1) ledger LEFT JOIN indoubt.failed_over() f ON TRUE`

// Info describes the ledger.
func (s *Store) Info(ctx context.Context) (ledger.Info, error) {
	i := ledger.Info{ID: s.meta["id"], Path: s.address.shown, Schema: s.meta.schema(), CreatedAt: timeOf(s.meta["created_at"]), Parallel: int(s.pool.Load().Config().MaxConns), ReadOnly: s.opts.ReadOnly}
	here, noted := place{}, true
	err := s.View(ctx, func(q tables.Querier) error {
		now, _, err := current(q, here, func(place) tables.Ask { return tables.Ask{Query: infoQuery} })
		if err != nil {
			return err
		}
		if here.line = now.line; !now.standby {
			here.seen = now.seen
		}
		i.Promoted = !now.standby && s.meta.has("standby")
		rows, err := q.Query(infoQuery)
		if err != nil {
			return err
		}
		defer rows.Close()
		var write, failed, engine, stepped, step, over, told, standbys, move, may string
		var missing int64
		rows.Next()
		if err := rows.Scan(&i.LastSeq, &write, &failed, &i.LastBy, &engine, &stepped, &step, &over, &missing, &noted, &told, &standbys, &move, &may); err != nil {
			return err
		}
		s.succession.learns(told)
		i.Strained = strained(s.full.Load(), standbys)
		i.MovedTo = tables.MovedTo(move)
		i.ReadOnly = i.ReadOnly || i.MovedTo != "" || !strings.Contains(may, cmp.Or(s.opts.To, Record))
		i.Failover = ledger.Failover{At: timeOf(over), Missing: time.Duration(missing) * time.Millisecond}
		i.LastWrite, i.LastError, i.EngineAt, i.SteppedAt = timeOf(write), timeOf(failed), timeOf(engine), timeOf(stepped)
		i.Step, err = time.ParseDuration(step + "ms")
		if err != nil {
			return fmt.Errorf("meta says that the clock was set by %q: %w", step, err)
		}
		return nil
	})
	if err == nil && here.seen.max == 0 {
		here, err = s.here(ctx)
	}
	if i.Cursor = here.cursor(); !noted && s.Writable() == nil {
		s.note()
	}
	return i, err
}

func timeOf(ms string) time.Time {
	n, _ := strconv.ParseInt(ms, 10, 64)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
