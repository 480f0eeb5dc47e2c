package ledgertest_test

import (
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
)

// TestMemory runs the suite on the plainest store: what fails here is wrong in
// the rules or in the suite itself.
func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(_ testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		return ledgertest.NewMemory(clock, steady)
	})
}
