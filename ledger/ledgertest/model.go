package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// model plays the same random game on the store and on another one, and compares
// everything that can be seen after every few moves.
func model(t *testing.T, open Open) {
	need.FixSeed()
	games, most := 0, need.Steps(8, math.MaxInt)
	if Racing {
		most = min(most, 10)
	}
	rapid.Check(t, func(rt *rapid.T) {
		if games++; games > most {
			return
		}
		clock := NewClock()
		s := open(t, clock.Now, clock.Steady)
		defer s.Close()
		g := &game{real: &desk{failer: rt, s: s, clock: clock}, plain: &desk{failer: rt, s: memoryBeside(rt, s, clock), clock: clock}, rt: rt, seen: map[string]any{}}
		moves := map[string]func(*rapid.T){
			"begin": g.begin, "settle": g.settle, "read": g.observe, "decide": g.decide, "allow": g.allow,
			"repeat": g.repeat, "heartbeat": g.heartbeat, "suspend": g.suspend, "deliver": g.deliver, "expire": g.expire, "price": g.price, "hold": g.hold, "outage": g.outage, "fold": g.fold, "run": g.run,
			"wait": func(rt *rapid.T) {
				clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 30, 70, 700, 4000, 90000}).Draw(rt, "seconds")) * time.Second)
			},
			"": g.check,
		}
		rt.Repeat(moves)
		g.compareAll()
		checkLists(g.real, s, []ledger.Order{rapid.SampledFrom(orders).Draw(rt, "order")}, []string{rapid.SampledFrom(filters).Draw(rt, "filter")}, rapid.IntRange(0, 4).Draw(rt, "turn"))
	})
}

// game plays on two stores at once. Both get the same ids and times.
type game struct {
	real, plain *desk
	rt          *rapid.T
	n           int
	attempts    []string
	ids         []string
	last        func(s ledger.Store) (string, error) // the newest change, to be repeated
	known       string                               // what it was answered
	seq         int64
	place       ledger.Cursor
	seen        map[string]any // operations as the store gave them at some time
}

func (g *game) id(what string) string {
	g.n++
	return fmt.Sprintf("%s-%05d", what, g.n)
}

// both makes a change on both stores; they must answer alike.
func (g *game) both(change func(s ledger.Store) (string, error)) string {
	before := g.newest()
	a, errA := change(g.real.s)
	b, errB := change(g.plain.s)
	if said(a, errA) != said(b, errB) {
		g.rt.Fatalf("the store says %s\nmemory says    %s\n(%v, %v)", said(a, errA), said(b, errB), errA, errB)
	}
	g.real.clock.Advance(time.Second)
	g.last, g.known = nil, ""
	// What changed nothing, or only wrote down that a deadline had passed, is asked anew.
	if is := g.newest(); errA == nil && is.Seq > before.Seq && is.Verb != "expire" {
		g.last, g.known = change, a
	}
	return a
}

// newest is the newest event.
func (g *game) newest() (e ledger.Event) {
	for _, e = range need.Get(g.plain.s.History(ctx, ledger.HistoryQuery{Newest: true, Limit: 1}))(g.rt) {
	}
	return e
}

// said reduces an answer to what every store must agree on.
func said(answer string, err error) string {
	var moved *ledger.MovedError
	var refused *ledger.RefusedError
	switch {
	case err == nil:
		return answer
	case errors.As(err, &moved):
		return fmt.Sprintf("moved: version %d, %s by %s", moved.Version, moved.State, moved.Actor)
	case errors.As(err, &refused):
		return "refused: " + refused.Code
	case errors.Is(err, ledger.ErrNotFound):
		return "not found"
	}
	return "error: " + err.Error()
}

func applied(a ledger.Applied, err error) (string, error) {
	o := a.After
	return fmt.Sprintf("%s v%d %s effects=%d conflict=%q live=%q", o.ID, o.Version, o.State, o.Effects, o.Conflict, o.LiveAttempt), err
}

func (g *game) begin(rt *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c", "d", "input-" + strings.Repeat("e", 32), ledger.FieldsKey("card.charge", []string{"n"}, strings.Repeat("f", 32))}).Draw(rt, "key")
	req := ledger.BeginRequest{ChangeID: g.id("c"), OperationID: g.id("operation"), AttemptID: g.id("attempt"), Kind: "card.charge", Key: key,
		Token: "indoubt-" + key, Fingerprint: rapid.SampledFrom([]string{"f1", "f1", "f1", "f2"}).Draw(rt, "fingerprint"),
		Gate: rapid.SampledFrom([]string{"", "g1", "g2"}).Draw(rt, "gate"), Safe: rapid.Bool().Draw(rt, "safe"), Target: rapid.SampledFrom([]string{"", "web"}).Draw(rt, "target"), TokenSent: rapid.Bool().Draw(rt, "token_sent"),
		KeyWorks: rapid.Bool().Draw(rt, "key_works"), AwaitsDelivery: rapid.Bool().Draw(rt, "awaits_delivery"), Deadline: time.Duration(rapid.IntRange(20, 600).Draw(rt, "deadline")) * time.Second,
		TTL: time.Duration(rapid.SampledFrom([]int{0, 1}).Draw(rt, "ttl")) * time.Hour, Sender: "pipeline", Actor: billing, Input: json.RawMessage(`{"n":1}`)}
	answer := g.both(func(s ledger.Store) (string, error) {
		res, err := ledger.Begin(ctx, s, req)
		if id := res.Operation.ID; id != "" && !slices.Contains(g.ids, id) {
			g.ids = append(g.ids, id)
		}
		return fmt.Sprintf("%s %s n=%d %v", res.Answer, res.Operation.ID, res.Attempt.N, res.Gated), err
	})
	if len(answer) > 5 && answer[:5] == "begun" {
		g.attempts = append(g.attempts, req.AttemptID)
	}
}

// some draws one, preferring the newest; nothing drawn when there is none.
func some(rt *rapid.T, from []string, label string) string {
	if len(from) == 0 {
		rt.Skip()
	}
	recent := from[max(0, len(from)-4):]
	if rapid.Bool().Draw(rt, "recent") {
		return rapid.SampledFrom(recent).Draw(rt, label)
	}
	return rapid.SampledFrom(slices.Clone(from)).Draw(rt, label)
}

func (g *game) settle(rt *rapid.T) {
	req := ledger.SettleRequest{ChangeID: g.id("c"), AttemptID: some(rt, g.attempts, "attempt"), Actor: billing, Status: 200,
		Outcome: rapid.SampledFrom([]ledger.Outcome{ledger.OutcomeCommitted, ledger.OutcomeFailed, ledger.OutcomeUncertain, ledger.OutcomeUncertain}).Draw(rt, "outcome")}
	switch req.Outcome {
	case ledger.OutcomeFailed:
		req.Proof = rapid.SampledFrom([]ledger.Proof{ledger.NeverSent, ledger.Refused}).Draw(rt, "proof")
	case ledger.OutcomeCommitted:
		req.Receipt = rapid.SampledFrom([]string{"", "pi_1", "pi_2"}).Draw(rt, "receipt")
		req.Already = rapid.Bool().Draw(rt, "already")
		req.Result = json.RawMessage(`{"id":"x"}`)
	default:
		req.ErrorClass, req.Error = ledger.ClassTimeout, "no answer"
	}
	g.both(func(s ledger.Store) (string, error) { return applied(ledger.Settle(ctx, s, req)) })
}

// version is the one a person saw: usually the newest.
func (g *game) version(rt *rapid.T, id string) int64 {
	rec := need.Get(g.plain.s.Read(ctx, ledger.Locator{ID: id}))(rt)
	return max(1, rec.Operation.Version-int64(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1}).Draw(rt, "behind")))
}

func (g *game) observe(rt *rapid.T) {
	id := some(rt, g.ids, "operation")
	v := rapid.SampledFrom([]ledger.Verdict{ledger.Landed, ledger.NotThere, ledger.NotThere, ledger.Twice, ledger.Different, ledger.CannotTell}).Draw(rt, "verdict")
	receipts := map[ledger.Verdict][]string{ledger.Landed: {"pi_1"}, ledger.Different: {"pi_1"}, ledger.Twice: {"pi_1", "pi_2"}}[v]
	now := g.real.clock.Now()
	ob := ledger.Observation{ChangeID: g.id("c"), Version: g.version(rt, id), Settles: rapid.Bool().Draw(rt, "settles"), Actor: engine,
		Read: ledger.Read{ID: g.id("read"), OperationID: id, BeganAt: now, EndedAt: now.Add(time.Millisecond), Verdict: v, Reason: "read " + string(v),
			Found: len(receipts), Receipts: receipts, Evidence: json.RawMessage(`{"status":200}`), Digest: "p1", Actor: "auto"}}
	ob.Looks.Check, ob.Failed = rapid.Bool().Draw(rt, "looks"), rapid.Bool().Draw(rt, "failed")
	if rapid.Bool().Draw(rt, "seen just now") {
		g.seen[id] = need.Get(g.real.s.Kept(ctx, []string{id}))(rt)[0].Kept
	}
	g.both(func(s ledger.Store) (string, error) {
		ob := ob
		if s == g.real.s { // the other one reads it again each time
			ob.Seen = g.seen[id]
		}
		return applied(ledger.Observe(ctx, s, ob))
	})
}

func (g *game) decide(rt *rapid.T) {
	id := some(rt, g.ids, "operation")
	d := ledger.Decision{ChangeID: g.id("c"), ID: id, Version: g.version(rt, id), Reason: "because", Actor: maya,
		Verb: rapid.SampledFrom([]ledger.Verb{ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon, ledger.VerbAck, ledger.VerbPark, ledger.VerbUndo, ledger.VerbNote, ledger.VerbRedact}).Draw(rt, "verb")}
	switch d.Verb {
	case ledger.VerbPark:
		d.Until = g.real.clock.Now().Add(10 * time.Minute)
	case ledger.VerbAck:
		saying(rapid.SampledFrom(append(slices.Clone(ledger.Truths), ledger.LandedOnce)).Draw(rt, "truth"))(&d)
		if d.Truth == ledger.LandedOnce {
			d.Receipts = rapid.SampledFrom([][]string{nil, {"pi_1"}, {"pi_4"}}).Draw(rt, "receipts")
		}
	case ledger.VerbConfirm:
		d.Receipts = rapid.SampledFrom([][]string{nil, {"pi_1"}, {"pi_1", "pi_3"}}).Draw(rt, "receipts")
	}
	g.both(func(s ledger.Store) (string, error) { return applied(ledger.Decide(ctx, s, d)) })
}

func (g *game) allow(rt *rapid.T) {
	id := some(rt, g.ids, "operation")
	r := ledger.AllowRequest{ChangeID: g.id("c"), AllowID: g.id("allow"), OperationID: id, Version: g.version(rt, id), Sender: "http",
		Basis: rapid.SampledFrom([]ledger.Basis{ledger.BasisProof, ledger.BasisKeySafe, ledger.BasisRiskAccepted}).Draw(rt, "basis"),
		Actor: rapid.SampledFrom([]ledger.Actor{maya, maya, engine}).Draw(rt, "actor"), Reason: "because",
		KeyWorks: rapid.Bool().Draw(rt, "key_works"), ExpiresAt: g.real.clock.Now().Add(15 * time.Minute)}
	if rapid.Bool().Draw(rt, "at_once") {
		r.AttemptID, r.Deadline, r.Own = g.id("attempt"), time.Minute, r.Actor.Machine
	}
	g.both(func(s ledger.Store) (string, error) { return applied(ledger.Allow(ctx, s, r)) })
	if r.AttemptID != "" && g.last != nil {
		g.attempts = append(g.attempts, r.AttemptID)
	}
}

// repeat makes the newest change again: nothing may come of it.
func (g *game) repeat(*rapid.T) {
	if g.last == nil {
		return
	}
	before := g.count()
	again, known := g.last, g.known
	if got := g.both(again); got != known && len(known) > 5 && known[:5] != "begun" {
		g.rt.Logf("repeated: %s, at first %s", got, known)
	}
	if after := g.count(); after != before {
		g.rt.Fatalf("the same change again left %d more events", after-before)
	}
}

// count is how many changes were made; a deadline passes by itself.
func (g *game) count() int {
	evs := need.Get(g.real.s.History(ctx, ledger.HistoryQuery{Limit: 100_000}))(g.rt)
	return len(slices.DeleteFunc(evs, func(e ledger.Event) bool { return e.Verb == "expire" }))
}

func (g *game) heartbeat(rt *rapid.T) {
	attempt := some(rt, g.attempts, "attempt")
	g.both(func(s ledger.Store) (string, error) {
		until, err := ledger.Heartbeat(ctx, s, attempt, 5*time.Minute)
		return until.String(), err
	})
	g.last = nil
}

func (g *game) suspend(rt *rapid.T) {
	req := ledger.SuspendRequest{ChangeID: g.id("c"), AttemptID: some(rt, g.attempts, "attempt"), For: 5 * time.Minute, Reason: "working", Actor: billing,
		Awaits: rapid.SampledFrom([]string{"task:1", "task:2"}).Draw(rt, "awaits"), Instead: rapid.SampledFrom([]string{"", "", "task:1"}).Draw(rt, "instead")}
	g.both(func(s ledger.Store) (string, error) { return applied(ledger.Suspend(ctx, s, req)) })
}

func (g *game) deliver(rt *rapid.T) {
	id := some(rt, g.ids, "operation")
	g.both(func(s ledger.Store) (string, error) { return "", ledger.Deliver(ctx, s, id) })
	g.last = nil
}

func (g *game) expire(*rapid.T) {
	g.both(func(s ledger.Store) (string, error) {
		n, err := s.Expire(ctx, 100)
		return fmt.Sprint(n), err
	})
	g.last = nil
}

func (g *game) price(rt *rapid.T) {
	now := g.real.clock.Now()
	p := ledger.Pricing{OperationID: some(rt, g.ids, "operation"), Digest: "p1", Rank: float64(rapid.IntRange(0, 5).Draw(rt, "rank")),
		Miss:     ledger.Cost{Value: 10, Word: rapid.SampledFrom([]string{"", "high"}).Draw(rt, "word")},
		DecideAt: rapid.SampledFrom([]time.Time{now, now.Add(10 * time.Minute), ledger.Never}).Draw(rt, "decide_at"), ReadAt: now.Add(time.Minute)}
	g.both(func(s ledger.Store) (string, error) { return "", s.Price(ctx, []ledger.Pricing{p}) })
	g.last = nil
}

func (g *game) hold(rt *rapid.T) {
	scope := rapid.SampledFrom([]ledger.HoldScope{"all", "kind:card.charge", "kind:mail"}).Draw(rt, "scope")
	id := g.id("c")
	if rapid.Bool().Draw(rt, "lift") {
		g.both(func(s ledger.Store) (string, error) {
			return "", s.LiftHold(ctx, ledger.Lift{Scope: scope, Actor: maya, Reason: "up", ChangeID: id})
		})
	} else {
		g.both(func(s ledger.Store) (string, error) {
			return "", s.Hold(ctx, ledger.Hold{Scope: scope, Actor: maya, Reason: "down", ChangeID: id, Until: Noon.Add(3 * time.Hour)})
		})
	}
}

// check looks at what must hold after every move, cheaply.
func (g *game) check(*rapid.T) {
	evs, place, err := g.real.s.Follow(ctx, g.place, 1000)
	need.OK(g.rt, err)
	g.place = place
	for _, e := range evs {
		need.Must(g.rt, e.Seq > g.seq, "seq %d after %d", e.Seq, g.seq)
		g.seq = e.Seq
		need.Must(g.rt, e.ID != "" && e.Actor.Name != "" && e.Verb != "" && e.Reason != "",
			"I8: %+v does not say who, what and why", e)
	}
	if len(evs) > 0 && evs[len(evs)-1].OperationID != "" {
		g.compare(evs[len(evs)-1].OperationID)
	}
	g.compareOutages()
}

func (g *game) compareAll() {
	for _, id := range g.ids {
		g.compare(id)
	}
	compareKept(g.rt, g.plain.s, g.real.s, g.real.clock.Now())
	ev := func(s ledger.Store) []ledger.Event {
		evs := need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 100_000}))(g.rt)
		for i := range evs { // seq may have gaps, and what expires or becomes of a run draws its own change ids
			evs[i].Seq = 0
			if evs[i].Verb == "expire" || evs[i].Verb == "return" || evs[i].Verb == ledger.VerbRunOver {
				evs[i].ID = ""
			}
			if evs[i].OperationID == "" { // each store says about a hold what it keeps
				evs[i].Detail = nil
			}
		}
		// What expires at one moment does so in any order.
		slices.SortStableFunc(evs, func(a, b ledger.Event) int {
			if c := a.At.Compare(b.At); c != 0 {
				return c
			}
			return strings.Compare(a.OperationID, b.OperationID)
		})
		return evs
	}
	if diff := cmp.Diff(ev(g.plain.s), ev(g.real.s), seeing...); diff != "" {
		g.rt.Fatalf("the history differs from memory's (-memory +store):\n%s", diff)
	}
}

// compareKept compares what the stores have counted as they went.
func compareKept(rt *rapid.T, plain, real ledger.Store, now time.Time) {
	type kept struct {
		Doubts []ledger.DoubtCount
		States []ledger.StateCount
	}
	of := func(s ledger.Store) kept {
		doubtCounts, err1 := s.DoubtCounts(ctx)
		stateCounts, err2 := s.StateCounts(ctx, now)
		need.OK(rt, errors.Join(err1, err2))
		return kept{sortDoubtCounts(doubtCounts), sortStateCounts(stateCounts)}
	}
	if diff := cmp.Diff(of(plain), of(real), seeing...); diff != "" {
		rt.Fatalf("what was counted differs from memory's (-memory +store):\n%s", diff)
	}
}

// seeing compares JSON by meaning, times as moments, and nothing by being nil.
var seeing = []cmp.Option{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a) > 0 && len(b) > 0 }, cmp.Comparer(func(a, b json.RawMessage) bool {
		var x, y any
		_ = json.Unmarshal(a, &x)
		_ = json.Unmarshal(b, &y)
		return cmp.Equal(x, y)
	})),
}

// compare looks at one operation in both stores and at the invariants in it.
func (g *game) compare(id string) {
	real := need.Get(g.real.s.Read(ctx, ledger.Locator{ID: id}))(g.rt)
	plain := need.Get(g.plain.s.Read(ctx, ledger.Locator{ID: id}))(g.rt)
	for _, rec := range []*ledger.Record{&real, &plain} {
		rec.Pricing = ledger.Pricing{} // a cache, forgotten when a store likes
		slices.SortFunc(rec.Allowed, func(a, b ledger.Allowed) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(rec.Reads, func(a, b ledger.Read) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(rec.Related, func(a, b ledger.Relation) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(rec.Holds, func(a, b ledger.Hold) int { return strings.Compare(string(a.Scope), string(b.Scope)) })
	}
	if diff := cmp.Diff(plain, real, seeing...); diff != "" {
		g.rt.Fatalf("%s differs from memory's (-memory +store):\n%s", id, diff)
	}
	live := 0
	for _, a := range real.Attempts {
		if a.Outcome == "" {
			live++
		}
	}
	pending := real.Operation.State == ledger.Pending
	need.Must(g.rt, live <= 1 && (live == 1) == pending,
		"I3: %s is %s with %d attempts in flight", id, real.Operation.State, live)
}
