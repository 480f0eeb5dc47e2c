package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// BenchmarkBeginSettle is one operation that its answer commits, without a payload but for its
// receipt, and how much room it takes.
func BenchmarkBeginSettle(b *testing.B) {
	m := inMemory(b)
	s := New(m, digestkey.Named(""), "")
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
	need.OK(b, One(m, []any{&pages}, `PRAGMA page_count`))
	need.OK(b, One(m, []any{&size}, `PRAGMA page_size`))
	b.ReportMetric(pages*size/float64(n), "bytes/operation")
}

// BenchmarkOutage looks at an outage of ten thousand, and sums it up.
func BenchmarkOutage(b *testing.B) {
	s := New(inMemory(b), digestkey.Named(""), "")
	defer s.Close()
	ctx, billing := context.Background(), ledger.Actor{Name: "billing", Machine: true}
	for range 10_000 {
		id := ledger.NewID()
		res := need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: id, AttemptID: ledger.NewID(),
			Kind: "stripe.charge", Key: id, Token: id, Target: id, TokenSent: true, Deadline: time.Minute, Actor: billing}))(b)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID,
			Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Error: "no answer", Actor: billing}))(b)
	}
	need.OK(b, s.Fold(ctx, nil, nil, true, func(string) ledger.Burst { return ledger.Burst{Errors: 5, Within: time.Minute, Gap: time.Minute} }))
	ins := need.Get(s.Outages(ctx, time.Now(), 1))(b)
	b.Run("account", func(b *testing.B) {
		for b.Loop() {
			if a := need.Get(s.Outage(ctx, ins[0].ID, time.Now()))(b); a.Errors() != 10_000 {
				b.Fatal(a.Errors())
			}
		}
	})
	b.Run("sums", func(b *testing.B) {
		for b.Loop() {
			need.OK(b, s.Sums(ctx, ins, time.Now()))
		}
	})
}
