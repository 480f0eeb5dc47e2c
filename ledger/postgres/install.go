package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// installing is the name that a process locks while it makes a ledger.
const installing = "indoubt install"

// timeouts are the settings that end a statement which takes long.
var timeouts = []string{"statement_timeout", "lock_timeout"}

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

// describe reads what the database says of its ledger, whether it follows another server,
// and what this user may do: each act by the privilege on the table that it writes. Errors:
// *ledger.MissingError, *Error.
func (s *handle) describe(ctx context.Context) (described, error) {
	before := s.steady()
	meta, err := readMeta(func(query string) (tables.Rows, error) { return s.Query(ctx, query) })
	if now, bad := strconv.ParseInt(meta["now"], 10, 64); bad == nil {
		s.memory.tells(s.at(now, before), s.steady())
	}
	if missing := (*ledger.MissingError)(nil); errors.As(err, &missing) {
		return nil, s.absent(ctx, missing)
	}
	if said := (*pgconn.PgError)(nil); errors.As(err, &said) && said.Code == codeNoFunction { // the last that a copy gets
		return nil, &Error{Foreign, s.address.shown, "it is a copy that was cut off", "give the same command again: indoubt copy FROM TO; or name another database", nil}
	}
	s.succession.learns(meta["lineages"])
	if err == nil && (meta["id"] == "" || meta.schema() == 0) {
		err = &Error{Foreign, s.address.shown, "it does not say which ledger it is", "", nil}
	}
	return meta, err
}

// allowed are the acts that this user may do: each by the privilege on a table that it writes.
const allowed = `(VALUES ('record', 'operations'), ('check', 'reads'), ('decide', 'holds')) of_role (act, writes) WHERE has_table_privilege('indoubt.' || writes, 'INSERT')`

func readMeta(query func(string) (tables.Rows, error)) (described, error) {
	rows, err := query(`
		SELECT name, value FROM indoubt.meta
		UNION ALL SELECT 'clock.gap_at', g::text FROM indoubt.gap_at() g WHERE g > 0
		UNION ALL SELECT 'lineages', (` + successionQuery + `)
		UNION ALL SELECT 'now', (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text
		UNION ALL SELECT 'standby', '' WHERE pg_is_in_recovery()
		UNION ALL SELECT 'may ' || act, '' FROM ` + allowed)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	meta := described{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		meta[name] = value
	}
	return meta, rows.Err()
}

// absent says why there is no table meta.
func (s *handle) absent(ctx context.Context, missing *ledger.MissingError) error {
	rows, err := s.Query(ctx, `SELECT 1 WHERE to_regnamespace('indoubt') IS NOT NULL`)
	if err != nil {
		return missing // the database is
	}
	defer rows.Close()
	if rows.Next() {
		return &Error{Foreign, s.address.shown, "it has no table meta", "", nil}
	}
	return missing
}

// install makes the ledger where there is none, in one transaction, one process at a time.
// It is done again where its COMMIT got no answer: what is there is found then.
func (s *handle) install(ctx context.Context) error {
	return s.inOne(ctx, s.build)
}

// MakeRoles makes the roles that the database enforces, and says what each may. It may
// run again.
func (s *handle) MakeRoles(ctx context.Context) error {
	return s.inOne(ctx, func(t *session) error {
		if err := t.Lock(installing); err != nil {
			return err
		}
		if err := owned(t, s.address.shown); err != nil {
			return err
		}
		return t.script(rolesSQL)
	})
}

// inOne makes one transaction that may be made again.
func (s *handle) inOne(ctx context.Context, build func(*session) error) error {
	return s.again(ctx, func() error {
		t := s.session(ctx, beginWrite, 0)
		if err := first(t, build(t)); err != nil {
			t.end()
			return err
		}
		err := t.commit()
		if lost := (*lostCommit)(nil); errors.As(err, &lost) {
			return errAgain
		}
		return err
	})
}

// standing reports whether there is a ledger, and whether there is a schema of its name. A
// database that has neither, and could not keep every text, is refused.
func standing(t *session) (there, taken bool, err error) {
	rows, err := t.query(`SELECT to_regclass('indoubt.meta') IS NOT NULL, to_regnamespace('indoubt') IS NOT NULL, current_setting('server_encoding')`, nil)
	if err != nil {
		return false, false, err
	}
	rows.Next()
	var encoding string
	err = rows.Scan(&there, &taken, &encoding)
	if err == nil && !taken && encoding != "UTF8" {
		err = &ledger.MissingError{Ledger: t.store.address.shown, Why: "the encoding of the database is " + encoding, Do: "name a database in UTF-8: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'"}
	}
	return there, taken, err
}

func (s *handle) build(t *session) error {
	// Others wait for the whole of it.
	for _, name := range timeouts {
		if err := t.Quietly(`SELECT set_config('` + name + `', '0', true)`); err != nil {
			return err
		}
	}
	if err := t.Lock(installing); err != nil {
		return err
	}
	there, taken, err := standing(t)
	if err != nil {
		return err
	}
	switch {
	case there:
		return nil // open looks at its schema
	case taken:
		return &Error{Foreign, s.address.shown, "it has no table meta", "", nil}
	}
	if err := t.script(schema()); err != nil {
		return fmt.Errorf("make the ledger: %w", err)
	}
	for name, value := range map[string]string{
		"id": ledger.NewID(), "schema": strconv.Itoa(tables.Schema), "created_at": fmt.Sprint(t.Moment().Wall.UnixMilli()),
	} {
		if err := t.Later(`INSERT INTO meta (name, value) VALUES (?, ?)`, name, value); err != nil {
			return err
		}
	}
	return nil
}

// script runs several statements without values.
func (s *session) script(sql string) error {
	s.wrote = true
	if err := s.flush(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Minute)
	defer cancel()
	s.err = s.link.conn.Exec(ctx, sql).Close()
	return s.store.Translate(s.err)
}
