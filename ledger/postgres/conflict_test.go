//go:build soak

package postgres

import (
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// I10: a change that the server undoes in favour of another one, by a deadlock or as one
// that cannot be put in a row, is made again, and has happened once. Behind a pooler that
// drops settings, transactions have the isolation that the database's owner wants.
func TestI10_AConflictIsTriedAgain(t *testing.T) {
	for _, c := range []struct{ name, isolation, holds, wants string }{
		{"40001 repeatable read", "repeatable read", `UPDATE indoubt.op SET parked_until = parked_until WHERE id = '%s'`, `SELECT '%s'`},
		{"40001 serializable", "serializable", `UPDATE indoubt.op SET parked_until = parked_until WHERE id = '%s'`, `SELECT '%s'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := made(t)
			psql(t, url, `DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || quote_ident(current_database()) || ' SET deadlock_timeout = ''2s'''; END $$`)
			s, looks := opened(t, url, Options{}), opened(t, url, Options{})
			s.address.config.ConnConfig.RuntimeParams["default_transaction_isolation"] = c.isolation
			need.OK(t, s.repool())
			req := begun("k")
			o := need.Get(ledger.Begin(ctx, s, req))(t).Operation
			other := need.Get(looks.pool.Load().Acquire(ctx))(t)
			defer other.Release()
			say := func(sql string) { t.Helper(); _ = need.Get(other.Exec(ctx, sql))(t) }
			// It finds no deadlock itself, and its lock is no change of the ledger's.
			say(`BEGIN; SET LOCAL deadlock_timeout = '1min'; SET LOCAL lock_timeout = '1min'; SET LOCAL session_replication_role = replica`)
			say(fmt.Sprintf(c.holds, o.ID))
			settled := make(chan error, 1)
			go func() {
				_, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeCommitted, Receipt: "r", Actor: req.Actor})
				settled <- err
			}()
			for end := time.Now().Add(amply); scalar(t, looks, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0; time.Sleep(5 * time.Millisecond) {
				need.Must(t, time.Now().Before(end), "it waits for no lock")
			}
			say(fmt.Sprintf(c.wants, o.ID))
			say(`COMMIT`)
			need.OK(t, <-settled)
			rec := need.Get(s.Read(ctx, ledger.Locator{ID: o.ID}))(t)
			need.That(t, rec.Operation.State == ledger.Committed && rec.Operation.Version == 2 && len(rec.Attempts) == 1, "%+v", rec.Operation)
			need.Equal(t, scalar(t, looks, `SELECT count(*) FROM ev`), 2, "a begin and a settle")
		})
	}
}
