package postgres

import (
	"context"
	"errors"
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
	       coalesce((SELECT count(*) FROM pg_stat_replication), 0),
	       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
	       coalesce(host(inet_server_addr()), ''),
	       coalesce((SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()), 0),
	       (extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// longOpen is a transaction that keeps the database from cleaning up.
const longOpen = 10 * time.Minute

// clockApart is how far the clocks of this host and of the database may differ before
// ages on the screen mislead.
const clockApart = 2 * time.Second

// Examine says how safe a commit of this server is, and what stands in its way.
func (s *handle) Examine(ctx context.Context) (found []ledger.Finding) {
	say := func(check, level, text, do string) {
		found = append(found, ledger.Finding{Check: check, Level: level, Found: text, Do: do})
	}
	var version, fsync, pages, commits, names, address string
	var standby, tls bool
	var followers, now int64
	var oldest float64
	began := time.Now()
	err := database{s}.View(ctx, func(tx store.Tx) error {
		return store.One(tx, []any{&version, &standby, &fsync, &pages, &commits, &names, &followers, &tls, &address, &oldest, &now}, examineQuery)
	})
	if err != nil {
		return append(found, ledger.Finding{Check: "server", Level: ledger.LevelFail, Err: err})
	}
	took := time.Since(began)
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
	if all := s.address.primaries(ctx); len(all) > 1 {
		say("hosts", ledger.LevelFail, fmt.Sprintf("%d servers take writes: %s", len(all), toldOf(all)), "stop the old one: what is recorded on one is not seen on the other, and may be sent twice")
	}
	if fsync != "on" || pages != "on" {
		say("durability", ledger.LevelFail, fmt.Sprintf("fsync is %s and full_page_writes is %s: a crash of the server loses what was recorded", fsync, pages), "set both to on")
	}
	if err := hasRoom(ctx, s); err != nil {
		found = append(found, ledger.Finding{Check: "disk", Level: ledger.LevelFail, Err: err})
	}
	switch {
	case standby: // nothing is committed here
	case commits == "off":
		say("commits", ledger.LevelFail, "synchronous_commit is off: what is acknowledged is lost with the server", "set synchronous_commit = on")
	case names == "" && followers == 0:
		say("commits", ledger.LevelWarn, "durable on this server only: it has no standby", "keep a backup, or add a standby with synchronous_standby_names")
	case names == "":
		say("commits", ledger.LevelWarn, "a standby follows later: one that is promoted may have lost the last intents", "set synchronous_standby_names")
	case commits == "local":
		say("commits", ledger.LevelWarn, "synchronous_commit is local: no standby is waited for", "set synchronous_commit = on")
	case followers == 0:
		say("commits", ledger.LevelFail, "a commit waits for a standby ("+names+"), and none is connected: nothing is recorded", "bring a standby back, or name two: synchronous_standby_names = 'ANY 1 (a, b)'")
	default:
		say("commits", ledger.LevelOK, "durable on a standby, too, before they are acknowledged", "")
	}
	if age := time.Duration(oldest * float64(time.Second)); age > longOpen {
		say("transactions", ledger.LevelWarn, fmt.Sprintf("one has been open for %s, and the database cannot clean up behind it", age.Round(time.Second)), "end it: see pg_stat_activity")
	}
	if apart := time.UnixMilli(now).Sub(began.Add(took / 2)); apart.Abs() > clockApart+took {
		say("clocks", ledger.LevelWarn, fmt.Sprintf("the database's clock, which counts, is %s from this host's", apart.Round(time.Millisecond)), "set this host's clock: ages on its screens are wrong")
	}
	return append(found, examineUsers(ctx, s)...)
}

// hasRoom has the server write some megabytes beside the ledger, and says where it has no
// room for them: what is sorted out of memory lies on the disk of the database.
func hasRoom(ctx context.Context, s *handle) error {
	err := database{s}.View(ctx, func(tx store.Tx) error {
		for _, query := range []string{`SELECT set_config('work_mem', '64kB', true)`, `SELECT count(*) FROM generate_series(1, 200000)`} {
			if _, err := tx.Query(query); err != nil {
				return err
			}
		}
		return nil
	})
	if full := (*Error)(nil); errors.As(err, &full) && full.Code == Full {
		return full
	}
	return nil
}
