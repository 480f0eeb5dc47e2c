package postgres

import (
	"cmp"
	"context"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/store"
)

// Store is a ledger in a PostgreSQL database: what is asked of it.
type Store struct {
	*store.Store
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
	h, err := connected(a, o)
	if err != nil {
		return nil, err
	}
	s := &Store{store.New(database{h}, digestkey.Named(o.KeyFile), o.State), h, nil}
	h.store = s
	if prepare != nil {
		err = prepare(h)
	}
	if err == nil {
		s.meta, err = h.describe(ctx)
	}
	s.Enter(s.meta["id"])
	wanted := cmp.Or(o.To, Record)
	switch has := s.meta.schema(); {
	case err != nil:
	case has != store.Schema:
		err = &ledger.SchemaError{Ledger: a.shown, Has: has, Knows: store.Schema}
	case o.ReadOnly:
	case s.meta["moved_to"] != "":
		err = &ledger.AwayError{Ledger: a.shown, To: s.meta["moved_to"]}
	case s.meta.has("standby"):
		err = &Error{Standby, a.shown, "it follows another server", "", nil}
	case !s.meta.has("may " + wanted):
		err = &Error{Looker, a.shown, "it may not " + wanted, lacking(a.shown, []string{roleOf[wanted]}), nil}
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return s, nil
}

// absentStandby names the standbys that a commit waits for while none is connected, else "".
const absentStandby = `CASE WHEN NOT pg_is_in_recovery() AND current_setting('synchronous_commit') <> 'local' AND NOT EXISTS (SELECT FROM pg_stat_replication)
	THEN current_setting('synchronous_standby_names') ELSE '' END`

const infoQuery = `SELECT pg_is_in_recovery(), coalesce((` + successionQuery + `), ''), ` + absentStandby + `,
	coalesce((SELECT string_agg(act, ' ') FROM ` + allowed + `), ''),
	coalesce((SELECT value FROM indoubt.meta WHERE name = 'home'), '') = coalesce(indoubt.home(), (SELECT value FROM indoubt.meta WHERE name = 'home'), ''),
	coalesce((SELECT at FROM indoubt.ev WHERE op = 0 AND id = indoubt.home()), 0),
	coalesce((SELECT at FROM indoubt.ev WHERE seq < coalesce((SELECT seq FROM indoubt.ev WHERE op = 0 AND id = indoubt.home()), 9223372036854775807) ORDER BY seq DESC LIMIT 1), 0)`

// Info describes the ledger.
func (s *Store) Info(ctx context.Context) (i ledger.Info, err error) {
	noted := true
	err = database{s.handle}.View(ctx, func(tx store.Tx) (err error) {
		store.Ahead(tx, infoQuery)
		lacks := s.Lacking(tx)
		if i, err = store.Describe(tx); err != nil {
			return err
		}
		i.Path, i.Schema, i.ReadOnly = s.address.shown, s.meta.schema(), s.opts.ReadOnly
		i.Parallel = int(s.pool.Load().Config().MaxConns)
		var told, standbys, may string
		var standby, home bool
		var at, known int64
		if err := store.One(tx, []any{&standby, &told, &standbys, &may, &home, &at, &known}, infoQuery); err != nil {
			return err
		}
		s.succession.learns(told)
		i.Promoted = !standby && s.meta.has("standby")
		i.Strained = strained(s.full.Load(), standbys)
		i.ReadOnly = i.ReadOnly || i.MovedTo != "" || !strings.Contains(may, cmp.Or(s.opts.To, Record))
		if noted = home || at != 0; !home {
			i.Failover.At = tx.Moment().Wall
			if at != 0 {
				i.Failover.At = time.UnixMilli(at).UTC()
			}
			i.Failover.Missing = max(0, i.Failover.At.Sub(time.UnixMilli(known)))
		}
		if home && i.Lacks == "" && !s.meta.has("standby") { // held for no one yet; a standby may come later
			i.Lacks, err = lacks()
		}
		return err
	})
	if err == nil {
		i.Cursor, err = s.here(ctx)
	}
	if !noted && s.Writable() == nil {
		s.note()
	}
	return i, err
}

// strained says what a person must do about the server, as Info does.
func strained(full bool, standbys string) string {
	switch {
	case full:
		return "SERVER DISK FULL: nothing is recorded until there is room"
	case standbys != "":
		return "NO STANDBY: nothing is recorded until one is back (" + standbys + ")"
	}
	return ""
}
