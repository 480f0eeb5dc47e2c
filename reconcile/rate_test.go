package reconcile

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/policy/transport"
)

func (a *arrivals) note() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = append(a.at, time.Now())
}

// within tells that no more questions came than a rate allows, over any second
// and over any stretch from the first one on. What is held up on the way only
// comes later; a few of them may then come close together.
func (a *arrivals) within(t *testing.T, perSecond float64, began time.Time) {
	t.Helper()
	a.mu.Lock()
	at := slices.SortedFunc(slices.Values(a.at), time.Time.Compare)
	a.mu.Unlock()
	every := time.Duration(float64(time.Second) / perSecond)
	for i, first := range at {
		if first.Sub(began) < time.Duration(i)*every-time.Millisecond {
			t.Fatalf("%d questions within %s", i+1, first.Sub(began))
		}
		n := 1
		for n < len(at)-i && at[i+n].Sub(first) < time.Second {
			n++
		}
		if most := int(perSecond*1.2) + 1; n > most {
			t.Fatalf("%d questions within a second, at most %d are allowed", n, most)
		}
	}
}

// another engine is one with a store of its own, as in another process.
func (w *world) another(o Options) *Engine {
	w.Helper()
	o.Store, o.Policy, o.Clock, o.Log = reopened(w), w.inForce, w.now, func(s string) { w.Logf("another engine: %s", s) }
	if o.Actor.Name == "" {
		o.Actor = maya
	}
	return w.made(New(o))
}

// However many engines work on a ledger, a downstream is asked no more often than its rate:
// one of them leads it.
func TestTheRateHoldsForAllEnginesOfALedger(t *testing.T) {
	inABubble(t, askingOne("    rate: 50/s\n    concurrency: 4\n"), func(t *testing.T, w *world) {
		var a arrivals
		w.side.onList = a.handle(time.Millisecond)
		a.doubts(w, 120)
		began := time.Now()
		for _, e := range []*Engine{w.engine, w.another(Options{}), w.another(Options{})} {
			w.run(e)
		}
		eventually(t, "all settled", func() bool {
			c, err := w.store.Counts(w.ctx, w.now())
			return err == nil && c.ByState[ledger.Uncertain] == 0
		})
		need.That(t, len(a.at) == 120+a.never && a.never == 1, "%d questions about 120, %d of them for what was never sent", len(a.at), a.never)
		a.within(t, 50, began)
	})
}

// What a person asks for, further pages and sends keep to the rate too.
func TestEverythingThatIsAskedKeepsToTheRate(t *testing.T) {
	inABubble(t, strings.Replace(payPolicy, "    base:", "    rate: 10/s\n    base:", 1), func(t *testing.T, w *world) {
		o, more := w.proven("pay"), w.doubt("pay", 5)
		var a arrivals
		w.side.mu.Lock()
		w.side.page = 1 // so that a list has several
		w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool { a.note(); return false }
		w.side.onPost = func(s *side, rw http.ResponseWriter, _ *http.Request, c charge) {
			a.note()
			rw.WriteHeader(201)
			_ = json.NewEncoder(rw).Encode(s.apply(c))
		}
		w.side.mu.Unlock()
		w.side.apply(charge{Ref: "somebody else's"})
		began := time.Now()
		// A check, its control, and the send; beside them, a person's checks.
		var all sync.WaitGroup
		all.Go(func() {
			for range 3 {
				if _, err := w.engine.ReadNow(w.ctx, more.ID); err != nil {
					t.Error(err)
				}
			}
		})
		res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisProof, Actor: maya, Reason: "again"})
		need.Must(t, err == nil && res.Did == DidSend, "%s %v", res.Did, err)
		all.Wait()
		need.Must(t, len(a.at) >= 10, "%d requests", len(a.at))
		a.within(t, 10, began)
	})
}

// One that is asked for a pause is not asked by all who waited at once when the
// pause is over.
func TestAfterAPauseTheRateHolds(t *testing.T) {
	inABubble(t, askingOne("    rate: 20/s\n    concurrency: 64\n"), func(t *testing.T, w *world) {
		var a arrivals
		count := a.handle(time.Millisecond)
		w.side.onList = func(s *side, rw http.ResponseWriter, r *http.Request) bool {
			a.mu.Lock()
			first := len(a.at) == 0
			a.mu.Unlock()
			if !first {
				return count(s, rw, r)
			}
			a.note()
			return answer(429, map[string]string{"Retry-After": "1"}, "")(s, rw, r)
		}
		for range 30 {
			w.doubt("pay", 1)
		}
		began := time.Now()
		need.Get(w.engine.Once(w.ctx, nil))(t)
		need.That(t, len(a.at) >= 20, "%d questions", len(a.at))
		a.within(t, 20, began)
	})
}

// With the first of some requests as late as a reserved read may begin and the others in
// time, no second sees more than the rate; nor do ten minutes see two of six an hour.
func TestLateTurnsStayWithinTheRate(t *testing.T) {
	for _, rate := range []float64{1, 3, 50, 300, 5000, 6.0 / 3600} {
		apart := every(transport.Downstream{RatePerSecond: rate})
		stretch := time.Duration(float64(time.Second) * max(1, 1/rate))
		if n := 1 + int((stretch+tardy-1)/apart); float64(n) > max(1, rate) {
			t.Errorf("%g a second: %d within %s", rate, n, stretch)
		}
	}
}

// A program that stood still does not send at once all that it has kept waiting.
func TestALateCallerTakesAnotherTime(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		d := w.engine.downs.make("pay", "")
		d.wall = w.now
		d.limit(transport.Downstream{RatePerSecond: 1})
		began := w.now()
		taken := func() time.Duration {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.next.Sub(began)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				done, err := d.admit(w.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				done()
			})
		}
		eventually(t, "all wait for their turn", func() bool { return taken() >= 4*d.every })
		w.pass(time.Minute)
		all.Wait()
		need.That(t, taken() >= time.Minute+3*d.every, "three came late, and the times up to %s are taken", taken())
	})
}

// A time far ahead is not given away, unused ones are not saved up, and a rate that was raised
// counts at once.
func TestTheTimesOfARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := downstreams{now: time.Now}
		slow := &policy.Kind{Downstream: &transport.Downstream{Name: "pay", RatePerSecond: 1.0 / 60}}
		d := all.of(slow)
		began := time.Now()
		for n := range 3 {
			at, err := d.reserve(t.Context())
			need.That(t, err == nil && at.Sub(began) == time.Duration(n)*d.every, "%s %v", at.Sub(began), err)
		}
		for range 2 {
			go func() { _, _ = d.reserve(t.Context()) }()
		}
		synctest.Wait()
		_, err := d.reserve(t.Context())
		need.That(t, errors.As(err, new(*waitError)), "a time beyond patience: %v", err)
		d = all.of(&policy.Kind{Downstream: &transport.Downstream{Name: "pay", RatePerSecond: 1}})
		began = time.Now()
		at, err := d.reserve(t.Context())
		need.That(t, err == nil && at.Sub(began) <= d.every, "%s %v", at.Sub(began), err)
		time.Sleep(time.Hour)
		began = time.Now()
		for n := range 2 {
			at, err = d.reserve(t.Context())
			need.That(t, err == nil && at.Sub(began) == time.Duration(n)*d.every, "after an hour: %s %v", at.Sub(began), err)
		}
	})
}
