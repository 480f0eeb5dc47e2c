package sqlite

import (
	_ "embed"
	"strings"

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
		"{insert from open_source s}", tables.ListNew)
}
