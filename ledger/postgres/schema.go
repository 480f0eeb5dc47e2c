package postgres

import _ "embed"

var (
	//go:embed schema.sql
	tables string
	//go:embed rows.sql
	rows string
)

// schema makes a new ledger: tables, and the views that indoubt reads. It is several
// statements, for one transaction.
func schema() string { return tables + rows }
