package ledgertest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Rate runs n rounds with some in flight and returns rounds per second.
func Rate(n, inFlight int, round func(i int)) float64 {
	var all sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	for range inFlight {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				round(int(i))
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// BenchPages reads what a console shows first, and what it shows next, of a ledger of
// which a tenth is open, with an outage for each 2000 operations.
func BenchPages(b *testing.B, s ledger.Store, operations int, now time.Time) {
	page := func(b *testing.B, q ledger.Query) ledger.Page {
		b.Helper()
		q.Now = now
		return need.Get(s.Page(ctx, q))(b)
	}
	b.Run("counts", func(b *testing.B) {
		for range b.N {
			if c := need.Get(s.Counts(ctx, now))(b); c.All != operations || c.NeedsYou+c.Checking != operations/10 {
				b.Fatal(fmt.Sprint(c))
			}
		}
	})
	for _, tab := range []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabSettled, ledger.TabAll} {
		for _, order := range []ledger.Order{ledger.OrderLoss, ledger.OrderNewest} {
			b.Run(fmt.Sprintf("%s/%s", tab, order), func(b *testing.B) {
				for range b.N {
					if p := page(b, ledger.Query{Tab: tab, Order: order}); len(p.Rows) != 50 {
						b.Fatal(len(p.Rows))
					}
				}
			})
		}
	}
	for _, n := range []int{50, 500} {
		b.Run(fmt.Sprintf("outages/%d", n), func(b *testing.B) {
			for range b.N {
				if ins := need.Get(s.Outages(ctx, now, n))(b); len(ins) != n {
					b.Fatal(len(ins))
				}
			}
		})
		b.Run(fmt.Sprintf("sums/%d", n), func(b *testing.B) {
			ins := need.Get(s.Outages(ctx, now, n))(b)
			for range b.N {
				if need.OK(b, s.Sums(ctx, ins, now)); ins[0].Fates[ledger.FateOpen].N+ins[0].Fates[ledger.FateChecking].N != 200 {
					b.Fatal(ins[0])
				}
			}
		})
	}
	b.Run("outage", func(b *testing.B) {
		id := need.Get(s.Outages(ctx, now, 1))(b)[0].ID
		for range b.N {
			if a := need.Get(s.Outage(ctx, id, now))(b); a.Errors() != 200 || len(a.Groups) == 0 {
				b.Fatal(a)
			}
		}
	})
	b.Run("next", func(b *testing.B) {
		q := ledger.Query{Tab: ledger.TabNeedsYou}
		for range b.N {
			if q.After = page(b, q).Next; q.After == "" {
				b.Fatal("the end")
			}
		}
	})
	search := func(name string, tab ledger.Tab, text string, rows int) {
		filter := need.Get(ledger.ParseFilter(text))(b)
		b.Run(name+"/"+text, func(b *testing.B) {
			for range b.N {
				if p := page(b, ledger.Query{Tab: tab, Filter: filter}); len(p.Rows) < rows {
					b.Fatal(len(p.Rows))
				}
			}
		})
	}
	for _, text := range []string{"cus_42", "nothing-like-it", "kind:mail.send cost>10"} {
		search("filter", ledger.TabNeedsYou, text, 0)
	}
	for _, text := range []string{"key:key-31415", "token:indoubt-314159", "receipt:ch_314159", "01900000-0000-7000-8000-000000314159"} {
		search("find", ledger.TabAll, text, 1)
	}
}

// doubt leaves n priced operations in doubt.
func doubt(b *testing.B, s ledger.Store, n int) {
	Rate(n, 64, func(int) {
		id := ledger.NewID()
		res := need.Get(ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: id, AttemptID: ledger.NewID(), Kind: "stripe.charge", Key: id, Token: id,
			Fingerprint: id, Title: "charge " + id, Target: "invoice " + id, Input: []byte(`{"amount":42000}`), Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: benched}))(b)
		need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeUncertain,
			ErrorClass: ledger.ClassTimeout, Error: "no answer", TokenSent: true, Actor: benched}))(b)
	})
	due := need.Get(s.Due(ctx, "", time.Now(), n))(b)
	prices := make([]ledger.Pricing, len(due))
	for i, r := range due {
		prices[i] = ledger.Pricing{OperationID: r.ID, Digest: "p1", Downstream: "stripe", Title: "charge " + r.ID, Rank: float64(i % 97), DecideAt: time.Now().Add(time.Hour)}
	}
	need.OK(b, s.Price(ctx, prices))
}

var benched = ledger.Actor{Name: "billing", Machine: true}

// BenchEngine reads ten thousand operations in doubt in batches and settles
// each by a check, as an engine does: batches of 256, 64 reads at once.
func BenchEngine(b *testing.B, open func() ledger.Store) {
	const n, batch, wide = 10_000, 256, 64
	for range b.N {
		b.StopTimer()
		s := open()
		doubt(b, s, n)
		b.StartTimer()
		began := time.Now()
		for done := 0; done < n; {
			due := need.Get(s.Due(ctx, "", time.Now(), batch))(b)
			ids := make([]string, len(due))
			for i, r := range due {
				ids[i] = r.ID
			}
			if recs := need.Get(s.Records(ctx, ids))(b); len(recs) != len(due) || len(due) == 0 {
				b.Fatalf("%d records of %d due", len(recs), len(due))
			}
			Rate(len(due), wide, func(i int) {
				r := due[i-1]
				now := time.Now()
				verdict, receipts := ledger.Landed, []string{fmt.Sprint("ch_", i)}
				if i%4 == 0 {
					verdict, receipts = ledger.NotThere, nil
				}
				applied, err := ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: r.Version, Settles: true,
					Actor: benched, Read: ledger.Read{ID: ledger.NewID(), OperationID: r.ID, BeganAt: now, EndedAt: now, Verdict: verdict, Reason: "the list shows it",
						Found: len(receipts), Receipts: receipts, Evidence: []byte(`{"status":200,"body":{"data":[]}}`), Digest: "p1", Actor: "auto"}})
				need.That(b, err == nil && applied.After.State != ledger.Uncertain, "%s: %v", applied.After.State, err)
			})
			done += len(due)
		}
		b.ReportMetric(n/time.Since(began).Seconds(), "settled/s")
	}
	b.ReportMetric(0, "ns/op")
}
