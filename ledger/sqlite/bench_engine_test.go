package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// doubtful makes a ledger with n priced operations in doubt.
func doubtful(b *testing.B, n int) *Store {
	s := need.Get(Create(ctx, filepath.Join(b.TempDir(), "ledger.db"), Options{}))(b)
	b.Cleanup(func() { s.Close() })
	run(n, 64, func(int) {
		res, err := ledger.Begin(ctx, s, request())
		need.OK(b, err)
		_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeUncertain,
			ErrorClass: ledger.ClassTimeout, Error: "no answer", TokenSent: true, Actor: billing})
		need.OK(b, err)
	})
	due := need.Get(s.Due(ctx, time.Now(), n))(b)
	prices := make([]ledger.Pricing, len(due))
	for i, r := range due {
		prices[i] = ledger.Pricing{OperationID: r.ID, Digest: "p1", Downstream: "stripe", Title: r.Title, Rank: float64(i % 97), DecideAt: time.Now().Add(time.Hour)}
	}
	need.OK(b, s.Price(ctx, prices))
	return s
}

// BenchmarkEngine leases ten thousand operations in doubt in batches and settles
// each by a read, as an engine does: batches of 256, 64 reads at once.
func BenchmarkEngine(b *testing.B) {
	const n, batch, wide = 10_000, 256, 64
	for range b.N {
		b.StopTimer()
		s := doubtful(b, n)
		b.StartTimer()
		began := time.Now()
		for done := 0; done < n; {
			due := need.Get(s.Due(ctx, time.Now(), batch))(b)
			ids := make([]string, len(due))
			for i, r := range due {
				ids[i] = r.ID
			}
			leases := need.Get(s.Leases(ctx, ids, "engine", "p1", time.Minute))(b)
			if len(leases) != len(due) || len(due) == 0 {
				b.Fatalf("%d leases on %d due", len(leases), len(due))
			}
			run(len(due), wide, func(i int) {
				r := due[i-1]
				now := time.Now()
				verdict, receipts := ledger.Landed, []string{fmt.Sprint("ch_", i)}
				if i%4 == 0 {
					verdict, receipts = ledger.Absent, nil
				}
				applied, err := ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: r.Version, Lease: leases[i-1].Lease, Release: true, Confirm: true, Deny: true,
					Actor: billing, Read: ledger.Read{ID: ledger.NewID(), OperationID: r.ID, BeganAt: now, EndedAt: now, Verdict: verdict, Reason: "the list shows it",
						Found: len(receipts), Receipts: receipts, Evidence: []byte(`{"status":200,"body":{"data":[]}}`), Digest: "p1", Actor: "auto"}})
				if err != nil || applied.After.State == ledger.Uncertain {
					b.Errorf("%s: %v", applied.After.State, err)
				}
			})
			done += len(due)
		}
		b.ReportMetric(n/time.Since(began).Seconds(), "settled/s")
	}
	b.ReportMetric(0, "ns/op")
}
