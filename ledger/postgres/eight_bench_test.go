//go:build soak

package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

func BenchmarkEight(b *testing.B) {
	c := pgtest.Start(b, pgtest.Options{Durable: true})
	need.OK(b, c.Exec("postgres", "CREATE DATABASE old"))
	need.OK(b, c.Exec("postgres", "CREATE DATABASE new"))
	conn := need.Get(pgx.Connect(ctx, c.URL("new")))(b)
	need.Get(conn.Exec(ctx, "BEGIN; "+store.PostgreSQLSchema()+"; INSERT INTO meta VALUES ('id', 'eight'), ('created', '1'); COMMIT", pgx.QueryExecModeSimpleProtocol))(b)
	for _, connections := range []int{1, 16} {
		b.Run(fmt.Sprint(connections), func(b *testing.B) {
			old := created(b, with(c.URL("old"), fmt.Sprintf("pool_max_conns=%d", connections)), Options{})
			a := need.Get(parse(with(c.URL("new"), fmt.Sprintf("pool_max_conns=%d", connections))))(b)
			a.config.ConnConfig.RuntimeParams["search_path"] = "indoubt, pg_temp"
			h := need.Get(connected(a, Options{}))(b)
			defer h.close()
			e := eight{store.New(database{h}, []byte("k")), database{h}}
			h.follow, h.now = e.Follow, func(context.Context) (ledger.Cursor, error) { return "0", nil }
			pool := need.Get(pgxpool.New(ctx, with(c.URL("old"), fmt.Sprintf("pool_max_conns=%d", connections))))(b)
			defer pool.Close()
			loops := []func(int){rawRounds(b, pool), rounds(b, old), roundsOf(b, e)}
			var rate [3]float64
			for _, loop := range loops {
				ledgertest.Rate(100*connections, connections, loop)
			}
			const turns = 5
			for range turns {
				for i, loop := range loops {
					rate[i] += ledgertest.Rate(600, connections, loop) / turns
				}
			}
			b.ReportMetric(rate[0], "raw/s")
			b.ReportMetric(rate[1], "old/s")
			b.ReportMetric(rate[2], "new/s")
			b.ReportMetric(rate[2]/rate[1], "×old")
		})
	}
}

func roundsOf(b testing.TB, s ledger.Store) func(int) {
	actor := ledger.Actor{Name: "bench", Machine: true}
	return func(int) {
		id := ledger.NewID()
		begun := need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: id, AttemptID: ledger.NewID(), Kind: "card.charge", Key: id,
			Fingerprint: id, Input: []byte(`{"amount":42000}`), Sender: "pipeline", Deadline: time.Minute, Actor: actor}))(b)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted, Status: 200, Actor: actor}))(b)
	}
}
