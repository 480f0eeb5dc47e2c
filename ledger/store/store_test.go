package store_test

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		t.Helper()
		return store.New(need.Get(ledgertest.InMemory(clock, steady))(t), ledgertest.Key("0123456789abcdef0123456789abcdef"), "")
	})
}

func init() { store.InMemory = ledgertest.InMemory }
