//go:build soak

package postgres

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

func TestConformanceOnEight(t *testing.T) {
	if games := flag.Lookup("rapid.checks"); games.Value.String() == games.DefValue {
		need.OK(t, games.Value.Set("20"))
	}
	ledgertest.Run(t, onEight)
}

func onEight(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
	t.Helper()
	url := pgtest.From(t, "eight", func(url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "BEGIN; "+store.PostgreSQLSchema()+"; INSERT INTO meta VALUES ('id', 'eight'), ('created', '1'); COMMIT", pgx.QueryExecModeSimpleProtocol)
		return err
	})
	a, err := parse(url)
	need.OK(t, err)
	a.config.ConnConfig.RuntimeParams["search_path"] = "indoubt, pg_temp"
	h, err := connected(a, Options{Clock: clock, Steady: steady})
	need.OK(t, err)
	e := eight{store.New(database{h}, []byte(fmt.Sprintf("%032d", 1))), database{h}}
	h.follow, h.now = e.Follow, func(ctx context.Context) (ledger.Cursor, error) {
		info, err := e.Info(ctx)
		return info.Cursor, err
	}
	return e
}
