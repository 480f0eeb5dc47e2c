package postgres

import _ "embed"

// rolesSQL makes the roles, and says what the guards ask for beside. It may run again.
//
//go:embed roles.sql
var rolesSQL string
