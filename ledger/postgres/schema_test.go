//go:build soak

package postgres

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
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

func TestPlainSQL(t *testing.T) {
	// In milliseconds, flags as numbers.
	t.Run("looks as in a file", func(t *testing.T) {
		got := psql(t, made(t), `
			INSERT INTO indoubt.operations (id, kind, key, created_at, updated_at, deadline_at, actor)
			VALUES ('o', 'k', 'k', '2026-01-01 00:00:00.123Z', '2026-01-01 00:00:00.123Z', '2026-01-01 01:00:00Z', 'a');
			UPDATE indoubt.operations SET parked_until = 'infinity';
			SET search_path = indoubt_rows, indoubt;
			SELECT created_at, parked_until, settled_at, machine, doubted, resolved, is_open, (SELECT string_agg(value, '+') FROM json_each('["a","b"]')) FROM operations;`)
		if want := "1767225600123|253402300799999|0|1|0|0|1|a+b"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
	// It may have acted, and a check that finds nothing of any attempt proves that it has not.
	t.Run("a check proves what failed without a proof", func(t *testing.T) {
		url := made(t)
		s := need.Get(Open(ctx, url, Options{}))(t)
		defer s.Close()
		psql(t, url, `INSERT INTO indoubt.operations (id, kind, key, deadline_at, actor) VALUES ('o', 'k', 'k', now() + interval '1 minute', 'nightly');
			UPDATE indoubt.operations SET state = 'failed', reason = 'exit 1', actor = 'nightly', change_id = 'c' WHERE id = 'o'`)
		again := retry(t, s, need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t).Operation, "again")
		o := need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: again.LiveAttempt, Outcome: ledger.OutcomeUncertain,
			Error: "lost", Actor: ledger.Actor{Name: "billing", Machine: true}}))(t).After
		began := need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t).Now.Add(time.Minute)
		o = need.Get(ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: o.Version, Settles: true, Actor: ledger.Actor{Name: "checks", Machine: true},
			Read: ledger.Read{ID: ledger.NewID(), OperationID: o.ID, Verdict: ledger.NotThere, Reason: "none found", BeganAt: began, EndedAt: began}}))(t).After
		need.Must(t, o.State == ledger.Failed, "it is %s", o.State)
		for _, a := range need.Get(s.Read(ctx, ledger.Locator{ID: "o"}))(t).Attempts {
			need.That(t, a.NoEffect(), "attempt %d: %s, proof %q", a.N, a.Outcome, a.Proof)
		}
	})
}
