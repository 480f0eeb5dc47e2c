//go:build unported

package postgres

import (
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// What is known after a failover ends with the newest event: none has a time that is still
// to come, whoever tells it.
func TestI8_NoEventIsOfTheFuture(t *testing.T) {
	url := withRoles(t)
	ci := pgtest.As(url, "ci")
	psql(t, ci, `INSERT INTO indoubt.events (id, verb, actor, at) VALUES ('told', 'note', 'x', '2099-01-01Z')`)
	psql(t, ci, `INSERT INTO indoubt.operations (id, kind, key, created_at, deadline_at, actor) VALUES ('o', 'k', 'k', now() + '100 days'::interval, now() + '200 days'::interval, 'x')`)
	psql(t, ci, strings.Replace(byOwn("o", "settle", "uncertain", ", ended_at = now(), doubted_at = now(), doubted = true, live_attempt = '', deadline_at = NULL"), "= clock_timestamp()", "= '2099-01-01Z'", 1))
	need.Equal(t, psql(t, url, `SELECT count(*), count(*) FILTER (WHERE at > clock_timestamp()) FROM indoubt.events; SELECT indoubt.known_until() <= clock_timestamp()`), "3|0\nt")
	_, err := pgtest.Psql(t, ci, `INSERT INTO indoubt.events (id, verb, actor, at) VALUES ('never', 'note', 'x', 'infinity')`)
	need.That(t, err != nil, "an event of no time is told")
}

// A session does not make itself at home in a database that failed over.
func TestI3_ASessionSaysThatItIsAtHome(t *testing.T) {
	url := withRoles(t)
	psql(t, url, `SET session_replication_role = replica; UPDATE indoubt.lineages SET lineage = 'x'`)
	for forged, says := range map[string]string{
		"": "failed over or was restored",
		`SELECT set_config('indoubt.home', indoubt.here(), false);`: "not yet defined",
		`SELECT nextval('indoubt.home');`:                           denied,
		`SELECT setval('indoubt.home', 1);`:                         denied,
	} {
		out, err := pgtest.Psql(t, pgtest.As(url, "ci"), forged+fmt.Sprintf(beginSQL, "n"))
		need.That(t, err != nil && strings.Contains(out, says), "with %q: %s", forged, out)
	}
	need.Equal(t, psql(t, url, `SELECT count(*) FROM indoubt.attempts`), "0")
}
