package record

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// BenchmarkBeginSettle compares recording with the two changes of the ledger it
// is made of, in turns on one ledger so that both meet the same disk.
func BenchmarkBeginSettle(b *testing.B) {
	priced := KindRule{Price: func(rec ledger.Record) ledger.Pricing { return ledger.Pricing{Digest: "d", Title: rec.Operation.Title} }}
	input := func(i int) []byte {
		return fmt.Appendf(nil, `{"customer":"cus_%d","amount":4200,"currency":"usd","metadata":{"invoice":"INV-%d"}}`, i, i)
	}
	keyed := func(i int) Request { return Request{Kind: "post", Key: fmt.Sprint(i), Input: input(i)} }
	made := func(i int) Request { return Request{Kind: "post", Input: input(i)} }
	repeated := func(i int) Request { return Request{Kind: "post", Input: input(i % 100)} }
	for _, c := range []struct {
		name    string
		rule    KindRule
		request func(i int) Request
	}{
		{"key given", KindRule{}, keyed},
		{"key given, priced", priced, keyed},
		{"content, new", priced, made},
		{"content, repeated", priced, repeated},
	} {
		b.Run(c.name, func(b *testing.B) {
			store := need.Get(open.Create(b.Context(), filepath.Join(b.TempDir(), "ledger.db"), open.Options{}))(b)
			defer store.Close()
			r := New(store, oneRule(c.rule), Options{})
			bare := ledger.BeginRequest{Kind: "post", Sender: "pipeline", Deadline: time.Minute, Actor: ledger.Actor{Name: "p", Machine: true}}
			var n atomic.Int64
			var bareTook, took time.Duration
			round := func(begin func(i int) (string, error), settle func(ledger.SettleRequest) error) time.Duration {
				began := time.Now()
				for range 200 {
					attempt, err := begin(int(n.Add(1)))
					if err == nil {
						err = settle(ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: attempt, Outcome: ledger.OutcomeCommitted, Result: []byte(`{"id":"ch_1"}`), Actor: bare.Actor})
					}
					need.OK(b, err)
				}
				return time.Since(began)
			}
			for b.Loop() {
				bareTook += round(func(i int) (string, error) {
					q := bare
					q.ChangeID, q.OperationID, q.AttemptID, q.Key, q.Token = ledger.NewID(), ledger.NewID(), ledger.NewID(), fmt.Sprint("bare", i), ledger.NewToken()
					q.Input = input(i)
					res, err := ledger.Begin(b.Context(), store, q)
					return res.Attempt.ID, err
				}, func(s ledger.SettleRequest) error { _, err := ledger.Settle(b.Context(), store, s); return err })
				took += round(func(i int) (string, error) {
					res, err := r.Begin(b.Context(), c.request(i))
					return res.Attempt.ID, err
				}, func(s ledger.SettleRequest) error { _, err := r.Settle(b.Context(), s); return err })
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took.Microseconds())/float64(b.N*200), "µs/round")
			b.ReportMetric(float64((took-bareTook).Microseconds())/float64(b.N*200), "µs/overhead")
			b.ReportMetric(float64(bareTook)/float64(took), "×bare")
		})
	}
}
