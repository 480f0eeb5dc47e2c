package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// BenchmarkCost is the processor's time of a begin + settle, committed and in doubt, which does
// not depend on how fast the disk is.
func BenchmarkCost(b *testing.B) {
	for _, outcome := range []ledger.Outcome{ledger.OutcomeCommitted, ledger.OutcomeUncertain} {
		for _, inFlight := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/inflight=%d", outcome, inFlight), func(b *testing.B) {
				s := need.Get(Create(ctx, filepath.Join(b.TempDir(), "ledger.db"), Options{}))(b)
				b.Cleanup(func() { s.Close() })
				one := func(i int) {
					res := need.Get(ledger.Begin(ctx, s, request()))(b)
					req := ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: outcome, TokenSent: true, Actor: billing}
					if outcome == ledger.OutcomeCommitted {
						req.Receipt, req.Result = fmt.Sprint("ch_", i), []byte(`{"id": "ch_1"}`)
					} else {
						req.ErrorClass, req.Error = ledger.ClassTimeout, "no answer"
					}
					need.Get(ledger.Settle(ctx, s, req))(b)
				}
				one(-1)
				cpu := func() time.Duration {
					var u syscall.Rusage
					need.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
					return time.Duration(u.Utime.Nano() + u.Stime.Nano())
				}
				before := cpu()
				b.ResetTimer()
				var wg sync.WaitGroup
				for w := range inFlight {
					wg.Go(func() {
						for i := w; i < b.N; i += inFlight {
							one(i)
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
	}
}
