package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
)

func TestRunSettlesByItself(t *testing.T) {
	inABubble(t, strings.NewReplacer("lands_within: 20s", "lands_within: 300ms", "visible_within: 10s", "visible_within: 200ms").Replace(payPolicy), func(t *testing.T, w *world) {
		w.known("pay")
		time.Sleep(250 * time.Millisecond) // what is younger than visible_within controls nothing
		landed, not, twice := w.doubt("pay", 1, 1), w.doubt("pay", 2), w.doubt("pay", 3, 3, 3)
		w.run(w.engine)
		// One that comes while it runs, and one whose deadline passes.
		late := w.doubt("pay", 4, 4)
		crashed := w.begin("pay", 5)
		w.side.apply(charge{Ref: crashed.Operation.Token, Amount: 5})
		state := func(id string) ledger.State { return w.get(id).Operation.State }
		eventually(t, "landed", func() bool { return state(landed.ID) == ledger.Committed && state(late.ID) == ledger.Committed })
		eventually(t, "not landed", func() bool { return state(not.ID) == ledger.Failed })
		eventually(t, "twice", func() bool { return w.get(twice.ID).Operation.Conflict == ledger.ConflictTwice })
		w.pass(61 * time.Second)
		eventually(t, "crashed", func() bool { return state(crashed.Operation.ID) == ledger.Committed })
		need.Equal(t, w.get(landed.ID).Operation.Actor, "checks", "settled by")
		h := w.engine.Health()
		need.That(t, len(h) == 1 && h[0].Downstream == "pay" && h[0].State == StateUp && !h[0].Answered.IsZero(), "%+v", h)
		p := w.get(not.ID).Pricing
		need.That(t, p.Digest == w.inForce().Digest() && p.Duplicate.Value == 2, "%+v", p)
	})
}

func TestOnce(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	for i := range 20 {
		w.doubt("pay", 100+i, []int{100 + i}[:i%2]...)
	}
	crashed := w.begin("pay", 9)
	w.pass(2 * time.Minute)
	told := 0
	s, err := w.engine.Once(w.ctx, func(ReadResult, error) { told++ })
	need.That(t, err == nil && s.Read[ledger.Landed] == 10 && s.Read[ledger.NotThere] == 10 && s.Errors == 0 && told == 21, "%+v told %d, %v", s, told, err)
	next := w.get(crashed.Operation.ID).Pricing.ReadAt
	again := need.Get(w.engine.Once(w.ctx, nil))(t)
	need.That(t, len(again.Read) == 0 || !w.now().Before(next), "%d are checked again before %s", len(again.Read), next)
	w.pass(2 * time.Minute)
	need.Get(w.engine.Once(w.ctx, nil))(t) // it was seen for long enough
	need.Equal(t, w.get(crashed.Operation.ID).Operation.State, ledger.Failed, "crashed")
}

// during is a ledger that is asked for what has no price while a pass goes on.
type during struct {
	within
	pass func()
}

func (d during) Unpriced(ctx context.Context, digest string, n int) ([]ledger.Operation, error) {
	d.pass()
	return d.within.Unpriced(ctx, digest, n)
}

// A pass that found no room, and in which all that was being checked ended, is not the last.
func TestOnceEndsWhenNothingIsDue(t *testing.T) {
	w := newWorld(t, payPolicy)
	const n = 40
	for i := range n {
		w.doubt("pay", 100+i, 100+i)
	}
	release, told, passes := make(chan struct{}), atomic.Int64{}, 0
	w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool {
		<-release
		return false
	}
	var e *Engine
	w.store = during{within{w.store}, func() {
		switch passes++; passes {
		case 1:
			e.nudge() // another pass, without room
		case 2:
			d := e.downs.of(w.inForce().Kind("pay"))
			need.That(t, d.look() == 0, "there is room")
			close(release)
			eventually(t, "all of them end", func() bool { return told.Load() == int64(inHand*cap(d.slots)) })
		}
	}}
	e = w.newEngine(Options{})
	s, err := e.Once(w.ctx, func(ReadResult, error) { told.Add(1) })
	need.That(t, err == nil && s.Read[ledger.Landed] == n, "%+v of %d, %v", s, n, err)
}

// meanwhile is a ledger in which something happens once it was asked what is due.
type meanwhile struct {
	within
	happens func(ledger.Due)
}

func (m meanwhile) Due(ctx context.Context, downstream string, now time.Time, limit int) ([]ledger.Due, error) {
	rows, err := m.within.Due(ctx, downstream, now, limit)
	if len(rows) > 0 {
		m.happens(rows[0])
	}
	return rows, err
}

// What was settled while it was asked what is due is not checked, and no one is told of it.
func TestOnceTellsOfWhatItChecks(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	for i := range 3 {
		w.doubt("pay", 100+i, 100+i)
	}
	var settled sync.Once
	w.store = meanwhile{within{w.store}, func(row ledger.Due) {
		settled.Do(func() {
			need.Get(ledger.Decide(w.ctx, w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: row.ID, Version: row.Version,
				Verb: ledger.VerbConfirm, Reason: "seen there", Actor: ledger.Actor{Name: "sam", Terminal: true}}))(t)
		})
	}}
	told := 0
	s, err := w.newEngine(Options{}).Once(w.ctx, func(ReadResult, error) { told++ })
	need.That(t, err == nil && s.Read[ledger.Landed] == 2 && s.Skipped == 0 && told == 2, "%+v told %d, %v", s, told, err)
}

// What was recorded before there was a policy is due as soon as one is there: one pass is
// enough to price it and to check it.
func TestOnceChecksWhatAPolicyHasJustMadeDue(t *testing.T) {
	w := newWorld(t, payPolicy)
	text := w.inForce()
	w.pol.Store(noPolicy())
	w.doubt("pay", 420, 420)
	need.Equal(t, need.Get(w.engine.Once(w.ctx, nil))(t).Read[ledger.Landed], 0, "without a policy")
	w.pol.Store(text)
	need.Equal(t, need.Get(w.engine.Once(w.ctx, nil))(t).Read[ledger.Landed], 1)
}

func TestKindWithoutACheckWaitsForAPerson(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("fax", 1)
	need.Get(w.engine.Once(w.ctx, nil))(t)
	p := w.get(o.ID).Pricing
	need.That(t, p.ReadAt.Equal(ledger.Never) && p.Reads == 0, "%+v", p)
	_, err := w.engine.ReadNow(w.ctx, o.ID)
	need.That(t, code(err) == "no_check", "%v", err)
	b := w.begin("pay", 1)
	_, err = w.engine.ReadNow(w.ctx, b.Operation.ID)
	need.That(t, code(err) == "in_progress", "%v", err)
	_, err = w.engine.ReadNow(w.ctx, "nothing")
	need.That(t, errors.Is(err, ledger.ErrNotFound), "%v", err)
}

func TestNextReadBacksOffAndMeetsTheProof(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	most := func() float64 { return 0.9999 }
	before := time.Duration(0)
	for done := 1; done < 40; done++ {
		pause := nextRead(done, now, time.Time{}, false, most).Sub(now)
		need.That(t, pause >= before && pause <= readMax, "after %d reads: %s", done, pause)
		before = pause
	}
	need.That(t, before >= 59*time.Minute, "at last %s", before)
	need.Equal(t, nextRead(20, now, time.Time{}, false, func() float64 { return 0 }).Sub(now), readFloor, "jitter asks again after")
	proof := now.Add(41 * time.Second)
	next := nextRead(20, now, proof, true, most)
	need.That(t, next.After(proof) && !next.After(proof.Add(proofSpread+time.Second)), "%s after the proof", next.Sub(proof))
	next = nextRead(20, now, now.Add(-time.Second), true, most)
	need.That(t, next.Sub(now) >= time.Minute, "proof is past, and yet %s", next.Sub(now))
}

func TestI7_WhatMovedMeanwhileIsNotSettledByAnOldRead(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	o := w.doubt("pay", 420)
	w.pass(pastProof)
	var once sync.Once
	w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool {
		once.Do(func() {
			_, err := ledger.Decide(w.ctx, w.store, ledger.Decision{ChangeID: "d", ID: o.ID, Version: o.Version, Verb: ledger.VerbAbandon, Reason: "given up", Actor: maya})
			need.That(t, err == nil, "%v", err)
		})
		return false
	}
	res := w.read(o.ID)
	need.That(t, res.Operation.State == ledger.Abandoned && res.Operation.Version == o.Version+1, "%+v", res.Operation)
}

// Two checks at the same time, of processes that both lead or of none, do no harm: what both
// find is there once, and a second one proves nothing anew.
func TestI9_TwoChecksAtOnceDoNoHarm(t *testing.T) {
	for name, landed := range map[string][]int{"landed": {420}, "not there": nil} {
		w := newWorldAlone(t, payPolicy)
		w.known("pay")
		o := w.doubt("pay", 420, landed...)
		w.pass(pastProof)
		slow, other := w.newEngine(Options{Actor: ledger.Actor{Name: "slow"}}), w.newEngine(Options{Actor: ledger.Actor{Name: "other"}})
		entered, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w.side.onList = func(*side, http.ResponseWriter, *http.Request) bool {
			first := false
			once.Do(func() { first = true })
			if first {
				close(entered)
				<-release
			}
			return false
		}
		result := make(chan error, 1)
		go func() {
			_, err := slow.ReadNow(w.ctx, o.ID)
			result <- err
		}()
		<-entered
		need.Get(other.ReadNow(w.ctx, o.ID))(t)
		settled := w.get(o.ID).Operation
		close(release)
		need.OK(t, <-result)
		got := w.get(o.ID)
		need.That(t, got.Operation.Version == settled.Version && got.Operation.State == settled.State && got.Operation.Conflict == ledger.NoConflict && got.Operation.Effects == len(landed),
			"%s: version %d → %d, %s, conflict %q", name, settled.Version, got.Operation.Version, got.Operation.State, got.Operation.Conflict)
	}
}

func TestTwoEnginesReadEachOnce(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	for i := range 40 {
		w.doubt("pay", 1+i, 1+i)
	}
	other := New(Options{Store: reopened(w), Policy: w.inForce, Clock: w.now, Steady: w.steady, Actor: maya})
	defer w.run(w.engine)()
	defer w.run(other)()
	eventually(t, "all settled", func() bool {
		c, err := w.store.Counts(w.ctx, w.now())
		return err == nil && c.ByState[ledger.Uncertain] == 0
	})
	need.Equal(t, w.side.asked(), 40, "reads for 40 operations")
}

func TestBreakerOpensAndProbes(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		var down atomic.Bool
		down.Store(true)
		w.side.onList = func(_ *side, rw http.ResponseWriter, _ *http.Request) bool {
			if down.Load() {
				rw.WriteHeader(503)
			}
			return down.Load()
		}
		for i := range 100 {
			w.doubt("pay", 1+i, 1+i)
		}
		w.engine.downs.probe = 5 * time.Second // well beyond the patience of a check
		w.run(w.engine)
		eventually(t, "down", func() bool { h := w.engine.Health(); return len(h) == 1 && h[0].State == StateDown })
		time.Sleep(300 * time.Millisecond)
		lists := w.side.asked()
		need.That(t, lists <= 64+tripAfter, "%d reads of a downstream that is down", lists)
		h := w.engine.Health()[0]
		need.That(t, strings.Contains(h.Why, "503") && !h.Since.IsZero(), "%+v", h)
		page, _ := w.store.Page(w.ctx, ledger.Query{Tab: ledger.TabAll, Now: w.now(), Limit: 1})
		eventually(t, "a check is refused, unless it is the probe", func() bool {
			res, err := w.engine.ReadNow(w.ctx, page.Rows[0].ID)
			need.That(t, err == nil && res.Read.Verdict == ledger.CannotTell, "%+v %v", res.Read, err)
			return strings.Contains(res.Read.Reason, "pay is down")
		})
		down.Store(false)
		eventually(t, "up again", func() bool { return w.engine.Health()[0].State == StateUp })
		eventually(t, "all settled", func() bool {
			c, err := w.store.Counts(w.ctx, w.now())
			return err == nil && c.ByState[ledger.Uncertain] == 0
		})
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.side.onList = answer(429, map[string]string{"Retry-After": "120"}, "")
	w.leading()
	o := w.doubt("pay", 1)
	need.Contains(t, w.read(o.ID).Read.Reason, "429")
	if p := w.get(o.ID).Pricing; p.ReadAt.Before(w.now().Add(115 * time.Second)) {
		t.Errorf("read again in %s", p.ReadAt.Sub(w.now()))
	}
	need.Contains(t, w.read(o.ID).Read.Reason, "asked to wait")
	need.Equal(t, w.side.asked(), 1, "reads")
	h := w.engine.Health()
	need.That(t, h[0].State == StateSlow && h[0].Until.Sub(w.now()) >= 100*time.Second, "%+v", h)
	res, err := w.retry(RetryRequest{ID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted, Reason: "x", LossTyped: true})
	need.Equal(t, code(err), "throttled", res, err)
}

func TestRetryAfterForms(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for said, want := range map[string]time.Duration{"7": 7 * time.Second, "": softThrottle, "-3": softThrottle, "1e9": maxRetryAfter,
		now.Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second} {
		until, wanted := retryAfter(ledger.Answer{Status: 429, Header: http.Header{"Retry-After": {said}}}, now)
		need.That(t, wanted && until.Sub(now) == want, "%q: %s", said, until.Sub(now))
	}
	_, wanted := retryAfter(ledger.Answer{Status: 503}, now)
	need.That(t, !wanted, "a 503 without Retry-After asks for nothing")
}

func TestMissingSecretIsOneItemAndNoError(t *testing.T) {
	w := newWorld(t, strings.Replace(payPolicy, "env.PAY_KEY", "env.NO_SUCH_KEY", 1))
	for i := range 30 {
		w.unseen("pay", 1+i)
	}
	var logged atomic.Int64
	e := w.newEngine(Options{Log: func(string) { logged.Add(1) }})
	w.run(e)
	eventually(t, "silent", func() bool {
		h := e.Health()
		return len(h) == 1 && h[0].State == StateNoKey && h[0].Why == "NO_SUCH_KEY"
	})
	time.Sleep(200 * time.Millisecond)
	page, _ := w.store.Page(w.ctx, ledger.Query{Tab: ledger.TabAll, Now: w.now()})
	for _, row := range page.Rows {
		need.Equal(t, len(w.get(row.ID).Reads), 0)
	}
	need.Equal(t, logged.Load(), 0, "lines logged")
}

// The policy in force is the same for every process: who has another one asks and settles
// nothing, also when no other engine is at work.
func TestI6_OnlyThePolicyInForceCounts(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.known("pay")
	theirs := need.Get(policy.Parse("p", []byte(strings.Replace(fmt.Sprintf(payPolicy, w.side.URL), "lands_within: 20s", "lands_within: 1ms", 1))))(t)
	leave := w.run(w.engine)
	var first ledger.PolicyText
	eventually(t, "its policy is in force", func() bool { first = need.Get(w.store.Policy(w.ctx, ledger.PolicyText{}))(t); return first.Number == 1 })
	leave()
	need.That(t, first.Digest == w.pol.Load().Digest() && first.Text != "", "none was in force, and the engine's is now: %+v", first)

	o := w.unseen("pay", 420)
	mine := theirs
	other := New(Options{Store: w.store, Clock: w.now, Steady: w.steady, Actor: maya, Policy: func() *policy.Policy { return mine }})
	w.run(other)() // it changes nothing about that
	w.pass(11 * time.Second)
	asked := w.side.asked()
	_, err := other.ReadNow(w.ctx, o.ID)
	need.That(t, errors.Is(err, ledger.ErrRefused) && strings.Contains(err.Error(), "number 1"), "%v", err)
	need.Equal(t, w.side.asked(), asked, "it asked nothing")
	need.Equal(t, len(w.get(o.ID).Reads), 0)

	// As soon as its policy is in force it works, and the first one only looks.
	need.OK(t, w.store.ApplyPolicy(w.ctx, ledger.PolicyText{Number: 2, Digest: theirs.Digest(), Text: theirs.Text(), Actor: maya, Reason: "mended", ChangeID: ledger.NewID()}))
	w.seen(o.ID)
	w.pass(11*time.Second + leadEvery)
	_, err = w.engine.ReadNow(w.ctx, o.ID)
	need.That(t, errors.Is(err, ledger.ErrRefused), "%v", err)
	res := need.Get(other.ReadNow(w.ctx, o.ID))(t)
	need.Equal(t, res.Operation.State, ledger.Failed, res.Read.Reason)

	// The same text from the ledger is no text of this host: nothing is asked by it.
	mine = need.Get(policy.Lend(need.Get(w.store.Policy(w.ctx, ledger.PolicyText{}))(t)))(t)
	need.That(t, mine.Digest() == theirs.Digest() && mine.Lent(), "it says the same")
	w.pass(leadEvery)
	asked = w.side.asked()
	_, err = other.ReadNow(w.ctx, w.doubt("pay", 420).ID)
	need.That(t, errors.Is(err, ledger.ErrRefused) && w.side.asked() == asked, "%v", err)
}

func TestWithoutAPolicyFileItGivesWay(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		blank := w.made(New(Options{Store: w.store, Clock: w.now, Steady: w.steady, Actor: maya}))
		w.run(blank)
		eventually(t, "the one without a policy is at work", func() bool { return blank.leads(ledger.LeadLedger) })
		w.run(w.engine)
		o := w.doubt("pay", 420, 420)
		eventually(t, "settled", func() bool { return w.get(o.ID).Operation.State == ledger.Committed })
		w.pass(leadEvery)
		eventually(t, "the one with a policy leads", func() bool { return w.engine.leads(ledger.LeadLedger) && !blank.leads(ledger.LeadLedger) })
		need.That(t, !w.engine.onlyReads(w.ctx) && blank.onlyReads(w.ctx), "a console without a policy drove out the engine that has one")
	})
}

func TestNoPolicyMeansTheDefaults(t *testing.T) {
	w := newWorld(t, payPolicy)
	w.pol.Store(nil)
	o := w.doubt("pay", 1)
	_, err := w.engine.Once(w.ctx, nil)
	need.That(t, err == nil, "%v", err)
	plan, err := w.engine.Plan(w.ctx, o.ID)
	need.That(t, err == nil && plan.Sender == "pipeline", "%+v %v", plan, err)
}

func TestPipelineSecondAttemptIsLookedAt(t *testing.T) {
	w := newWorld(t, payPolicy)
	o := w.doubt("pay", 420, 420) // it had landed
	applied := need.Get(ledger.Allow(w.ctx, w.store, ledger.AllowRequest{ChangeID: "g", AllowID: "g", OperationID: o.ID, Version: o.Version,
		Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Actor: maya, Reason: "try", ExpiresAt: w.now().Add(time.Hour),
		AttemptID: "a2", Deadline: time.Minute, TokenSent: true}))(t)
	w.side.apply(charge{Ref: o.Token, Amount: 420})
	w.settle(ledger.BeginResult{Attempt: applied.Attempt}, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 201, Receipt: "ch_2"})
	w.run(w.engine)
	eventually(t, "it is to be looked for", func() bool {
		at := w.get(o.ID).Pricing.ReadAt
		return at.After(w.now()) && at.Before(ledger.Never)
	})
	w.pass(time.Minute)
	eventually(t, "happened twice", func() bool { return w.get(o.ID).Operation.Conflict == ledger.ConflictTwice })
}
