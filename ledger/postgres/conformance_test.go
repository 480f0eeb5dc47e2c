package postgres

import (
	"flag"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
)

// Each game of the model has a database of its own, which takes longer than the game.
func TestConformance(t *testing.T) {
	if games := flag.Lookup("rapid.checks"); games.Value.String() == games.DefValue {
		if err := games.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
	}
	ledgertest.Run(t, func(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		t.Helper()
		s, err := Open(ctx, made(t), Options{Clock: clock, Steady: steady})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
