package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

const secret = "s3cr3t"

var ctx = context.Background()

// others is what this program does as another process of a test, by the variable that has its ledger.
var others = map[string]func(url string) error{}

func TestMain(m *testing.M) {
	for role, plays := range others {
		if url := os.Getenv(role); url != "" {
			if err := plays(url); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
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

// keyed is the ledger at an address, with a key of its digests.
func keyed(t testing.TB, url string, o Options) *Store {
	t.Helper()
	o.KeyFile = filepath.Join(t.TempDir(), "digest.key")
	s := opened(t, url, o)
	need.Get(store.Key(ctx, s.Database(), digestkey.Named(o.KeyFile), true))(t)
	return s
}

// psql runs statements that must succeed, and gives what they print.
func psql(t testing.TB, url, script string) string {
	t.Helper()
	out, err := pgtest.Psql(t, url, script)
	need.Must(t, err == nil, "%v: %s", err, out)
	return strings.TrimSpace(out)
}

// scalar is the number that a query gives.
func scalar(t testing.TB, s *Store, query string, args ...any) (n int64) {
	t.Helper()
	need.OK(t, database{s.handle}.View(ctx, func(tx store.Tx) error { return store.One(tx, []any{&n}, query, args...) }))
	return n
}

// tell adds an event, as the smallest change there is.
func tell(s *Store, id string) error {
	_, err := s.Tell(ctx, ledger.Event{ID: id, Verb: "test", Actor: ledger.Actor{Name: "pg"}, Reason: "for " + id})
	return err
}

// modes are the ways to send statements: prepared, and as a pooler needs them.
var modes = []string{"", "default_query_exec_mode=exec"}

func with(url, parameter string) string {
	switch {
	case parameter == "":
		return url
	case strings.Contains(url, "?"):
		return url + "&" + parameter
	}
	return url + "?" + parameter
}

// begun is what a pipeline asks the ledger.
func begun(key string) ledger.BeginRequest {
	return ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "charge", Key: key,
		Deadline: time.Minute, Sender: "pipeline", Actor: ledger.Actor{Name: "pipeline", Machine: true}}
}

// told are the ids of the events, in their order.
func told(t testing.TB, s *Store) (ids []string) {
	t.Helper()
	events, err := s.History(ctx, ledger.HistoryQuery{Limit: 100_000})
	need.OK(t, err)
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
