//go:build soak

package postgres

import (
	"flag"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// Each game of the model has a database of its own, which takes longer than the game.
func TestConformance(t *testing.T) {
	if games := flag.Lookup("rapid.checks"); games.Value.String() == games.DefValue {
		need.OK(t, games.Value.Set("20"))
	}
	ledgertest.Run(t, anew(func(url string) string { return url }))
}

// anew opens new ledgers, by another address.
func anew(by func(url string) string) ledgertest.Open {
	return func(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		t.Helper()
		return keyed(t, by(made(t)), Options{Clock: clock, Steady: steady})
	}
}

// Behind a pooler that lends a session to one transaction at a time, nothing that is set
// or prepared on a session can be relied on.
func TestBehindAPooler(t *testing.T) {
	behind := bouncer(t)
	ledgertest.Run(t, anew(behind), "Leaders", "Holds", "Followers", "Watch", "Concurrency")
}
