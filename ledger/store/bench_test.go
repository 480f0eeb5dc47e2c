package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// BenchmarkBeginSettle is one operation that its answer commits, without a payload but for its
// receipt, and how much room it takes.
func BenchmarkBeginSettle(b *testing.B) {
	m := need.Get(InMemory(nil, nil))(b).(*memory)
	s := New(m, nil)
	defer s.Close()
	ctx, billing := context.Background(), ledger.Actor{Name: "billing", OSUser: "root", Host: "batch-2", Machine: true}
	n := 0
	for b.Loop() {
		n++
		res := need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
			Kind: "stripe.charge", Key: fmt.Sprintf("order-%06d", n), Token: ledger.NewToken(), Fingerprint: fmt.Sprintf("%064x", n),
			Gate: fmt.Sprintf("%032x", n), Title: "charge cus_9 42.00 USD", Target: fmt.Sprintf("order INV-%d", n),
			Source: ledger.Source{Pipeline: "billing", Run: "7", Host: "batch-2", PID: 42}, Sender: "http", TokenSent: true, Deadline: time.Minute,
			Host: "batch-2", PID: 42, Place: ledger.Place{BootID: "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", PIDNamespace: "4026531836", UID: 1000},
			Actor: billing}))(b)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID,
			Outcome: ledger.OutcomeCommitted, Status: 200, Receipt: fmt.Sprintf("pi_%d", n), Actor: billing}))(b)
	}
	var pages, size float64
	need.OK(b, one(m, []any{&pages}, `PRAGMA page_count`))
	need.OK(b, one(m, []any{&size}, `PRAGMA page_size`))
	b.ReportMetric(pages*size/float64(n), "bytes/operation")
}
