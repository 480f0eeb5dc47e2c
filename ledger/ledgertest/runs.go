package ledgertest

import (
	"errors"
	"fmt"
	"maps"
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

// alike leaves out of runs by which event they stand.
var alike = cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(ledger.DecisionRun{})}

var sam = ledger.Actor{Name: "sam", Host: "batch-3", Terminal: true}

// run records a retry over n operations, driven by maya's console.
func (d *desk) run(n int) ledger.DecisionRun {
	d.Helper()
	items := make([]ledger.RunItem, n)
	for i := range items {
		items[i] = ledger.RunItem{N: i, OperationID: d.id("operation"), Version: 2, Kind: "card.charge", Title: "charge", Basis: ledger.BasisProof, Request: "shown"}
	}
	r, known, err := d.s.Run(ctx, ledger.DecisionRun{ID: d.id("run"), Verb: "retry", Actor: maya, Terms: ledger.RunTerms{Reason: "outage over"},
		Driver: ledger.RunDriver{Name: "maya", Holder: "console-1"}, CreatedAt: d.clock.Now()}, items)
	d.ok(err)
	need.Must(d, !known, "a new run is known")
	return r
}

// advance is a driver that knows what became of the run's items, and says what this one came to.
func (d *desk) advance(r ledger.DecisionRun, holder string, item int, came ledger.Came) (ledger.DecisionRun, *ledger.RunItem, error) {
	d.clock.Advance(time.Second)
	return advanced(d.s, r.ID, holder, item, came)
}

func advanced(s ledger.Store, id, holder string, item int, came ledger.Came) (ledger.DecisionRun, *ledger.RunItem, error) {
	run, items, err := s.Account(ctx, id)
	if err != nil {
		return run, nil, err
	}
	a := ledger.RunAdvance{Actor: maya, Holder: holder, Next: ledger.NextItem(items, item)}
	if it := items[item]; it.Came == "" || it.Came == ledger.CameHeld {
		it.Came, it.Word, it.By = came, string(came), ""
		a.Item = &it
	}
	run, err = s.ChangeRun(ctx, run, a.Rule)
	return run, a.Next, err
}

func (d *desk) drive(r ledger.DecisionRun, actor ledger.Actor, holder string, decided bool) (ledger.DecisionRun, *ledger.RunItem, error) {
	return driven(d.s, r.ID, actor, holder, decided, r.ChangedAt)
}

func driven(s ledger.Store, id string, actor ledger.Actor, holder string, decided bool, seen time.Time) (ledger.DecisionRun, *ledger.RunItem, error) {
	run, items, err := s.Account(ctx, id)
	if err != nil {
		return run, nil, err
	}
	v := ledger.RunDrive{Actor: actor, Holder: holder, Decided: decided, Seen: seen, Next: ledger.NextItem(items, -1)}
	run, err = s.ChangeRun(ctx, run, v.Rule)
	return run, v.Next, err
}

func (d *desk) halt(r ledger.DecisionRun, actor ledger.Actor, end bool) ledger.DecisionRun {
	d.Helper()
	r, err := halted(d.s, r.ID, ledger.RunHalt{Actor: actor, End: end})
	d.ok(err)
	return r
}

func halted(s ledger.Store, id string, h ledger.RunHalt) (ledger.DecisionRun, error) {
	run, _, err := s.Account(ctx, id)
	if err == nil {
		run, err = s.ChangeRun(ctx, run, h.Rule)
	}
	return run, err
}

// play advances a run by what its items come to, until no further item follows.
func (d *desk) play(r ledger.DecisionRun, from int, came ...ledger.Came) ledger.DecisionRun {
	d.Helper()
	for i, c := range came {
		after, next, err := d.advance(r, "console-1", from+i, c)
		d.ok(err)
		if r = after; r.State != ledger.RunRunning {
			need.Must(d, i >= len(came)-1, "%s (%s) after %d of %d", r.State, r.Why, i+1, len(came))
		} else if next == nil || next.N != from+i+1 {
			d.Fatalf("after item %d comes %+v", from+i, next)
		}
	}
	return r
}

func runs(t *testing.T, open Open) {
	t.Run("Kept", func(t *testing.T) { runsKept(t, open) })
	t.Run("Stops", func(t *testing.T) { runsStop(t, open) })
	t.Run("Driver", func(t *testing.T) { runsDriven(t, open) })
	t.Run("Ended", func(t *testing.T) { runsEnded(t, open) })
	t.Run("Fates", func(t *testing.T) { runsTold(t, open) })
	t.Run("Holds", func(t *testing.T) { runsHeld(t, open) })
	t.Run("I10_Accounted", func(t *testing.T) { runsAccounted(t, open) })
}

func runsKept(t *testing.T, open Open) {
	d := newDesk(t, open)
	run := ledger.DecisionRun{ID: "run-1", IdempotencyKey: "night shift", Digest: "digest of confirm a b", Verb: "confirm", Actor: maya, CreatedAt: d.clock.Now(),
		Terms: ledger.RunTerms{Reason: "seen", Reference: "T-1", Receipts: []string{"ch_1"}, Until: Noon.Add(time.Hour)}}
	items := []ledger.RunItem{{OperationID: "a", Version: 2, Kind: "k", Title: "charge a"}, {N: 1, OperationID: "b", Version: 3, Basis: ledger.BasisKeySafe, Request: "r"}}
	got, known, err := d.s.Run(ctx, run, items)
	d.ok(err)
	first := ledger.RunID("night shift")
	need.Must(d, !known && got.ID == first && got.Size == 2 && got.State == ledger.RunRunning,
		"a new run came back known=%v as %+v", known, got)
	again := run
	again.ID = "run-2"
	got, known, err = d.s.Run(ctx, again, nil)
	d.ok(err)
	need.Must(d, known && got.ID == first && got.Actor == maya && cmp.Equal(got.Terms, run.Terms),
		"the same key again: known=%v, %+v", known, got)
	_, kept, err := d.s.Account(ctx, first)
	d.ok(err)
	items[0].Title = "" // the operation has one, not the run
	items[0].Change, items[1].Change = got.ChangeID(items[0]), got.ChangeID(items[1])
	if !cmp.Equal(kept, items) {
		d.Fatalf("its items: %s", cmp.Diff(items, kept))
	}
	again.Digest = "digest of confirm c"
	if _, _, err := d.s.Run(ctx, again, nil); !errors.Is(err, ledger.ErrKeyReused) {
		d.Fatalf("the same key for something else: %v, want ErrKeyReused", err)
	}
	for _, id := range []string{"run-3", "run-4"} { // without a key, runs have nothing to do with each other
		r, known, err := d.s.Run(ctx, ledger.DecisionRun{ID: id, Verb: "settle", Actor: maya, CreatedAt: d.clock.Now()}, nil)
		need.Must(d, !known && err == nil && r.State == ledger.RunDone, "%s: known=%v, %v, %+v", id, known, err, r)
	}
	list := need.Get(d.s.Runs(ctx, ledger.RunQuery{Open: true, Limit: 9}))(d)
	need.Must(d, len(list) == 1 && list[0].ID == first, "open runs: %+v", list)
	if list, err = d.s.Runs(ctx, ledger.RunQuery{ID: "run-", Limit: 9}); err != nil || len(list) != 2 {
		d.Fatalf("by what its id begins with: %+v, %v", list, err)
	}
	if _, _, err := d.drive(ledger.DecisionRun{ID: "none"}, maya, "c", true); !errors.Is(err, ledger.ErrNotFound) {
		d.Fatalf("a run that is not there: %v", err)
	}
	if evs := d.events(""); len(evs) != 3 || evs[0].Verb != "run" || evs[0].Run != first || evs[2].Verb != ledger.VerbRunOver {
		d.Fatalf("events: %+v", evs)
	}
}

func runsStop(t *testing.T, open Open) {
	const (
		l, a, u = ledger.CameLanded, ledger.CameAlready, ledger.CameUnclear
		f, m, b = ledger.CameFailed, ledger.CameMoved, ledger.CameBroken
	)
	for name, c := range map[string]struct {
		came  []ledger.Came
		state ledger.RunState
		why   string
	}{
		"three canaries, then a person":                 {[]ledger.Came{l, l, l}, ledger.RunWaiting, "3 sent"},
		"what was not sent is no canary":                {[]ledger.Came{a, l, m, l, a, l}, ledger.RunWaiting, "3 sent"},
		"an unclear canary":                             {[]ledger.Came{l, u}, ledger.RunStopped, "1 of the first 3 failed or unclear"},
		"a failed canary":                               {[]ledger.Came{f}, ledger.RunStopped, "1 of the first 3 failed or unclear"},
		"a canary that could not be sent":               {[]ledger.Came{b}, ledger.RunStopped, "1 of the first 3 failed or unclear: broken"},
		"the last result counts where all is done":      {[]ledger.Came{a, a, a, a, a, a, a, u}, ledger.RunDone, ""},
		"all had landed, so that none waits for a look": {[]ledger.Came{a, a, a, m, m, a, a, a}, ledger.RunDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, open)
			r := d.play(d.run(8), 0, c.came...)
			if r.State != c.state || !strings.Contains(r.Why, c.why) || r.Done() != len(c.came) || r.FinishedAt.IsZero() == (r.State == ledger.RunDone) {
				t.Fatalf("%s (%s), %d done", r.State, r.Why, r.Done())
			}
			need.That(t, r.DrivenBy(d.clock.Now()) == "", "%s still drives it", r.Driver.Name)
		})
	}
	d := newDesk(t, open)
	r := d.play(d.run(12), 0, l, l, l)
	r, next, err := d.drive(r, sam, "console-1", true)
	d.ok(err)
	need.Must(t, r.State == ledger.RunRunning && r.Driver.Name == "sam" && next != nil && next.N == 3, "goes on as %+v with %+v", r, next)
	r = d.play(r, 3, u, l, l, f)
	need.Must(t, r.State == ledger.RunStopped && r.Why == "stopped at 2 failed or unclear: failed",
		"%s: %s", r.State, r.Why)
	if same, _, err := d.drive(r, sam, "console-1", false); err != nil || same.State != ledger.RunStopped {
		t.Fatalf("it goes on without a decision: %+v, %v", same, err)
	}
	r, _, err = d.drive(r, maya, "console-1", true)
	d.ok(err)
	r = d.play(r, 7, u, l) // counted anew
	need.Must(t, r.State == ledger.RunRunning, "%s: %s", r.State, r.Why)
	r = d.halt(r, sam, false)
	need.Must(t, r.State == ledger.RunPaused && r.Why == "paused by sam", "%s: %s", r.State, r.Why)
	r, _, err = d.advance(r, "console-1", 9, l) // was under way
	d.ok(err)
	if r.State != ledger.RunPaused || r.Done() != 10 {
		t.Fatalf("%s after %d", r.State, r.Done())
	}
	if r = d.halt(r, maya, true); r.State != ledger.RunStopped || r.Open() || r.Left() != 2 {
		t.Fatalf("ended as %+v", r)
	}
	var over *ledger.RefusedError
	if _, _, err := d.drive(r, sam, "console-2", true); !errors.As(err, &over) || over.Code != "over" {
		t.Fatalf("what a person ended goes on: %v", err)
	}
	if same, _, err := d.drive(r, sam, "console-2", false); err != nil || same.State != ledger.RunStopped || same.Open() {
		t.Fatalf("carried on as %+v, %v", same, err)
	}
	var states []string
	for _, e := range d.events("") {
		if e.Verb != "left_out" {
			states = append(states, e.Actor.Name+" "+e.Reason)
		}
	}
	want := []string{"maya retry of 12 running: outage over", "maya retry of 12 waiting: 3 sent: look at them before the rest", "sam retry of 12 running: outage over",
		"maya retry of 12 stopped: stopped at 2 failed or unclear: failed", "maya retry of 12 running: outage over", "sam retry of 12 paused: paused by sam",
		"maya retry of 12 stopped: stopped by maya"}
	if !slices.Equal(states, want) {
		t.Fatalf("events: %s", cmp.Diff(want, states))
	}
}

func runsDriven(t *testing.T, open Open) {
	d := newDesk(t, open)
	r := d.play(d.run(5), 0, ledger.CameLanded)
	var driven *ledger.DrivenError
	if _, _, err := d.drive(r, sam, "console-2", true); !errors.As(err, &driven) || driven.Name != "maya" {
		t.Fatalf("two drive it: %v", err)
	}
	beat := ledger.RunAdvance{Actor: maya, Holder: "console-1"}
	d.clock.Advance(ledger.RunLease - time.Second)
	_, err := d.s.ChangeRun(ctx, r, beat.Rule)
	d.ok(err)
	d.clock.Advance(ledger.RunLease - time.Second)
	if _, _, err := d.drive(r, sam, "console-2", true); !errors.As(err, &driven) {
		t.Fatalf("two drive it after a sign of life: %v", err)
	}
	d.clock.Advance(2 * time.Second) // maya's console was killed
	r, next, err := d.drive(r, sam, "console-2", false)
	d.ok(err)
	need.Must(t, r.Driver.Name == "sam" && next != nil && next.N == 1, "%+v goes on with %+v", r, next)
	if _, _, err := d.advance(r, "console-1", 1, ledger.CameLanded); !errors.As(err, &driven) || driven.Name != "sam" {
		t.Fatalf("the one before writes on: %v", err)
	}
	for range 2 { // its own commit was in doubt
		if r, _, err = d.advance(r, "console-2", 1, ledger.CameAlready); err != nil || r.Done() != 2 {
			t.Fatalf("%d done, %v", r.Done(), err)
		}
	}
	if r, _, err = d.advance(r, "console-2", 1, ledger.CameUnclear); err != nil || r.Tally[ledger.CameUnclear] != 0 {
		t.Fatalf("an item came twice: %+v, %v", r.Tally, err)
	}
	if _, _, err := d.drive(r, ledger.Actor{Name: "checks"}, "console-2", true); err == nil {
		t.Fatal("driven under a name of the machine")
	}
	seen, n := r, 2 // by both
	for r.State == ledger.RunRunning {
		r, _, err = d.advance(r, "console-2", n, ledger.CameLanded)
		d.ok(err)
		n++
	}
	var refused *ledger.RefusedError
	if _, _, err = d.drive(seen, maya, "console-1", true); !errors.As(err, &refused) || refused.Code != "moved" {
		t.Fatalf("she goes on with what she has not seen: %v", err)
	}
	r, _, err = d.drive(r, maya, "console-1", true)
	d.ok(err)
	d.clock.Set(-time.Hour) // and she was killed
	_, _, err = d.drive(r, sam, "console-2", true)
	d.ok(err)
}

// What became of a row is what the history has of the run's own change: not of another one that
// took its id, and also of one that the ledger has lost and got again.
func runsTold(t *testing.T, open Open) {
	d := newDesk(t, open)
	row := func(key, verb string) (ledger.DecisionRun, ledger.Operation, string) {
		o := d.doubt(key)
		it := ledger.RunItem{OperationID: o.ID, Version: o.Version, Kind: o.Kind}
		r, _, err := d.s.Run(ctx, ledger.DecisionRun{ID: d.id("run"), Verb: verb, Actor: maya}, []ledger.RunItem{it})
		d.ok(err)
		return r, o, r.ChangeID(it)
	}
	told := func(r ledger.DecisionRun, came ledger.Came, word string) {
		d.Helper()
		_, items, err := d.s.Account(ctx, r.ID)
		d.ok(err)
		need.That(d, items[0].Came == came && items[0].Word == word, "%q %q, want %q %q", items[0].Came, items[0].Word, came, word)
	}
	for verb, came := range map[string]ledger.Came{"note": ledger.CameDecided, "deny": ledger.CameMoved, "retry": ledger.CameMoved} {
		r, o, change := row("noted of "+verb, verb)
		d.decide(o, ledger.VerbNote, func(c *ledger.Decision) { c.ChangeID = change })
		told(r, came, "")
	}
	r, o, change := row("unsent", "retry")
	g := d.grantRequest(o, ledger.BasisRiskAccepted)
	g.ChangeID, g.Sender, g.AttemptID, g.Deadline, g.TokenSent, g.Reason = change, "http", ledger.AttemptID(change), time.Minute, true, "again"
	need.Get(ledger.Allow(ctx, d.s, g))(d)
	told(r, "", "")
	d.settle(g.AttemptID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof, r.Error = ledger.NeverSent, "never sent: refused" })
	told(r, ledger.CameNever, "never sent: refused")

	r, o, change = row("lost", "retry")
	a := d.read(o.ID).Attempts[0]
	a.ID, a.N, a.Outcome, a.DeadlineAt = ledger.AttemptID(change), 2, "", d.clock.Now().Add(time.Minute)
	need.Get(ledger.SettleSent(ctx, d.s, ledger.Sent{ChangeID: change, Operation: o, Attempt: a, Actor: maya},
		ledger.SettleRequest{ChangeID: d.id("change"), AttemptID: a.ID, Outcome: ledger.OutcomeCommitted, Status: 200, Receipt: "ch_2", Actor: maya}))(d)
	told(r, ledger.CameLanded, "ch_2")
}

func runsHeld(t *testing.T, open Open) {
	d := newDesk(t, open)
	r := d.play(d.run(5), 0, ledger.CameLanded)
	hold := func(scope ledger.HoldScope) {
		d.ok(d.s.Hold(ctx, ledger.Hold{Scope: scope, Actor: sam, Reason: "stripe said so", ChangeID: d.id("hold"), CreatedAt: d.clock.Now().Add(-time.Hour)})) // by a clock that is behind
	}
	lift := func(scope ledger.HoldScope) {
		d.ok(d.s.LiftHold(ctx, ledger.Lift{Scope: scope, Actor: sam, Reason: "over", ChangeID: d.id("lift")}))
	}
	hold("kind:other")
	r = d.play(r, 1, ledger.CameLanded)
	hold("kind:card.charge")
	r, _, err := d.advance(r, "console-1", 2, ledger.CameAlready)
	d.ok(err)
	need.Must(t, r.State == ledger.RunStopped && strings.Contains(r.Why, "sam holds kind:card.charge (stripe said so)"), "%s: %s", r.State, r.Why)
	var refused *ledger.RefusedError
	if _, _, err := d.drive(r, maya, "console-1", true); !errors.As(err, &refused) || refused.Code != "hold" {
		t.Fatalf("it goes on under a hold: %v", err)
	}
	lift("kind:card.charge")
	r, next, err := d.drive(r, maya, "console-1", true)
	d.ok(err)
	need.Must(t, next != nil && next.N == 3, "goes on with %+v", next)
	r, _, err = d.advance(r, "console-1", 3, ledger.CameHeld) // the hold came between
	d.ok(err)
	if r.State != ledger.RunStopped || r.Left() != 2 || r.Tally[ledger.CameHeld] != 1 {
		t.Fatalf("%s, %d left, %v", r.State, r.Left(), r.Tally)
	}
	r, next, err = d.drive(r, maya, "console-1", true)
	d.ok(err)
	need.Must(t, next != nil && next.N == 3 && r.Tally[ledger.CameHeld] == 0, "goes on with %+v, %v", next, r.Tally)

	// What sends nothing is stopped by a hold that came since, by the ledger's clock.
	notes, _, err := d.s.Run(ctx, ledger.DecisionRun{ID: d.id("run"), Verb: "note", Actor: maya, Driver: ledger.RunDriver{Name: "maya", Holder: "console-1"}, CreatedAt: d.clock.Now()},
		[]ledger.RunItem{{OperationID: "a", Version: 1, Kind: "card.charge"}, {N: 1, OperationID: "b", Version: 1, Kind: "card.charge"}})
	d.ok(err)
	d.clock.Advance(time.Second)
	hold("kind:card.charge")
	notes, _, err = d.advance(notes, "console-1", 0, ledger.CameLanded)
	d.ok(err)
	need.Must(t, notes.State == ledger.RunStopped && strings.Contains(notes.Why, "sam holds"), "%s: %s", notes.State, notes.Why)
}

// What was under way as a person ended the run is finished and counted. Who ended it, and
// why, stands, whatever comes of that.
func runsEnded(t *testing.T, open Open) {
	for name, c := range map[string]ledger.Came{"landed": ledger.CameLanded, "unclear": ledger.CameUnclear, "put off": ledger.CameHeld} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, open)
			r := d.play(d.run(5), 0, ledger.CameLanded)
			h := ledger.RunHalt{Actor: sam, Reason: "stripe said stop", End: true}
			_, err := halted(d.s, r.ID, h)
			d.ok(err)
			r, _, err = d.advance(r, "console-1", 1, c)
			d.ok(err)
			need.Must(t, r.State == ledger.RunStopped && r.Why == "stopped by sam: stripe said stop" && !r.Open() && r.Tally[c] > 0, "%+v", r)
			var over *ledger.RefusedError
			if _, _, err := d.drive(r, maya, "console-1", true); !errors.As(err, &over) || over.Code != "over" {
				t.Fatalf("it goes on: %v", err)
			}
		})
	}
}

// runsAccounted plays with several processes that drive, die, pause and hold, on
// the store and on Memory: each item comes to something once, and sums add up.
func runsAccounted(t *testing.T, open Open) {
	need.FixSeed()
	games := 0
	rapid.Check(t, func(rt *rapid.T) {
		if games++; games > need.Steps(4, 20) { // each move is a write to disk
			return
		}
		clock := NewClock()
		s := open(t, clock.Now, clock.Steady)
		defer s.Close()
		real, plain := &desk{failer: rt, s: s, clock: clock}, &desk{failer: rt, s: NewMemory(clock.Now, clock.Steady), clock: clock}
		size := rapid.IntRange(2, 9).Draw(rt, "size")
		run := real.run(size)
		seen := run.ChangedAt
		plain.run(size)
		came := map[int]ledger.Came{}
		for range rapid.IntRange(1, 30).Draw(rt, "moves") {
			change := func(do func(s ledger.Store) (ledger.DecisionRun, *ledger.RunItem, error)) {
				a, next, errA := do(s)
				b, nextB, errB := do(plain.s)
				if fmt.Sprint(errA) != fmt.Sprint(errB) || !cmp.Equal(a, b, alike) || !cmp.Equal(next, nextB) {
					rt.Fatalf("%v and %v: %s%s", errA, errB, cmp.Diff(b, a, alike), cmp.Diff(nextB, next))
				}
			}
			who := rapid.SampledFrom([]string{"console-1", "console-2", "console-3"}).Draw(rt, "who")
			switch rapid.IntRange(0, 7).Draw(rt, "move") {
			case 0:
				clock.Advance(time.Duration(rapid.IntRange(0, 12).Draw(rt, "seconds")) * time.Second)
			case 1:
				decided := rapid.Bool().Draw(rt, "decided")
				change(func(s ledger.Store) (ledger.DecisionRun, *ledger.RunItem, error) {
					return driven(s, run.ID, sam, who, decided, seen)
				})
			case 2:
				end := rapid.IntRange(0, 3).Draw(rt, "end") == 0
				change(func(s ledger.Store) (r ledger.DecisionRun, _ *ledger.RunItem, err error) {
					r, err = halted(s, run.ID, ledger.RunHalt{Actor: sam, End: end})
					return r, nil, err
				})
			case 3:
				h := ledger.Hold{Scope: "all", Actor: sam, Reason: "r", ChangeID: real.id("hold")}
				real.ok(s.Hold(ctx, h))
				real.ok(plain.s.Hold(ctx, h))
			case 4:
				id := real.id("lift")
				real.ok(s.LiftHold(ctx, ledger.Lift{Scope: "all", Actor: sam, Reason: "r", ChangeID: id}))
				real.ok(plain.s.LiftHold(ctx, ledger.Lift{Scope: "all", Actor: sam, Reason: "r", ChangeID: id}))
			default:
				item, c := rapid.IntRange(0, size-1).Draw(rt, "item"), rapid.SampledFrom(ledger.Outcomes).Draw(rt, "came")
				change(func(s ledger.Store) (ledger.DecisionRun, *ledger.RunItem, error) {
					return advanced(s, run.ID, who, item, c)
				})
			}
			_, items, err := s.Account(ctx, run.ID)
			real.ok(err)
			tally := map[ledger.Came]int{}
			for n, it := range items {
				if was := came[n]; was != "" && was != ledger.CameHeld && was != it.Came {
					rt.Fatalf("item %d was %s and is %s", n, was, it.Came)
				}
				if came[n] = it.Came; it.Came != "" {
					tally[it.Came]++
				}
			}
			list := need.Get(s.Runs(ctx, ledger.RunQuery{ID: run.ID}))(real)
			seen = list[0].ChangedAt
			if now := list[0]; !maps.Equal(tally, now.Tally) || now.Done()+now.Left() != size || now.State == ledger.RunDone && now.Left() > 0 {
				rt.Fatalf("%v is told as %+v", tally, now)
			}
		}
	})
}
