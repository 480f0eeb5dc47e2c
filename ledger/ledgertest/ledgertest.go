// Package ledgertest is what every store of the ledger must pass.
//
//	func TestStore(t *testing.T) {
//		ledgertest.Run(t, func(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store { … })
//	}
//
// The suite drives a store through the rules of package ledger only, never
// around them, and compares it with Memory.
package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Open makes an empty store that tells the time by these clocks. It is called many
// times in one test; what the stores leave behind goes with t.
type Open func(t testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store

// Run runs the whole suite, or only some parts.
func Run(t *testing.T, open Open, only ...string) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"States", states},
		{"Asked", asked},
		{"Invariants", invariants},
		{"Allowed", permissions},
		{"SameTarget", sameTarget},
		{"Beside", beside},
		{"TakenOver", takenOver},
		{"Sent", sent},
		{"Clocks", clocks},
		{"Keys", keys},
		{"Tokens", tokens},
		{"Finding", finding},
		{"EveryHand", everyHand},
		{"Repeating", repeating},
		{"Schedule", schedule},
		{"StalePrices", stalePrices},
		{"I9_FoundLate", foundLate},
		{"Records", records},
		{"Leaders", leaders},
		{"Policies", policies},
		{"Notices", notices},
		{"OneWrite", oneWrite},
		{"I9_Looks", looks},
		{"Waiting", waiting},
		{"Trees", trees},
		{"I6_Siblings", siblings},
		{"Marks", marks},
		{"Holds", holds},
		{"Runs", runs},
		{"Outages", outages},
		{"OutageGroups", outageGroups},
		{"OnlyOpenCosts", onlyOpenCosts},
		{"NobodyFollowed", nobodyFollowed},
		{"OutagesSince", outagesSince},
		{"Events", events},
		{"FullPages", fullPages},
		{"Followers", followers},
		{"Watch", watch},
		{"Lists", lists},
		{"SettledRows", settledRows},
		{"DoubtCounts", doubtCounts},
		{"StateCounts", stateCounts},
		{"Concurrency", concurrency},
		{"Linearizable", linearizable},
		{"Redactions", redactions},
		{"Prunes", prunes},
		{"Model", model},
	} {
		if len(only) > 0 && !slices.Contains(only, part.name) {
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			part.run(t, open)
		})
	}
}

// Noon is when every test's clock begins.
var Noon = time.UnixMilli(1_790_000_000_000).UTC()

// Clock is a wall clock and a steady one, which stand still until they are told
// to move.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	steady ledger.Steady
}

// NewClock makes a clock that shows Noon, one hour after the host was booted.
func NewClock() *Clock {
	return &Clock{now: Noon, steady: ledger.Steady{Boot: "boot-1", At: time.Hour}}
}

// Now is the clock's time; it is a ledger.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Steady is the steady time; it is a ledger.SteadyClock.
func (c *Clock) Steady() ledger.Steady {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steady
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.steady.At = c.now.Add(d), c.steady.At+d
}

// Set sets the wall clock, forward or back; no time passes.
func (c *Clock) Set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Reboot begins another boot, which took a minute.
func (c *Clock) Reboot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.steady = c.now.Add(time.Minute), ledger.Steady{Boot: c.steady.Boot + "'", At: time.Second}
}

// On goes to another host, which was booted at a time of its own and shares the wall
// clock, that of a server.
func (c *Clock) On(boot string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steady = ledger.Steady{Boot: boot, At: c.steady.At + time.Duration(len(boot)-len(c.steady.Boot))*time.Hour}
}

// failer is the part of testing.TB that rapid's T has too.
type failer interface {
	need.T
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

var (
	ctx     = context.Background()
	billing = ledger.Actor{Name: "billing", Host: "batch-2", Machine: true}
	engine  = ledger.Actor{Name: "auto", Host: "batch-2", Machine: true}
	maya    = ledger.Actor{Name: "maya", OSUser: "root", Host: "batch-2", Terminal: true}
)

// desk is one store with a clock and the gestures tests are made of. Each
// gesture lets a second pass, so that every time in a ledger is another one.
type desk struct {
	failer
	s     ledger.Store
	clock *Clock
	n     int
}

func newDesk(t *testing.T, open Open) *desk {
	clock := NewClock()
	s := open(t, clock.Now, clock.Steady)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &desk{failer: t, s: s, clock: clock}
}

// done is an operation that its own answer settled.
func (d *desk) done(key string, mod ...func(*ledger.BeginRequest)) ledger.Operation {
	return d.settle(d.begun(key, mod...).Attempt.ID, ledger.OutcomeCommitted, withReceipt("r-"+key))
}

// id makes an id that is the same at every run.
func (d *desk) id(what string) string {
	d.n++
	return fmt.Sprintf("%s-%06d", what, d.n)
}

func (d *desk) ok(err error) {
	d.Helper()
	need.OK(d, err)
}

func (d *desk) request(key string) ledger.BeginRequest {
	return ledger.BeginRequest{
		ChangeID: d.id("change"), OperationID: d.id("operation"), AttemptID: d.id("attempt"),
		Kind: "card.charge", Key: key, Token: "indoubt-" + key, Fingerprint: "print of " + key,
		Title: "charge " + key, Target: "thing of " + key, Source: ledger.Source{Pipeline: "billing", Run: "7", Host: "batch-2", PID: 42},
		Input: []byte(`{"amount":42000}`), Sender: "pipeline", TokenSent: true, Deadline: time.Minute, Actor: billing,
	}
}

func (d *desk) begin(key string, mod ...func(*ledger.BeginRequest)) ledger.BeginResult {
	d.Helper()
	req := d.request(key)
	for _, m := range mod {
		m(&req)
	}
	res := need.Get(ledger.Begin(ctx, d.s, req))(d)
	d.clock.Advance(time.Second)
	return res
}

// begun is a begin that must be the one that sends.
func (d *desk) begun(key string, mod ...func(*ledger.BeginRequest)) ledger.BeginResult {
	d.Helper()
	res := d.begin(key, mod...)
	need.Must(d, res.Answer == ledger.AnswerBegun, "begin %s: %s (%s), want begun", key, res.Answer, res.Why)
	return res
}

func (d *desk) settle(attempt string, outcome ledger.Outcome, mod ...func(*ledger.SettleRequest)) ledger.Operation {
	d.Helper()
	req := ledger.SettleRequest{ChangeID: d.id("change"), AttemptID: attempt, Outcome: outcome, Status: -1, Actor: billing}
	switch outcome {
	case ledger.OutcomeFailed:
		req.Proof, req.Status = ledger.Refused, 402
	case ledger.OutcomeUncertain:
		req.ErrorClass, req.Error = ledger.ClassTimeout, "no answer after 30 s"
	}
	for _, m := range mod {
		m(&req)
	}
	applied := need.Get(ledger.Settle(ctx, d.s, req))(d)
	d.clock.Advance(time.Second)
	return applied.After
}

func withReceipt(r string) func(*ledger.SettleRequest) {
	return func(s *ledger.SettleRequest) { s.Receipt = r }
}

// doubt makes an operation in doubt.
func (d *desk) doubt(key string, mod ...func(*ledger.BeginRequest)) ledger.Operation {
	d.Helper()
	return d.settle(d.begun(key, mod...).Attempt.ID, ledger.OutcomeUncertain)
}

func (d *desk) observation(o ledger.Operation, v ledger.Verdict, receipts ...string) ledger.Observation {
	now := d.clock.Now()
	ob := ledger.Observation{ChangeID: d.id("change"), Version: o.Version, Settles: true, Actor: engine,
		Read: ledger.Read{ID: d.id("read"), OperationID: o.ID, BeganAt: now, EndedAt: now.Add(20 * time.Millisecond), Verdict: v,
			Reason: "the list shows " + fmt.Sprint(len(receipts)), Found: len(receipts), Receipts: receipts,
			Evidence: []byte(`{"status":200}`), Digest: "policy-1", Actor: engine.Name}}
	if v == ledger.Landed && len(receipts) == 0 {
		ob.Read.Found = 1
	}
	return ob
}

func (d *desk) observe(o ledger.Operation, v ledger.Verdict, receipts ...string) ledger.Operation {
	d.Helper()
	applied := need.Get(ledger.Observe(ctx, d.s, d.observation(o, v, receipts...)))(d)
	d.clock.Advance(time.Second)
	return applied.After
}

func (d *desk) decision(o ledger.Operation, v ledger.Verb) ledger.Decision {
	return ledger.Decision{ChangeID: d.id("change"), ID: o.ID, Version: o.Version, Verb: v, Reason: "asked their support", Actor: maya,
		Until: map[bool]time.Time{true: d.clock.Now().Add(time.Hour)}[v == ledger.VerbPark]}
}

func (d *desk) decide(o ledger.Operation, v ledger.Verb, mod ...func(*ledger.Decision)) ledger.Operation {
	d.Helper()
	dec := d.decision(o, v)
	for _, m := range mod {
		m(&dec)
	}
	applied := need.Get(ledger.Decide(ctx, d.s, dec))(d)
	d.clock.Advance(time.Second)
	return applied.After
}

func (d *desk) grantRequest(o ledger.Operation, basis ledger.Basis) ledger.AllowRequest {
	g := ledger.AllowRequest{ChangeID: d.id("change"), AllowID: d.id("allow"), OperationID: o.ID, Version: o.Version, Basis: basis,
		Sender: "pipeline", Actor: maya, Reason: "the customer waits", ExpiresAt: d.clock.Now().Add(time.Hour)}
	if basis == ledger.BasisRiskAccepted { // what stands beside it was shown
		rec := d.read(o.ID)
		for _, rel := range rec.Landings() {
			g.Related = append(g.Related, rel.ID)
		}
	}
	return g
}

// ownRepeat is what a recorder asks for whose answer was lost.
func (d *desk) ownRepeat(o ledger.Operation) ledger.AllowRequest {
	g := d.grantRequest(o, ledger.BasisKeySafe)
	g.Actor, g.Reason, g.Sender, g.Own, g.KeyWorks = engine, "", "http", true, true
	g.AttemptID, g.Deadline = d.id("attempt"), time.Minute
	return g
}

// allow allows one more attempt, for the pipeline to fetch.
func (d *desk) allow(o ledger.Operation, basis ledger.Basis) ledger.Operation {
	d.Helper()
	applied := need.Get(ledger.Allow(ctx, d.s, d.grantRequest(o, basis)))(d)
	d.clock.Advance(time.Second)
	return applied.After
}

// retry allows one more attempt and begins it at once.
func (d *desk) retry(o ledger.Operation, basis ledger.Basis) ledger.Applied {
	d.Helper()
	g := d.grantRequest(o, basis)
	g.Sender, g.AttemptID, g.Deadline, g.TokenSent = "http", d.id("attempt"), time.Minute, true
	applied := need.Get(ledger.Allow(ctx, d.s, g))(d)
	d.clock.Advance(time.Second)
	return applied
}

func (d *desk) read(id string) ledger.Record {
	d.Helper()
	return need.Get(d.s.Read(ctx, ledger.Locator{ID: id}))(d)
}

func (d *desk) events(id string) []ledger.Event {
	d.Helper()
	return need.Get(d.s.History(ctx, ledger.HistoryQuery{Operation: id, Limit: 10_000}))(d)
}

func (d *desk) want(o ledger.Operation, state ledger.State) {
	d.Helper()
	need.Must(d, o.State == state, "%s is %s (%s: %s), want %s", o.Key, o.State, o.Actor, o.Reason, state)
}
