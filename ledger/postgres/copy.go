package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/store"
)

// metaCopy marks a copy that is no ledger yet, with the id of what it is a copy of.
const metaCopy = "copy"

// Leave has take copy the ledger while no one writes to it, and says then where it has moved to. Where it
// had moved there before, nothing is done.
func (s *Store) Leave(ctx context.Context, place string, take func(store.Tx) error) error {
	return database{s.handle}.change(ctx, beginAnew, func(t *tx) error {
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		if err := t.script(`SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
			LOCK TABLE indoubt.meta, indoubt.op, indoubt.ev, indoubt.price, indoubt.outage, indoubt.hold IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		meta, err := store.Meta(t)
		if err != nil || meta["moved_to"] == place {
			return err
		}
		if err := take(t); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.script(moved(place))
	})
}

// moved has the database refuse what would change the ledger, and say where it went.
func moved(to string) string {
	quoted := strings.ReplaceAll(to, "'", "''")
	script := `CREATE FUNCTION indoubt.moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = TG_ARGV[0]; END $$; INSERT INTO indoubt.meta VALUES ('moved_to', '` + quoted + `');`
	for _, table := range store.Tables {
		script += fmt.Sprintf(`CREATE TRIGGER aa_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON indoubt.%s
			FOR EACH STATEMENT EXECUTE FUNCTION indoubt.moved('%s: it has moved to %s');`, table, store.Moved, quoted)
	}
	return script
}

// Receive has fill write the ledger id into a database that has none. It is none before Arrive says so, and is
// made anew by the next one. One of another ledger waits there: it may be all that there is of it.
func Receive(ctx context.Context, url string, o Options, id string, fill func(store.Tx) error) error {
	return changed(ctx, url, o, func(t *tx) error {
		there, err := t.alone()
		if err != nil {
			return err
		}
		if there {
			has, err := store.Meta(t)
			if err != nil {
				return err
			}
			switch has[metaCopy] {
			case id:
			case "":
				return ledger.Trouble{Code: "exists", Message: t.address.shown + " has a ledger already", Do: "name a database that has none"}
			default:
				return store.Waits(t.address.shown)
			}
			if err := t.script(`DROP SCHEMA indoubt CASCADE`); err != nil {
				return err
			}
		}
		const tables = `ALTER TABLE indoubt.op %[1]s TRIGGER USER; ALTER TABLE indoubt.ev %[1]s TRIGGER USER;`
		if err := t.script(store.PostgreSQLSchema() + homeSQL + ";" + fmt.Sprintf(tables, "DISABLE")); err != nil {
			return err
		}
		if err := fill(t); err != nil {
			return err
		}
		if err := store.SetMeta(t, "schema", strconv.Itoa(store.Schema)); err != nil {
			return err
		}
		return t.script(fmt.Sprintf(tables, "ENABLE") + `
			INSERT INTO indoubt.meta SELECT '` + metaCopy + `', value FROM indoubt.meta WHERE name = 'id';
			INSERT INTO indoubt.meta VALUES ('` + metaHome + `', indoubt.home()), ('` + metaHomes + `', indoubt.home() || '@1');
			` + numbersOn)
	})
}

// numbersOn has operations and events that are told of next come after those that are here. Neither a copy nor a
// logical replica brings the places of sequences along.
const numbersOn = `SELECT setval('indoubt.op_seq', greatest((SELECT max(seq) FROM indoubt.op) + 1, nextval('indoubt.op_seq')), false),
	setval('indoubt.ev_seq', greatest((SELECT max(seq) FROM indoubt.ev) + 1, nextval('indoubt.ev_seq')), false);`

// Arrive makes a copy of the ledger id the ledger.
func Arrive(ctx context.Context, url string, o Options, id string) error {
	return changed(ctx, url, o, func(t *tx) error {
		meta, err := store.Meta(t)
		switch {
		case err != nil || meta[metaCopy] == "" && meta["id"] == id:
			return err
		case meta[metaCopy] != id:
			return &Error{Foreign, t.address.shown, "the copy was removed meanwhile", "bring back what was copied", nil}
		}
		return t.script(`DELETE FROM indoubt.meta WHERE name = '` + metaCopy + `'`)
	})
}

// changed makes a transaction in a database that may have no ledger.
func changed(ctx context.Context, url string, o Options, change func(*tx) error) error {
	a, err := parse(url)
	if err != nil {
		return err
	}
	h, err := connected(a, o)
	if err != nil {
		return err
	}
	defer h.close()
	h.store = &Store{store.New(database{h}, digestkey.Named(o.KeyFile), o.State), h, nil}
	return database{h}.change(ctx, beginAnew, change)
}
