//go:build soak

package record

import (
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

func init() {
	newLedger = func(t testing.TB, now ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		store := need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), open.Options{Clock: now, Steady: steady}))(t)
		t.Cleanup(func() { store.Close() })
		return store
	}
}
