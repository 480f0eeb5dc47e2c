package postgres

import (
	"cmp"
	"strings"

	"github.com/jackc/pgx/v5"

	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/store"
)

// What a user of the database may do here is one of these acts, and a role's.
const (
	Record = "record"
	Check  = "check"
	Decide = "decide"
)

// rolesAnew is what helps where a role is gone that the guards ask for.
const rolesAnew = "have the ledger's owner make the roles again: indoubt init --roles"

var roleOf = map[string]string{Record: "indoubt_writer", Check: "indoubt_engine", Decide: "indoubt_operator"}

var (
	roleName = lazyregexp.New(`indoubt_(?:reader|writer|engine|operator)`)
	denial   = lazyregexp.New(`^permission denied for (?:schema|table|view) "?(\w+)`)
	plain    = lazyregexp.New(`^[a-z_][a-z0-9_]*$`)
)

// rolesIn are the roles that a refusal of the guards names.
func rolesIn(message string) (roles []string) {
	for _, m := range roleName.FindAllStringSubmatch(message, -1) {
		roles = append(roles, m[0])
	}
	return roles
}

// writerOf is the least role that writes a table; the others write nothing that all may not.
var writerOf = map[string]string{
	"op": "indoubt_writer", "ev": "indoubt_writer", "price": "indoubt_writer", "intent": "indoubt_writer", "settle": "indoubt_writer",
	"total": "indoubt_engine", "lead": "indoubt_engine", "outage": "indoubt_engine", "hold": "indoubt_operator",
}

// roleFor is the least role that has what PostgreSQL refuses, which says of what, and not
// what was to be done with it: what a role writes was to be written.
func roleFor(message string) []string {
	m := denial.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	return []string{cmp.Or(writerOf[m[1]], "indoubt_reader")}
}

// owned refuses one who does not own the ledger what only its owner may.
func owned(tx store.Tx, shown string) error {
	var owner string
	var may bool
	err := store.One(tx, []any{&owner, &may}, `SELECT pg_get_userbyid(nspowner), pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'indoubt'`)
	if err != nil || may {
		return err
	}
	return &Error{Permission, shown, "it is not " + owner + ", who owns the ledger", "give the same command as " + owner, nil}
}

// lacking says which role a user lacks, and how it is given.
func lacking(shown string, roles []string) string {
	if len(roles) == 0 {
		return ""
	}
	_, user, _ := strings.Cut(shown, "://")
	user, _, _ = strings.Cut(user, "@")
	if !plain.MatchString(user) {
		user = pgx.Identifier{user}.Sanitize()
	}
	return "it needs " + strings.Join(roles, " or ") + ": the ledger's owner gives it with GRANT " + roles[0] + " TO " + user + "; if " + user + " has it already, " + rolesAnew
}
