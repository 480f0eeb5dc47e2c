package postgres

import _ "embed"

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed lineage.sql
	lineageSQL string
	//go:embed rows.sql
	rowsSQL string
	//go:embed guards.sql
	guardsSQL string
	//go:embed derived.sql
	derivedSQL string
	// rolesSQL makes the roles, and lets the guards ask for them. It may run again.
	//go:embed roles.sql
	rolesSQL string
)

// schema makes a new ledger: tables, the views that indoubt reads, guards, and what the
// database derives. It is several statements, for one transaction.
func schema() string { return schemaSQL + rowsSQL + guardsSQL + derivedSQL + lineageSQL }
