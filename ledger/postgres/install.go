package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// installing is the name that a process locks while it makes a ledger.
const installing = "indoubt install"

// described is what the table meta says of a ledger.
type described map[string]string

// schema is the version of the ledger's tables.
func (m described) schema() int {
	n, _ := strconv.Atoi(m["schema"])
	return n
}

// has reports whether a name is there.
func (m described) has(name string) bool {
	_, ok := m[name]
	return ok
}

// allowed are the acts that this user may do: each by the privilege on a table that it writes.
const allowed = `(VALUES ('record', 'op', 'INSERT'), ('check', 'lead', 'INSERT'), ('decide', 'ev', 'UPDATE')) of_role (act, writes, may)
	WHERE has_any_column_privilege(to_regclass('indoubt.' || writes), may)`

// describe reads what the database says of its ledger, whether it follows another server,
// and what this user may do: each act by the privilege on the table that it writes. Errors:
// *ledger.MissingError, *Error.
func (s *handle) describe(ctx context.Context) (meta described, err error) {
	err = database{s}.View(ctx, func(tx store.Tx) error {
		meta = described{}
		_, err := store.Collect(tx, func(rows store.Rows) (none struct{}, err error) {
			var name, value string
			err = rows.Scan(&name, &value)
			meta[name] = value
			return none, err
		}, `SELECT name, value FROM indoubt.meta
			UNION ALL SELECT 'standby', '' WHERE pg_is_in_recovery()
			UNION ALL SELECT 'may ' || act, '' FROM `+allowed)
		return err
	})
	if missing := (*ledger.MissingError)(nil); errors.As(err, &missing) {
		return nil, s.absent(ctx, missing)
	}
	if err == nil && meta.has(metaCopy) {
		return nil, &Error{Foreign, s.address.shown, "it is a copy that was cut off", "give the same command again: indoubt copy FROM TO; or name another database", nil}
	}
	if err == nil && (meta["id"] == "" || meta.schema() == 0) {
		return nil, &Error{Foreign, s.address.shown, "it does not say which ledger it is", "", nil}
	}
	if err == nil && meta.schema() == store.Schema {
		err = database{s}.View(ctx, func(tx store.Tx) error {
			var told string
			err := store.One(tx, []any{&told}, `SELECT coalesce((`+successionQuery+`), '')`)
			s.succession.learns(told)
			return err
		})
	}
	return meta, err
}

// absent says why there is no table meta.
func (s *handle) absent(ctx context.Context, missing *ledger.MissingError) error {
	taken := false
	if err := (database{s}).View(ctx, func(tx store.Tx) error {
		return store.One(tx, []any{&taken}, `SELECT to_regnamespace('indoubt') IS NOT NULL`)
	}); err != nil || !taken {
		return missing // the database is
	}
	return &Error{Foreign, s.address.shown, "it has no table meta", "", nil}
}

// install makes the ledger where there is none, in one transaction, one process at a time. A server with a
// standby that forgets what was acknowledged is refused. It is done again where its COMMIT got no answer: what is there is found then.
func (s *handle) install(ctx context.Context) error {
	return database{s}.change(ctx, beginAnew, func(t *tx) error {
		there, err := t.alone()
		if err != nil || there {
			return err // open looks at its schema
		}
		if err := t.script(store.PostgreSQLSchema() + homeSQL); err != nil {
			return err
		}
		now := fmt.Sprint(t.Moment().Wall.UnixMilli())
		for _, is := range [][2]string{{"id", ledger.NewID()}, {"schema", strconv.Itoa(store.Schema)}, {"created", now}} {
			if err := store.SetMeta(t, is[0], is[1]); err != nil {
				return err
			}
		}
		if err := t.script(`INSERT INTO indoubt.meta VALUES ('` + metaHome + `', indoubt.home()), ('` + metaHomes + `', indoubt.home() || '@` + now + `')`); err != nil {
			return err
		}
		return t.refuseForgetting(s.opts)
	})
}

// alone has all others wait that make a ledger or its roles, and reports whether there is one. A
// database that has none, and has its name taken or could not keep every text, is refused.
func (t *tx) alone() (there bool, err error) {
	if _, err := t.ask(`SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)`); err != nil {
		return false, err
	}
	if _, err := t.ask(`SELECT pg_advisory_xact_lock(hashtextextended('` + installing + `', 0))`); err != nil {
		return false, err
	}
	var taken bool
	var encoding string
	err = store.One(t, []any{&there, &taken, &encoding},
		`SELECT to_regclass('indoubt.meta') IS NOT NULL, to_regnamespace('indoubt') IS NOT NULL, current_setting('server_encoding')`)
	switch {
	case err != nil || there:
		return there, err
	case taken:
		return false, &Error{Foreign, t.address.shown, "it has no table meta", "", nil}
	case !strings.EqualFold(encoding, "UTF8"):
		return false, &ledger.MissingError{Ledger: t.address.shown, Why: "the encoding of the database is " + encoding,
			Do: "name a database in UTF-8: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"}
	}
	return false, nil
}

// MakeRoles makes the roles that the database enforces, and says what each may. It may
// run again.
func (s *handle) MakeRoles(ctx context.Context) error {
	return database{s}.change(ctx, beginAnew, func(t *tx) error {
		if _, err := t.alone(); err != nil {
			return err
		}
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		return t.script(store.Roles(rolesSQL))
	})
}
