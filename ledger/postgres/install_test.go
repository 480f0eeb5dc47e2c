//go:build soak

package postgres

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
)

// The mechanism is tried with steps of its own, as that of a file: one that fails leaves
// the schema before it, of many processes one makes the steps, and a program that does not
// know them refuses.
func TestMigrations(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	need.OK(t, s.Update(ctx, tell("before")))
	more := []tables.Step{
		{Version: 2, SQL: `ALTER TABLE indoubt.attempts ADD COLUMN distance bigint NOT NULL DEFAULT 0; CREATE TABLE indoubt.two (x int)`},
		{Version: 3, SQL: `CREATE TABLE indoubt.three (x int); DROP TABLE indoubt.two; SELECT pg_sleep(0.2)`},
	}
	look := func(want string) {
		t.Helper()
		out := psql(t, url, `SELECT (SELECT value FROM indoubt.meta WHERE name = 'schema') || ' ' || coalesce(string_agg(relname, ',' ORDER BY relname), '')
			FROM pg_class WHERE relnamespace = 'indoubt'::regnamespace AND relname IN ('two', 'three', 'four')`)
		need.Equal(t, strings.TrimSpace(out), want)
	}
	broken := append(more[:2:2], tables.Step{Version: 4, SQL: `CREATE TABLE indoubt.four (x int); CREATE TABLE indoubt.three (x int)`})
	need.That(t, s.install(ctx, broken) != nil, "a broken step passes")
	look("1")

	var all sync.WaitGroup
	var others []*Store // opened before the first is done
	for range 6 {
		others = append(others, opened(t, url, Options{}))
	}
	for _, other := range others {
		all.Go(func() { need.That(t, other.install(ctx, more) == nil, "a migration beside others fails") })
	}
	all.Wait()
	look("3 three")
	need.OK(t, s.install(ctx, more))
	if ids := told(t, s); len(ids) != 1 || ids[0] != "before" {
		t.Errorf("the history is %q", ids)
	}
	if out, err := pgtest.Psql(t, url, `UPDATE indoubt.events SET reason = 'x'`); err == nil {
		t.Errorf("it has lost its guards: %s", out)
	}

	var newer *ledger.NewerError
	for name, open := range map[string]func() (*Store, error){
		"a writer": func() (*Store, error) { return Open(ctx, url, Options{}) },
		"a reader": func() (*Store, error) { return Open(ctx, url, Options{ReadOnly: true}) },
		"init":     func() (*Store, error) { return Create(ctx, url, Options{}) },
	} {
		if s, err := open(); !errors.As(err, &newer) || s != nil || newer.Has != 3 || newer.Knows != 1 {
			t.Errorf("%s opens a newer schema: %v", name, err)
		}
	}
	steps = more
	defer func() { steps = nil }()
	var older *ledger.OlderError
	former := made(t)
	if _, err := Open(ctx, former, Options{}); !errors.As(err, &older) || older.Has != 1 || older.Needs != 3 {
		t.Errorf("a writer takes an older schema: %v", err)
	}
	migrated := need.Get(Create(ctx, former, Options{}))(t)
	defer migrated.Close()
	need.OK(t, migrated.Update(ctx, tell("after")))
}

// lasting is a step that takes its time.
var lasting = []tables.Step{{Version: 2, SQL: `CREATE TABLE indoubt.two (x int); SELECT pg_sleep(1)`}}

// migrate brings a ledger to the next schema, as another process.
func migrate(url string) error {
	s, err := Open(ctx, url, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.install(ctx, lasting)
}

// A process that is killed while it migrates leaves the schema before, and the next one
// waits for its end and makes all of the steps.
func TestI10_AKilledMigration(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), "INDOUBT_TEST_MIGRATES="+url), os.Stderr
	need.OK(t, cmd.Start())
	for end := time.Now().Add(time.Minute); scalar(t, s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatal("it never migrates")
		}
	}
	need.OK(t, cmd.Process.Kill())
	need.That(t, cmd.Wait() != nil, "it was done before it was killed")
	need.Equal(t, psql(t, url, `SELECT value FROM indoubt.meta WHERE name = 'schema'`), "1")
	need.OK(t, s.install(ctx, lasting)) // fails if any of it is there
	need.Equal(t, psql(t, url, `SELECT value || ' ' || (SELECT count(*) FROM indoubt.two) FROM indoubt.meta WHERE name = 'schema'`), "2 0")
}

// A database that is not there, or cannot keep every text, is not one to make a ledger in,
// and what helps is not to try the same again.
func TestNoPlaceForALedger(t *testing.T) {
	url := pgtest.URL(t)
	of := func(database string) string {
		return regexp.MustCompile(`/test_\d+`).ReplaceAllString(url, "/"+database)
	}
	t.Cleanup(func() { psql(t, url, `DROP DATABASE latin; DROP DATABASE ascii`) })
	psql(t, url, `CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'; CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'`)
	for database, says := range map[string]string{"latin": "is LATIN1", "ascii": "is SQL_ASCII", "none": "CREATE DATABASE"} {
		_, err := Create(ctx, of(database), Options{})
		missing := (*ledger.MissingError)(nil)
		need.That(t, errors.As(err, &missing), "%v", err)
		said := missing.Trouble(ledger.InFull)
		need.That(t, strings.Contains(said.Error(), says) && !strings.Contains(said.Do, "make one with"), "%v", said)
	}
}
