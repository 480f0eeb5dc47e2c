package postgres

import _ "embed"

// rolesSQL makes the roles, and lets the guards ask for them. It may run again.
//
//go:embed roles.sql
var rolesSQL string
