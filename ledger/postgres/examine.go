package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

const examineQuery = `
	SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'),
	       CASE WHEN (SELECT source FROM pg_settings WHERE name = 'synchronous_commit') IN ('database', 'user', 'database user') THEN '' ELSE current_setting('synchronous_commit') END,
	       current_setting('synchronous_standby_names'),
	       EXISTS (SELECT FROM pg_stat_replication),
	       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
	       coalesce(host(inet_server_addr()), ''),
	       (extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// unguardedQuery finds what keeps guards from running, rows from being seen and commits from being durable: the check, its
// level, what is found, and the statement that mends it.
const unguardedQuery = `
	SELECT CASE name WHEN 'synchronous_commit' THEN 'commits' ELSE 'guards' END, 'warn',
	       name || ' is ' || value || ' for ' || concat_ws(' in ', 'role ' || r.rolname, 'database ' || d.datname) || ': what it writes in plain SQL is ' || harm,
	       concat_ws(' IN DATABASE ', 'ALTER ROLE ' || quote_ident(r.rolname), CASE WHEN r.rolname IS NULL THEN 'ALTER DATABASE ' ELSE '' END || quote_ident(d.datname))
	       || ' RESET ' || name
	  FROM (VALUES ('synchronous_commit', 'off', 'lost with the server'), ('session_replication_role', 'replica', 'not guarded, and leaves no event')) is_set (name, value, harm),
	       pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase
	 WHERE (s.setdatabase = 0 OR d.datname = current_database()) AND (s.setrole = 0 OR r.rolname IS NOT NULL)
	   AND EXISTS (SELECT FROM unnest(s.setconfig) c WHERE lower(c) = name || '=' || value)
	UNION ALL SELECT 'guards', 'fail', format('trigger %s of indoubt.%s is disabled: what it guards is not, and may leave no event', tgname, relname),
	       format('ALTER TABLE indoubt.%I ENABLE TRIGGER %I', relname, tgname)
	  FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'indoubt'::regnamespace AND tgenabled IN ('D', 'R') AND NOT tgisinternal
	UNION ALL SELECT 'guards', 'fail', format('indoubt.%s has row-level security: those who do not own it see no rows, or not all', relname),
	       format('ALTER TABLE indoubt.%I DISABLE ROW LEVEL SECURITY', relname)
	  FROM pg_class WHERE relnamespace = 'indoubt'::regnamespace AND relrowsecurity
	ORDER BY 1, 3`

// clockApart is how far the clocks of this host and of the database may differ before
// ages on the screen mislead.
const clockApart = 2 * time.Second

// Examine says how safe a commit of this server is, and what stands in its way.
func (s *handle) Examine(ctx context.Context) (found []ledger.Finding) {
	say := func(check, level, text, do string) {
		found = append(found, ledger.Finding{Check: check, Level: level, Found: text, Do: do})
	}
	var version, fsync, pages, commits, names, address string
	var standby, follows, tls bool
	var now int64
	began := time.Now()
	err := database{s}.View(ctx, func(tx store.Tx) error {
		return store.One(tx, []any{&version, &standby, &fsync, &pages, &commits, &names, &follows, &tls, &address, &now}, examineQuery)
	})
	if err != nil {
		return append(found, ledger.Finding{Check: "server", Level: ledger.LevelFail, Err: err})
	}
	took := time.Since(began)
	standbys, err := s.Standbys(ctx)
	if err != nil {
		return append(found, ledger.Finding{Check: "commits", Level: ledger.LevelFail, Err: err})
	}
	role := "the primary"
	if standby {
		role = "a standby, which can only be looked at"
	}
	say("server", ledger.LevelOK, fmt.Sprintf("PostgreSQL %s, %s, answers in %s", version, role, took.Round(time.Millisecond)), "")
	if local := address == "" || strings.HasPrefix(address, "127.") || address == "::1"; tls || local {
		say("connection", ledger.LevelOK, map[bool]string{true: "encrypted", false: "on this host"}[tls], "")
	} else {
		say("connection", ledger.LevelWarn, "not encrypted: what is recorded can be read on the way", "add ?sslmode=verify-full to the address, and give PGSSLROOTCERT")
	}
	if fsync != "on" || pages != "on" {
		say("durability", ledger.LevelFail, fmt.Sprintf("fsync is %s and full_page_writes is %s: a crash of the server loses what was recorded", fsync, pages), "set both to on")
	}
	switch {
	case standby: // nothing is committed here
	case commits == "off":
		say("commits", ledger.LevelFail, "synchronous_commit is off: what is acknowledged is lost with the server", "set synchronous_commit = on")
	case names != "" && commits != "local" && !follows:
		say("commits", ledger.LevelFail, "a commit waits for a standby ("+names+"), and none is connected: nothing is recorded", "bring a standby back, or name two: synchronous_standby_names = 'ANY 1 (a, b)'")
	case standbys.Level == "":
		say("commits", ledger.LevelWarn, "durable on this server only: it has no standby", "keep a backup, or add a standby with synchronous_standby_names")
	default:
		found = append(found, standbys)
	}
	if apart := time.UnixMilli(now).Sub(began.Add(took / 2)); apart.Abs() > clockApart+took {
		say("clocks", ledger.LevelWarn, fmt.Sprintf("the database's clock, which counts, is %s from this host's", apart.Round(time.Millisecond)), "set this host's clock: ages on its screens are wrong")
	}
	err = database{s}.View(ctx, func(tx store.Tx) error {
		some, err := store.Collect(tx, func(rows store.Rows) (f ledger.Finding, err error) {
			return f, rows.Scan(&f.Check, &f.Level, &f.Found, &f.Do)
		}, unguardedQuery)
		found = append(found, some...)
		return err
	})
	if err != nil {
		say("guards", ledger.LevelFail, err.Error(), "")
	}
	return found
}
