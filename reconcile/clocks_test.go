package reconcile

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// No clock changes a price: what needs a person by then does so without a write.
func TestAPriceIsTheSameAtAnyTime(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420)
	need.Get(w.engine.priceBatch(w.ctx))(t)
	lanes := map[time.Duration]ledger.Lane{time.Second: ledger.LaneReading, pastProof: ledger.LaneReading, 16 * time.Minute: ledger.LaneDecide, 48 * time.Hour: ledger.LaneDecide}
	for _, later := range slices.Sorted(maps.Keys(lanes)) {
		w.pass(later)
		rec := w.get(o.ID)
		p := w.inForce().Kind("pay").Price(rec)
		p.Version = 0
		need.That(t, p == rec.Pricing, "after %s: %+v, then %+v", later, rec.Pricing, p)
		need.Equal(t, w.lane(o.ID), lanes[later], "after", later)
	}
}

func TestOddsRestOnTheLedger(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	var settled []ledger.Operation
	for range 8 {
		settled = append(settled, w.doubt("pay", 420, 420))
	}
	for _, o := range settled {
		w.read(o.ID)
	}
	o := w.doubt("pay", 1)
	wise := NewHistory(w.store).Policy(w.ctx, w.inForce())
	odds, blank := wise.Kind("pay").Odds(w.get(o.ID)), w.inForce().Kind("pay").Odds(w.get(o.ID))
	need.That(t, odds.N == 8 && odds.P > blank.P && blank.N == 0 && wise.Digest() == w.inForce().Digest(), "%+v, without its history %+v", odds, blank)
	h := NewHistory(w.store)
	need.Equal(t, h.Policy(w.ctx, w.inForce()), h.Policy(w.ctx, w.inForce()), "a history makes a new policy each time it is asked")
}

// The sum over the list is that of the rows as they are seen: what no check reads was priced
// when it came, and the ledger has learned since how others ended.
func TestAPriceFollowsTheHistoryWhereItIsSeen(t *testing.T) {
	w := newWorld(t, payPolicy+"  legacy:\n    cost: { duplicate: 100, miss: 100 }\n")
	w.known("pay")
	o := w.doubt("legacy", 1)
	need.Get(w.engine.priceBatch(w.ctx))(t)
	before := w.get(o.ID).Pricing
	for range 8 {
		w.read(w.doubt("pay", 420, 420).ID)
	}
	c := &counted{Store: w.store}
	e := New(Options{Store: c, Policy: w.inForce, Clock: w.now, Steady: w.steady, Actor: maya})
	e.Claim()
	for range 2 {
		need.OK(t, e.PriceAsSeen(w.ctx, []string{o.ID}))
	}
	after := w.get(o.ID).Pricing
	want := NewHistory(w.store).Policy(w.ctx, w.inForce()).Kind("legacy").Price(w.get(o.ID))
	need.That(t, before.Rank == 50 && after.Rank == want.Rank && after.Rank < before.Rank && after.ReadAt.Equal(before.ReadAt), "%+v, then %+v, want %+v", before, after, want)
	need.Equal(t, c.price.Load(), int64(1), "writes")
	counts := need.Get(w.store.Counts(w.ctx, w.now()))(t)
	need.That(t, math.Abs(counts.Loss-after.Rank) < 0.001, "the sum is %v", counts.Loss)
}

// silent is a ledger whose server does not answer until it is told to.
type silent struct {
	ledger.Statistics
	answer chan []ledger.DoubtCount
}

func (s silent) DoubtCounts(context.Context) ([]ledger.DoubtCount, error) { return <-s.answer, nil }

// A screen asks for the policy each time it is drawn, and is drawn while the server is silent.
func TestASilentLedgerKeepsNoOneFromThePolicy(t *testing.T) {
	w := newWorld(t, payPolicy)
	s := silent{answer: make(chan []ledger.DoubtCount, 1)}
	s.answer <- nil
	h := NewHistory(s)
	before := h.Policy(w.ctx, w.inForce())
	h.fetched = time.Now().Add(-2 * historyAge)
	for range 2 {
		need.Equal(t, h.Policy(w.ctx, w.inForce()), before)
	}
	s.answer <- []ledger.DoubtCount{{Kind: "pay", Class: ledger.ClassTimeout, Landed: 8}}
	for end := time.Now().Add(testPatience); h.Policy(w.ctx, w.inForce()) == before; time.Sleep(time.Millisecond) {
		need.Must(t, time.Now().Before(end), "what it tells at last is not taken in")
	}
}
