package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/sqlite"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		t.Helper()
		s := need.Get(sqlite.Create(context.Background(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Clock: clock, Steady: steady}))(t)
		return s
	})
}
