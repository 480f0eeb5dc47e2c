package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/record"
)

// amply is how long the test waits for what must come.
const amply = 2 * time.Minute

// failing is a ledger whose primary dies with what its standby has not got, and the pipelines
// that record in it.
type failing struct {
	*world
	phase   atomic.Int32 // 0 until it is dead, 1 until a person adopts the ledger
	refused atomic.Int64
	begun   [4]atomic.Int64 // of each pipeline

	mu   sync.Mutex
	sent map[string]ledger.Operation // by key
}

// until waits for it.
func (f *failing) until(what string, ok func() bool) {
	f.Helper()
	for end := time.Now().Add(amply); !ok(); time.Sleep(5 * time.Millisecond) {
		need.Must(f, time.Now().Before(end), "never: %s", what)
	}
}

// more waits until each pipeline has begun some more.
func (f *failing) more(n int64) {
	f.Helper()
	for i := range f.begun {
		was := f.begun[i].Load()
		f.until("a pipeline goes on", func() bool { return f.begun[i].Load() >= was+n })
	}
}

// pipeline sends what its recorder lets it, and asks for each twice, until ctx ends.
func (f *failing) pipeline(ctx context.Context, n int, r *record.Recorder) {
	for i := 0; ctx.Err() == nil; i++ {
		for back := range 8 {
			key := fmt.Sprintf("p-%d-%d", n, i-back)
			phase := f.phase.Load()
			b, err := r.Begin(f.ctx, record.Request{Kind: "pay", Key: key, Input: fmt.Appendf(nil, `{"amount": 1, "n": "%s"}`, key), TokenSent: true})
			if errors.Is(err, ledger.ErrFailover) {
				f.refused.Add(1)
			}
			if err != nil || b.Answer != ledger.AnswerBegun {
				continue
			}
			f.mu.Lock()
			need.That(f, f.sent[key].ID == "", "%s is sent twice", key)
			need.That(f, phase != 1 || f.phase.Load() != 1, "%s is sent before the ledger was adopted", key)
			f.sent[key] = b.Operation
			f.mu.Unlock()
			c := f.side.apply(charge{Ref: b.Operation.Token, Amount: 1, Key: key})
			_, _ = r.SettleSurely(f.ctx, ledger.SettleRequest{AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: c.ID, Status: 201})
			f.begun[n].Add(1)
		}
	}
}

// fails has the primary die, and its standby take over without the newest writes. It returns
// the ledger's new address.
func (f *failing) fails(primary, standby *pgtest.Cluster, relay *pgtest.Relay) string {
	f.more(2)
	relay.Away(true)
	f.more(2)
	primary.Kill()
	f.phase.Store(1) // what begins from here on, the old one does not allow
	need.OK(f, standby.Promote())
	return standby.URL("ledger")
}

// I3, I10: a person adopts a ledger that failed over while recorders offer what it has lost
// and an engine works on it. Nothing is sent before, nothing is sent twice, all that was sent
// is recorded once, and recorders and engine go on as they are.
func TestI3_AdoptedWhileAllAreAtWork(t *testing.T) {
	t.Run("refused", func(t *testing.T) { adopted(t, false) })
	t.Run("at once", func(t *testing.T) { adopted(t, true) })
}

// adopted has the person be there before a recorder has noticed anything, or not.
func adopted(t *testing.T, atOnce bool) {
	primary := pgtest.Start(t, pgtest.Options{})
	psql := func(url, query string) string {
		out, err := pgtest.Psql(t, url, query)
		need.OK(t, err, out)
		return strings.TrimSpace(out)
	}
	psql(primary.URL("postgres"), "CREATE DATABASE ledger")
	relay, by := pgtest.Through(t, primary.URL("postgres"))
	standby := pgtest.Start(t, pgtest.Options{From: primary, By: by})
	need.OK(t, need.Get(need.Get(open.At(primary.URL("ledger")))(t).Make(t.Context(), open.Options{}, open.Making{}))(t).Close())
	hosts := strings.Replace(primary.URL("ledger"), "/ledger", fmt.Sprintf(",127.0.0.1:%d/ledger", standby.Port), 1) + "&target_session_attrs=read-write"
	opened := func() ledger.Store {
		s := need.Get(open.Open(t.Context(), hosts, open.Options{}))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	f := &failing{world: &world{TB: t, ctx: t.Context(), store: opened()}, sent: map[string]ledger.Operation{}}
	f.side = newSide(t, f.now)
	f.policy(fmt.Sprintf(payPolicy, f.side.URL))
	f.engine = New(Options{Store: f.store, Policy: f.inForce, Actor: maya, Log: func(s string) { t.Logf("engine: %s", s) }})
	defer f.run(f.engine)()
	missing := f.doubt("pay", 420)

	working, end := context.WithCancel(t.Context())
	defer end()
	var all sync.WaitGroup
	var recorders []*record.Recorder
	for n := range f.begun {
		r := record.New(opened(), nil, record.Options{Log: func(s string) { t.Logf("recorder %d: %s", n, s) }})
		recorders = append(recorders, r)
		all.Go(func() { f.pipeline(working, n, r) })
	}
	url := f.fails(primary, standby, relay)
	risk := func() error {
		o := f.get(missing.ID).Operation
		_, err := f.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "must", LossTyped: true, Actor: maya})
		return err
	}
	if !atOnce {
		f.until("a begin is refused", func() bool { return f.refused.Load() > 0 })
		err := risk()
		need.That(t, errors.Is(err, ledger.ErrFailover), "the engine sends before the ledger was adopted: %v", err)
	}
	f.phase.Store(2)
	need.OK(t, need.Get(open.At(url))(t).Adopt(t.Context(), open.Options{Actor: maya}))
	f.more(2)
	need.OK(t, risk())
	landed := f.doubt("pay", 7, 7)
	f.until("a check finds it", func() bool { return f.get(landed.ID).Operation.State == ledger.Committed })
	end()
	all.Wait()
	for _, r := range recorders {
		need.Equal(t, r.Drain(t.Context()), 0)
	}
	for key, o := range f.sent {
		var rec ledger.Record
		f.until(key+" is recorded", func() bool {
			rec, _ = f.store.Read(t.Context(), ledger.Locator{ID: o.ID})
			return rec.Operation.State == ledger.Committed
		})
		need.That(t, rec.Operation.Key == key && len(rec.Attempts) == 1 && rec.Operation.Effects == 1 && rec.Operation.Conflict == ledger.NoConflict, "%s: %+v", key, rec.Operation)
	}
	need.Equal(t, psql(url, "SELECT count(*) - count(DISTINCT operation_id), count(*) > 0 FROM indoubt.events WHERE verb = 'offer'"), "0|t", "each that was lost is offered once")
	need.Equal(t, psql(url, "SELECT count(*) FROM indoubt.operations WHERE key LIKE 'p-%'"), fmt.Sprint(len(f.sent)))
}
