//go:build soak

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
			if errors.Is(err, ledger.ErrFailover) || b.Answer == ledger.AnswerHeld { // who remembers what is lost has begins held
				f.refused.Add(1)
			}
			if err != nil || b.Answer != ledger.AnswerBegun {
				continue
			}
			f.mu.Lock()
			need.That(f, f.sent[key].ID == "", "%s is sent twice", key)
			need.That(f, phase != 1 || f.phase.Load() != 1, "%s is sent before the ledger was adopted", key)
			if phase == 2 { // what was begun before, the ledger may have lost
				f.sent[key] = b.Operation
			}
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

// I3, I10: a person adopts a ledger that failed over while recorders and an engine work on it.
// Nothing is sent before. What is sent after that is sent once and recorded, and recorders
// and engine go on as they are.
func TestI3_AdoptedWhileAllAreAtWork(t *testing.T) {
	t.Run("refused", func(t *testing.T) { adopted(t, false) })
	t.Run("at once", func(t *testing.T) { adopted(t, true) })
}

// replicated is a ledger with a standby behind a relay, and the address of both: that of the
// standby by another way.
func replicated(t *testing.T, way func(standby string) string) (primary, standby *pgtest.Cluster, relay *pgtest.Relay, hosts string) {
	primary = pgtest.Start(t, pgtest.Options{})
	need.OK(t, primary.Exec("postgres", "CREATE DATABASE ledger"))
	relay, by := pgtest.Through(t, primary.URL("postgres"))
	standby = pgtest.Start(t, pgtest.Options{From: primary, By: by})
	need.OK(t, need.Get(need.Get(open.At(primary.URL("ledger")))(t).Make(t.Context(), open.Options{AsyncStandby: "what it loses is what is tried"}))(t).Close())
	u := need.Get(url.Parse(way(standby.URL("ledger"))))(t)
	return primary, standby, relay, strings.Replace(primary.URL("ledger"), "/ledger", ","+u.Host+"/ledger", 1) + "&target_session_attrs=read-write"
}

// adopted has the person be there before a recorder has noticed anything, or not.
func adopted(t *testing.T, atOnce bool) {
	primary, standby, relay, hosts := replicated(t, func(standby string) string { return standby })
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
	now := f.fails(primary, standby, relay)
	risk := func() error {
		o := f.get(missing.ID).Operation
		_, err := f.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "must", LossTyped: true, Actor: maya})
		return err
	}
	if !atOnce {
		f.until("a begin is refused", func() bool { return f.refused.Load() > 0 })
		err := risk()
		need.That(t, errors.Is(err, ledger.ErrFailover) || errors.Is(err, ledger.ErrRefused), "the engine sends before the ledger was adopted: %v", err)
	}
	f.phase.Store(2)
	need.OK(t, need.Get(open.At(now))(t).Adopt(t.Context(), open.Options{Actor: maya}))
	f.policy(fmt.Sprintf(payPolicy, f.side.URL))
	need.OK(t, f.store.LiftHold(t.Context(), ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: maya, Reason: "looked"}))
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
}

// I9: a person adopts the ledger while one who knows what it has lost is still sending it, and
// another one sends the same again. Nothing could stop that, and it is raised as soon as the
// first one has settled: what landed twice, and what may have.
func TestI9_AdoptedWhileALostAttemptIsSent(t *testing.T) {
	var away *pgtest.Relay
	primary, standby, relay, hosts := replicated(t, func(standby string) (by string) {
		away, by = pgtest.Through(t, standby)
		return by
	})
	opened := func(at string) ledger.Store {
		s := need.Get(open.Open(t.Context(), at, open.Options{}))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	f := &failing{world: &world{TB: t, ctx: t.Context(), store: opened(hosts)}}
	f.side = newSide(t, f.now)
	// send is a pipeline that sends under a key, and is told of it, or not. It settles that now or later.
	send := func(r *record.Recorder, key string, applied, told bool) (ledger.BeginResult, func()) {
		t.Helper()
		b := need.Get(r.Begin(t.Context(), record.Request{Kind: "pay", Key: key, Input: fmt.Appendf(nil, `{"amount": 1, "n": "%s"}`, key), TokenSent: true}))(t)
		need.Must(t, b.Answer == ledger.AnswerBegun, "%s: %s", key, b.Answer)
		settle := ledger.SettleRequest{AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1}
		if applied {
			c := f.side.apply(charge{Ref: b.Operation.Token, Amount: 1, Key: key})
			if told {
				settle.Outcome, settle.Receipt, settle.Status = ledger.OutcomeCommitted, c.ID, 201
			}
		}
		return b, func() { _ = need.Get(r.SettleSurely(t.Context(), settle))(t) }
	}
	type way struct{ applied, told bool }
	ways := map[string][2]way{
		"both": {{true, true}, {true, true}}, "first in doubt": {{true, false}, {true, true}}, "second in doubt": {{true, true}, {true, false}},
		"both in doubt": {{true, false}, {true, false}}, "second alone": {{false, false}, {true, true}},
	}
	first := record.New(f.store, nil, record.Options{Log: func(s string) { t.Logf("first: %s", s) }})
	_, settle := send(first, "kept", true, true)
	settle()
	f.until("the standby has it", func() bool {
		out, err := pgtest.Psql(t, standby.URL("ledger"), "SELECT count(*) FROM indoubt.op WHERE state = 'committed'")
		return err == nil && strings.TrimSpace(out) == "1"
	})
	relay.Away(true)
	away.Away(true)
	lost, again, settles := map[string]ledger.BeginResult{}, map[string]ledger.BeginResult{}, []func(){}
	for key, w := range ways {
		lost[key], settle = send(first, key, w[0].applied, w[0].told)
		settles = append(settles, settle)
	}
	primary.Kill()
	need.OK(t, standby.Promote())
	at := standby.URL("ledger")
	need.OK(t, need.Get(open.At(at))(t).Adopt(t.Context(), open.Options{Actor: maya}))
	f.store = opened(at)
	need.OK(t, f.store.LiftHold(t.Context(), ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: maya, Reason: "looked"}))
	second := record.New(f.store, nil, record.Options{})
	for key, w := range ways {
		again[key], settle = send(second, key, w[1].applied, w[1].told)
		settle()
	}
	sent, _, _ := f.side.count()

	away.Away(false)
	for _, settle := range settles {
		settle()
	}
	for key, b := range lost {
		rec, other := f.get(b.Operation.ID), f.get(again[key].Operation.ID)
		need.That(t, !rec.Operation.KeyLive && other.Operation.KeyLive && len(rec.Attempts) == 1 && rec.Operation.Token == b.Operation.Token, "%s: %+v", key, rec.Operation)
		twice := ways[key][0].told
		need.Equal(t, rec.Operation.Conflict == ledger.ConflictMaybeTwice, twice, key, "is raised at once")
		need.That(t, !twice || strings.Contains(rec.Operation.ConflictNote, strings.TrimSuffix(other.Operation.ID+" ("+other.Operation.Receipt()+")", " ()")), "%s: %s", key, rec.Operation.ConflictNote)
	}
	f.policy(strings.NewReplacer("lands_within: 20s", "lands_within: 1ms", "visible_within: 10s", "visible_within: 1ms").Replace(fmt.Sprintf(payPolicy, f.side.URL)))
	f.engine = New(Options{Store: f.store, Policy: f.inForce, Actor: maya, Log: func(s string) { t.Logf("engine: %s", s) }})
	for _, b := range lost {
		f.read(b.Operation.ID)
	}
	for key, b := range lost {
		rec := f.get(b.Operation.ID)
		need.Equal(t, rec.Operation.Conflict == ledger.ConflictMaybeTwice, ways[key][0].applied, key, "is raised when it landed")
		need.That(t, len(rec.Related) == 1 && rec.Related[0].ID == again[key].Operation.ID && rec.Related[0].Overtook && rec.Related[0].Receipt == f.get(again[key].Operation.ID).Operation.Receipt(), "%s: %+v", key, rec.Related)
		if rec.Operation.Conflict == ledger.NoConflict {
			continue
		}
		applied := need.Get(ledger.Decide(t.Context(), f.store, ledger.Decision{ChangeID: ledger.NewID(), ID: b.Operation.ID, Version: rec.Operation.Version, Verb: ledger.VerbAck,
			Truth: ledger.TakenBack, Reference: "re_1", Actor: maya}))(t)
		need.That(t, applied.After.Conflict == ledger.NoConflict && applied.After.State == ledger.Committed, "%s: %+v", key, applied.After)
	}
	need.That(t, first.Drain(t.Context()) == 0 && second.Drain(t.Context()) == 0, "something is kept")
	effects, _, _ := f.side.count()
	need.Equal(t, effects, sent, "something was sent by this")
}
