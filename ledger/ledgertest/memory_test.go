package ledgertest

import (
	"testing"

	"indoubt/ledger"
)

// TestMemory runs the suite on the plainest store: what fails here is wrong in
// the rules or in the suite itself.
func TestMemory(t *testing.T) {
	Run(t, func(_ testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		return NewMemory(clock, steady)
	})
}
