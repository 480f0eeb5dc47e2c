package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// Copied is what a copy has done.
type Copied struct {
	Pending int64             // in flight
	Rows    int64             // copied
	Digests map[string]string // of the tables, the same on both sides
}

// Copying are the tables that are copied. What is summed up is made anew, and so are those who lead.
var Copying = []string{"op", "ev", "price", "outage", "hold"}

const inFlight = `SELECT count(*) FROM op WHERE state = 'pending' AND deadline_at >= ?`

// metaCopy marks a copy that is no ledger yet, with the id of what it is a copy of.
const metaCopy = "copy"

// still is what a copy is made of: nothing changes while it is made. It gives the rows of each table.
func still(t *tx) (rows map[string]int64, pending int64, err error) {
	if err := t.script(`SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
		LOCK TABLE indoubt.meta, indoubt.op, indoubt.ev, indoubt.price, indoubt.outage, indoubt.hold IN SHARE ROW EXCLUSIVE MODE`); err != nil {
		return nil, 0, err
	}
	rows = map[string]int64{}
	for _, table := range Copying {
		var n int64
		if err := store.One(t, []any{&n}, `SELECT count(*) FROM `+table); err != nil {
			return nil, 0, err
		}
		rows[table] = n
	}
	err = store.One(t, []any{&pending}, inFlight, t.Moment().Wall.UnixMilli())
	return rows, pending, err
}

// Count is what a copy would do.
func (s *Store) Count(ctx context.Context) (done Copied, err error) {
	err = database{s.handle}.View(ctx, func(tx store.Tx) error {
		done = Copied{}
		for _, table := range Copying {
			var n int64
			if err := store.One(tx, []any{&n}, `SELECT count(*) FROM `+table); err != nil {
				return err
			}
			done.Rows += n
		}
		return store.One(tx, []any{&done.Pending}, inFlight, tx.Moment().Wall.UnixMilli())
	})
	return done, err
}

// Copy makes the ledger one in another database, and has this one say where it went. No one writes
// here meanwhile, and the copy is a ledger only when that is said here: killed at any point, there is one
// ledger, and the same command ends it.
func (s *Store) Copy(ctx context.Context, url string, o Options, progress func(table string, n, of int, rows int64)) (done Copied, err error) {
	a, err := parse(url)
	if err != nil {
		return done, err
	}
	h, err := connected(a, o)
	if err != nil {
		return done, err
	}
	defer h.close()
	h.store = &Store{store.New(database{h}, nil), h, nil}
	to := database{h}
	err = database{s.handle}.change(ctx, beginAnew, func(t *tx) error {
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		rows, pending, err := still(t)
		if err != nil {
			return err
		}
		meta, err := store.Meta(t)
		if err != nil || meta["moved_to"] == a.shown {
			return err
		}
		if done.Pending = pending; pending > 0 {
			return ledger.Trouble{Code: "in_progress", Message: fmt.Sprintf("%d operations are in flight", pending), Do: "copy it when they have ended"}
		}
		if err := to.change(ctx, beginAnew, func(c *tx) (err error) {
			done.Rows, done.Digests, err = filled(c, t, meta, rows, progress)
			return err
		}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.script(moved(a.shown))
	})
	if err != nil {
		return done, err
	}
	return done, to.change(context.WithoutCancel(ctx), beginAnew, func(c *tx) error {
		meta, err := store.Meta(c)
		if err != nil {
			return err
		}
		if meta[metaCopy] != s.meta["id"] {
			if meta["id"] == s.meta["id"] {
				return nil
			}
			return &Error{Foreign, a.shown, "the copy was removed meanwhile", "bring back what " + s.address.shown + " was copied to", nil}
		}
		return c.script(`DELETE FROM indoubt.meta WHERE name = '` + metaCopy + `'`)
	})
}

// moved has the database refuse what would change the ledger, and say where it went.
func moved(to string) string {
	quoted := strings.ReplaceAll(to, "'", "''")
	script := `CREATE FUNCTION indoubt.moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = TG_ARGV[0]; END $$; INSERT INTO indoubt.meta VALUES ('moved_to', '` + quoted + `');`
	for _, table := range append([]string{"meta", "total", "lead"}, Copying...) {
		script += fmt.Sprintf("CREATE TRIGGER aa_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON indoubt.%s FOR EACH STATEMENT EXECUTE FUNCTION indoubt.moved('%s: it has moved to %s');",
			table, store.Moved, quoted)
	}
	return script
}

// filled makes the copy c of the ledger that t reads, as one that is none yet.
func filled(c, t *tx, meta map[string]string, rows map[string]int64, progress func(string, int, int, int64)) (all int64, digests map[string]string, err error) {
	there, err := c.alone()
	if err != nil {
		return 0, nil, err
	}
	if there {
		has, err := store.Meta(c)
		if err != nil {
			return 0, nil, err
		}
		if has[metaCopy] == "" {
			return 0, nil, ledger.Trouble{Code: "exists", Message: c.address.shown + " has a ledger already", Do: "name a database that has none"}
		}
		if err := c.script(`DROP SCHEMA indoubt CASCADE`); err != nil {
			return 0, nil, err
		}
	}
	if err := c.script(store.PostgreSQLSchema() + homeSQL + `; ALTER TABLE indoubt.op DISABLE TRIGGER USER; ALTER TABLE indoubt.ev DISABLE TRIGGER USER`); err != nil {
		return 0, nil, err
	}
	digests = map[string]string{}
	for i, table := range Copying {
		if err := piped(t, c, table); err != nil {
			return 0, nil, fmt.Errorf("copy %s: %w", table, err)
		}
		all += rows[table]
		progress(table, i+1, len(Copying), all)
		was, err1 := digest(t, table)
		is, err2 := digest(c, table)
		if err := errors.Join(err1, err2); err != nil {
			return 0, nil, err
		}
		if was != is {
			return 0, nil, fmt.Errorf("%s is not the same in the copy", table)
		}
		digests[table] = is
	}
	known := map[string]string{"schema": strconv.Itoa(store.Schema), metaCopy: meta["id"]}
	for name, text := range meta {
		if name != metaHome && name != metaHomes {
			known[name] = text
		}
	}
	for name, text := range known {
		if err := store.SetMeta(c, name, text); err != nil {
			return 0, nil, err
		}
	}
	return all, digests, c.script(`ALTER TABLE indoubt.op ENABLE TRIGGER USER; ALTER TABLE indoubt.ev ENABLE TRIGGER USER;
		INSERT INTO indoubt.meta VALUES ('` + metaHome + `', indoubt.home()), ('` + metaHomes + `', indoubt.home() || '@1');
		SELECT setval('indoubt.op_seq', coalesce((SELECT max(seq) FROM indoubt.op), 0) + 1, false), setval('indoubt.ev_seq', coalesce((SELECT max(seq) FROM indoubt.ev), 0) + 1, false)`)
}

// columns are those of a table that are copied. Where an event is in the feed is another in each database.
func columns(t *tx, table string) (names string, err error) {
	err = store.One(t, []any{&names}, `SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped AND attname <> 'place'`, "indoubt."+table)
	return names, err
}

// piped copies a table.
func piped(from, to *tx, table string) error {
	names, err := columns(from, table)
	if err != nil {
		return err
	}
	from.wrote, to.wrote = true, true
	r, w := io.Pipe()
	go func() {
		_, err := from.pooled.Conn().PgConn().CopyTo(from.ctx, w, `COPY (SELECT `+names+` FROM indoubt.`+table+`) TO STDOUT`)
		_ = w.CloseWithError(err)
	}()
	_, err = to.pooled.Conn().PgConn().CopyFrom(to.ctx, r, `COPY indoubt.`+table+` (`+names+`) FROM STDIN`)
	_ = r.Close()
	return err
}

// digest is one of the rows of a table.
func digest(t *tx, table string) (is string, err error) {
	names, err := columns(t, table)
	if err == nil {
		err = store.One(t, []any{&is}, `SELECT concat(count(*), '.', sum(hashtextextended(CAST(ROW(`+names+`) AS text), 0))) FROM `+table)
	}
	return is, err
}
