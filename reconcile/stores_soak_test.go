//go:build soak

package reconcile

import (
	"path/filepath"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

func init() {
	newStore = inFile
	reopened = func(w *world) ledger.Store {
		if w.dial != nil { // in a bubble
			return w.store
		}
		store := need.Get(open.Open(w.ctx, w.path, open.Options{Clock: w.now, Steady: w.steady}))(w)
		w.Cleanup(func() { store.Close() })
		return store
	}
	officeStores["sqlite"] = func(o *office) ledger.Store {
		s := need.Get(open.Create(o.ctx, filepath.Join(o.TempDir(), "ledger.db"), open.Options{Clock: o.now, Steady: hostclock.With(o.now)}))(o)
		o.Cleanup(func() { s.Close() })
		return s
	}
}
