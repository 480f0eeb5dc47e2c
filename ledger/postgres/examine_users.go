package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/store"
)

// usersQuery is one row for each thing that is wrong with users of the database and their
// roles: the kind, what it is, and the statement that mends it. The privileges of roles are
// its argument; * is every table.
const usersQuery = `
	WITH guarded AS (SELECT name FROM unnest(ARRAY['indoubt_reader', 'indoubt_writer', 'indoubt_engine', 'indoubt_operator']) name
	                  WHERE (SELECT prosrc LIKE '%pg_has_role%' FROM pg_proc WHERE oid = to_regprocedure('indoubt.op_refuse_insert()'))),
	     known AS (SELECT name FROM guarded WHERE to_regrole(name) IS NOT NULL),
	     given AS (SELECT name, act, thing, of_column FROM json_to_recordset(CAST(? AS json)) AS g (role text, act text, thing text, of_column text) JOIN known ON name = role)
	SELECT CASE name WHEN 'synchronous_commit' THEN 'commits' ELSE 'guards' END AS kind, concat_ws(' in ', 'role ' || r.rolname, 'database ' || d.datname) AS what,
	       CASE WHEN r.rolname IS NULL THEN 'ALTER DATABASE ' || quote_ident(d.datname) ELSE concat_ws(' IN DATABASE ', 'ALTER ROLE ' || quote_ident(r.rolname), quote_ident(d.datname)) END
	       || ' RESET ' || name AS mend
	  FROM (VALUES ('synchronous_commit', 'off'), ('session_replication_role', 'replica')) harm (name, value), pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase
	 WHERE (s.setdatabase = 0 OR d.datname = current_database()) AND (s.setrole = 0 OR r.rolname IS NOT NULL)
	   AND EXISTS (SELECT FROM unnest(s.setconfig) c WHERE lower(c) = name || '=' || value)
	UNION ALL SELECT 'off', format('trigger %s of indoubt.%s', tgname, relname), format('ALTER TABLE indoubt.%I ENABLE TRIGGER %I', relname, tgname)
	  FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'indoubt'::regnamespace AND tgenabled IN ('D', 'R') AND NOT tgisinternal
	UNION ALL SELECT 'hidden', 'indoubt.' || relname, format('ALTER TABLE indoubt.%I DISABLE ROW LEVEL SECURITY', relname)
	  FROM pg_class WHERE relnamespace = 'indoubt'::regnamespace AND relrowsecurity
	UNION ALL SELECT 'gone', name, '' FROM guarded WHERE to_regrole(name) IS NULL AND name <> 'indoubt_reader'
	UNION ALL SELECT 'idle', r.rolname || ' was given ' || name, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'ALTER ROLE ' || quote_ident(r.rolname) || ' INHERIT'
	                                                             ELSE 'GRANT ' || name || ' TO ' || quote_ident(r.rolname) || ' WITH INHERIT TRUE' END
	  FROM known JOIN pg_roles r ON r.rolcanlogin AND pg_has_role(r.oid, to_regrole(name), 'MEMBER') AND NOT pg_has_role(r.oid, to_regrole(name), 'USAGE')
	UNION ALL SELECT 'revoked', name || ' may no longer ' || act || ' ' || thing, '' FROM given WHERE thing <> '*' AND NOT CASE
	       WHEN act = 'USAGE'    THEN has_schema_privilege(to_regrole(name), thing, act)
	       WHEN act = 'EXECUTE'  THEN has_function_privilege(to_regrole(name), thing, act)
	       WHEN of_column <> ''  THEN has_column_privilege(to_regrole(name), thing, of_column, act)
	       ELSE has_table_privilege(to_regrole(name), thing, act) END
	UNION ALL SELECT 'revoked', name || ' may no longer ' || act || ' ' || c.oid::regclass, '' FROM given, pg_class c
	 WHERE thing = '*' AND c.relnamespace = 'indoubt'::regnamespace AND c.relkind IN ('r', 'v') AND NOT has_table_privilege(to_regrole(name), c.oid, act)
	ORDER BY 1, 2`

// given is a privilege that roles.sql gives.
type given struct {
	Role     string `json:"role"`
	Act      string `json:"act"`
	Thing    string `json:"thing"`
	OfColumn string `json:"of_column"`
}

var giving = lazyregexp.New(`(?m)^GRANT ([A-Z, ]+?)(?: \(([a-z_, ]+)\))? ON (?:SCHEMA |FUNCTION )?(.+?)\s+TO ([a-z_, ]+);`)

// rights are the privileges that roles.sql gives.
func rights() (all []given) {
	for _, m := range giving.FindAllStringSubmatch(rolesSQL, -1) {
		if strings.HasPrefix(m[3], "ALL SEQUENCES") {
			continue
		}
		things := strings.Split(m[3], ", ")
		if strings.HasPrefix(m[3], "ALL TABLES") {
			things = []string{"*"}
		}
		for _, act := range strings.Split(m[1], ", ") {
			for _, column := range strings.Split(m[2], ", ") {
				for _, thing := range things {
					for _, role := range strings.Split(m[4], ", ") {
						all = append(all, given{role, act, thing, column})
					}
				}
			}
		}
	}
	return all
}

// examineUsers says which users and roles of the database are set so that something is
// refused, or lost.
func examineUsers(ctx context.Context, s *handle) (found []ledger.Finding) {
	say := func(check, level, text, do string) {
		found = append(found, ledger.Finding{Check: check, Level: level, Found: text, Do: do})
	}
	var revoked []string
	err := database{s}.View(ctx, func(tx store.Tx) error {
		found, revoked = nil, nil
		args, err := json.Marshal(rights())
		if err != nil {
			return err
		}
		_, err = store.Collect(tx, func(rows store.Rows) (none struct{}, err error) {
			var kind, what, mend string
			if err := rows.Scan(&kind, &what, &mend); err != nil {
				return none, err
			}
			switch kind {
			case "commits":
				say("commits", ledger.LevelWarn, "synchronous_commit is off for "+what+": what it writes in plain SQL is lost with the server", mend)
			case "guards":
				say("guards", ledger.LevelWarn, "session_replication_role is replica for "+what+": what it writes in plain SQL is not guarded, and leaves no event", mend)
			case "off":
				say("guards", ledger.LevelFail, what+" is disabled: what it guards is not, and may leave no event", mend)
			case "hidden":
				say("guards", ledger.LevelFail, what+" has row-level security: those who do not own it see no rows, or not all", mend)
			case "gone":
				say("roles", ledger.LevelFail, "the server has no role "+what+", for which the guards ask: nothing is recorded", rolesAnew)
			case "idle":
				say("roles", ledger.LevelWarn, what+", and does not inherit it: it is refused unless it sets that role", mend)
			case "revoked":
				revoked = append(revoked, what)
			}
			return none, nil
		}, usersQuery, string(args))
		return err
	})
	switch n := len(revoked); {
	case err != nil:
		found = append(found, ledger.Finding{Check: "roles", Level: ledger.LevelFail, Err: err})
	case n == 1:
		say("roles", ledger.LevelFail, revoked[0], rolesAnew)
	case n > 1:
		say("roles", ledger.LevelFail, fmt.Sprintf("%s, and %d more like it", revoked[0], n-1), rolesAnew)
	}
	return found
}
