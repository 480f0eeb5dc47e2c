package sqlite

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// A new ledger gets tables and guards as they are now.
var (
	//go:embed schema.sql
	schema string
	//go:embed guards.sql
	refusals string
	//go:embed derived.sql
	derivations string
)

// guards are the triggers and views of a new ledger. No other opening makes them.
func guards() string { return refusals + withColumns().Replace(derivations) }

// withColumns fills the columns of the list into derived.sql.
func withColumns() *strings.Replacer {
	return strings.NewReplacer("o.*", tables.ListedColumns("o."), "s.*", tables.ListColumns("s."), "NEW.*", tables.ListColumns("NEW."), "OLD.*", tables.ListColumns("OLD."),
		"{columns}", tables.ListColumns(""), "{listed}", tables.ListedColumns(""),
		"{search of NEW}", tables.SearchOf("NEW"), "{search of open_operations}", tables.SearchOf("open_operations"),
		"{insert from open_source s}", tables.ListNew, "{insert member from incident_source s}", tables.MemberNew,
		"{add NEW to incident_sums}", tables.Summed("+", "NEW"), "{take OLD from incident_sums}", tables.Summed("-", "OLD"))
}

// steps lead from schema 1 to the newest. They run without guards: triggers and views hold
// no data, so a migration drops them all and makes the newest ones.
var steps []tables.Step

// migrate runs the steps that an old ledger lacks, all in one transaction: a ledger is
// never between two schemas.
func (tx *tx) migrate(steps []tables.Step) error {
	s, newest := tx.w.store, tables.Newest(steps)
	var app, has int
	if err := tx.w.conn.QueryRowContext(context.Background(), `SELECT application_id, user_version FROM pragma_application_id, pragma_user_version`).Scan(&app, &has); err != nil {
		return err
	}
	switch {
	case app == applicationID && has == newest:
		return nil
	case has > newest: // migrated since it was looked at
		return &ledger.NewerError{Ledger: s.path, Has: has, Knows: newest}
	}
	if err := tx.climb(steps, has); err != nil {
		return fmt.Errorf("bring the ledger from schema %d to %d: %w", has, newest, translate(s.path, err))
	}
	return tx.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, newest))
}

// climb runs the steps above a schema.
func (tx *tx) climb(steps []tables.Step, has int) error {
	drops, err := tables.Collect(tx, func(rows tables.Rows) (drop string, err error) { return drop, rows.Scan(&drop) },
		`SELECT 'DROP ' || type || ' ' || name FROM sqlite_schema WHERE type IN ('trigger', 'view') AND name NOT GLOB 'moving_*'`)
	if err != nil {
		return err
	}
	for _, drop := range drops {
		if err := tx.script(drop); err != nil {
			return err
		}
	}
	for _, st := range steps {
		if st.Version > has {
			if err := tx.script(st.SQL); err != nil {
				return err
			}
		}
	}
	return tx.script(guards())
}
