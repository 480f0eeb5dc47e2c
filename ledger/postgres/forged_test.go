//go:build soak

package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// archivedAttacks are how a user of the database would have an archived key be used again.
var archivedAttacks = []ledgertest.Attack{
	{Name: "an archived key given up for nothing (I4)", SQL: `UPDATE archived SET key_live = false`, Says: "is given up to one that begins with it"},
	{Name: "an archived key given up for another (I4)", SQL: `UPDATE archived SET key_live = false WHERE id = 'shelved';
		INSERT INTO operations (id, kind, key, deadline_at, actor) VALUES ('n', 'card.charge', 'short-key-2', clock_timestamp() + '1 hour'::interval, 'x')`, Says: "is given up to one that begins with it"},
	{Name: "a stub forgotten in time", SQL: `UPDATE archived SET key_live = false WHERE id = 'short'; DELETE FROM archived WHERE id = 'short'`, Says: "a stub is remembered until"},
}

func TestI4_AnArchivedKeyIsNotGivenUpByItself(t *testing.T) {
	url := withRoles(t)
	psql(t, url, `INSERT INTO indoubt.meta VALUES ('id', 'ledger'), ('schema', '1')`)
	s := opened(t, url, Options{})
	ledgertest.Shelved(t, s, time.Now())
	resists(t, url, s, archivedAttacks)
	out, err := pgtest.Psql(t, pgtest.As(url, "ci"), `UPDATE indoubt.archived SET key_live = false`)
	need.That(t, err != nil && strings.Contains(out, "is given up to one that begins with it"), "a writer gives archived keys up: %s", out)
	need.Equal(t, psql(t, url, `SELECT count(*) FROM indoubt.archived WHERE key_live`), "4")
	psql(t, pgtest.As(url, "ci"), `BEGIN; UPDATE indoubt.archived SET key_live = false WHERE id = 'short';`+
		strings.Replace(fmt.Sprintf(beginSQL, "n"), "'n', 'mail.send', 'n'", "'n', 'card.charge', 'short-key'", 1)+`COMMIT`)
}

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
