//go:build soak

package postgres

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

func TestMain(m *testing.M) {
	for role, plays := range map[string]func(url string) error{"INDOUBT_TEST_SATURATES": saturate, "INDOUBT_TEST_WANTS": want, "INDOUBT_TEST_PLAYS": play} {
		url := os.Getenv(role)
		if url == "" {
			continue
		}
		if err := plays(url); err != nil { // as another process of a test
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(m))
}

// made is the address of a new ledger.
func made(t testing.TB) string {
	t.Helper()
	return pgtest.From(t, "ledger", func(url string) error {
		s, err := Create(ctx, url, Options{})
		if err == nil {
			err = s.Close()
		}
		return err
	})
}

// opened is the ledger at an address, until the test ends.
func opened(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(ctx, url, o)
	need.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// psql runs statements that must succeed, and gives what they print.
func psql(t *testing.T, url, script string) string {
	t.Helper()
	out, err := pgtest.Psql(t, url, script)
	need.Must(t, err == nil, "%v: %s", err, out)
	return strings.TrimSpace(out)
}

// What indoubt reads looks as it does in a file: times in milliseconds, flags as numbers.
func TestRowsLookAlike(t *testing.T) {
	got := psql(t, made(t), `
		INSERT INTO indoubt.operations (id, kind, key, created_at, updated_at, deadline_at, actor)
		VALUES ('o', 'k', 'k', '2026-01-01 00:00:00.123Z', '2026-01-01 00:00:00.123Z', '2026-01-01 01:00:00Z', 'a');
		UPDATE indoubt.operations SET parked_until = 'infinity';
		SET search_path = indoubt_rows, indoubt;
		SELECT created_at, parked_until, settled_at, machine, doubted, resolved, is_open, (SELECT string_agg(value, '+') FROM json_each('["a","b"]')) FROM operations;`)
	if want := "1767225600123|253402300799999|0|1|0|0|1|a+b"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}
