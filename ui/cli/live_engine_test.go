package cli

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/reconcile"
)

// An engine that began with the console would open connections while the first page is
// read, which makes both wait. One that never saw a page ends without a look.
func TestAnEngineBeginsWithTheFirstPage(t *testing.T) {
	for _, shown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := ledgertest.NewMemory(time.Now, nil)
			l := &liveEngine{ctx: t.Context(), shown: make(chan struct{}), make: func(s ledger.Store) *reconcile.Engine {
				return reconcile.New(reconcile.Options{Store: s, Policy: func() *policy.Policy { return policy.Default() }, Actor: ledger.Actor{Name: "ann"}})
			}}
			l.over(s)
			if shown {
				close(l.shown)
			}
			synctest.Wait()
			if n := len(need.Get(s.Leaders(t.Context()))(t).All); (n > 0) != shown {
				t.Errorf("first page shown: %v, and %d engines are at work", shown, n)
			}
			l.end(context.Background())
		})
	}
}
