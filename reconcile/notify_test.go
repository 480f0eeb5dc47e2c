package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/policy"
)

// office is a ledger, engines, and a listener that people are told through.
type office struct {
	testing.TB
	ctx    context.Context
	store  ledger.Store
	offset atomic.Int64
	pol    *policy.Policy
	text   string // of the policy

	mu     sync.Mutex
	heard  []NoticeInput
	keys   []string
	answer http.HandlerFunc // nil: 200
}

const tellPolicy = `
version: 1
downstreams: { hooks: { base: %s, key: { header: Idempotency-Key } } }
notify: { oncall: { downstream: hooks, http: { post: /page }%s } }
kinds: { pay: { cost: { duplicate: input.amount, miss: input.amount } } }
`

// newOffice opens one over SQLite or in memory.
func newOffice(t testing.TB, more string, store func(o *office) ledger.Store) *office {
	t.Helper()
	o := &office{TB: t, ctx: context.Background()}
	server := httptest.NewServer(http.HandlerFunc(o.hear))
	t.Cleanup(server.Close)
	o.text = fmt.Sprintf(tellPolicy, server.URL, more)
	o.pol = need.Get(policy.Parse("policy.yaml", []byte(o.text)))(t)
	o.store = store(o)
	return o
}

// officeStores are what an office records in. The soak lane adds a file.
var officeStores = map[string]func(o *office) ledger.Store{
	"memory": func(o *office) ledger.Store {
		store := ledgertest.NewMemory(o.now, hostclock.With(o.now))
		o.Cleanup(func() { store.Close() })
		return store
	},
}

// offices runs a test over each store.
func offices(t *testing.T, more string, test func(o *office)) {
	for name, store := range officeStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newOffice(t, more, store))
		})
	}
}

func (o *office) now() time.Time          { return time.Now().Add(time.Duration(o.offset.Load())) }
func (o *office) pass(d time.Duration)    { o.offset.Add(int64(d)) }
func (o *office) inForce() *policy.Policy { return o.pol }
func (o *office) set(answer http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *office) hear(w http.ResponseWriter, r *http.Request) {
	var in NoticeInput
	body, _ := io.ReadAll(r.Body)
	err := json.Unmarshal(body, &in)
	need.That(o, err == nil, "told %q: %v", body, err)
	o.mu.Lock()
	o.heard, o.keys = append(o.heard, in), append(o.keys, r.Header.Get("Idempotency-Key"))
	answer := o.answer
	o.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

// events are what was told, in its order, with the errors of each.
func (o *office) events() (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.heard {
		out = append(out, fmt.Sprintf("%s %d", h.Event, h.N))
	}
	return out
}

func (o *office) want(events ...string) {
	o.Helper()
	eventually(o, fmt.Sprint(events), func() bool { return len(o.events()) >= len(events) })
	time.Sleep(50 * time.Millisecond) // ten more looks
	got := o.events()
	need.Must(o, slices.Equal(got, events), "told %q, want %q", got, events)
}

func (o *office) engine() *Engine {
	e := New(Options{Store: o.store, Policy: o.inForce, Actor: maya, Clock: o.now, Steady: hostclock.With(o.now), Notify: true, Log: func(s string) { o.Logf("engine: %s", s) }})
	e.notify.every, e.notify.pause = 5*time.Millisecond, time.Millisecond
	return e
}

// guard starts a proxy's watch for engines, and stops it with the test.
func (o *office) guard(say func(string)) {
	e := o.engine()
	ctx, cancel := context.WithCancel(o.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Guard(ctx, say)
	}()
	o.Cleanup(func() {
		cancel()
		<-done
		e.background.Wait()
	})
}

// run starts engines, and stops them with the test.
func (o *office) run(engines ...*Engine) {
	for _, e := range engines {
		ctx, cancel := context.WithCancel(o.ctx)
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		o.Cleanup(func() {
			cancel()
			err := <-done
			need.That(o, err == nil, "run: %v", err)
		})
	}
}

// fail records writes whose answer never came.
func (o *office) fail(n int) (last ledger.Operation) {
	o.Helper()
	const together = 8
	if n >= 100 {
		var all sync.WaitGroup
		for i := range together {
			all.Go(func() { o.fail1(n/together + min(1, max(0, n%together-i))) })
		}
		all.Wait()
		return last
	}
	return o.fail1(n)
}

func (o *office) fail1(n int) (last ledger.Operation) {
	for range n {
		change := ledger.NewID()
		b, err := ledger.Begin(o.ctx, o.store, ledger.BeginRequest{ChangeID: change, OperationID: ledger.NewID(), AttemptID: ledger.DeriveID(change, "a"), Kind: "pay",
			Key: change, Input: []byte(`{"amount":10}`), Deadline: time.Hour, Actor: pipeline, Source: ledger.Source{Pipeline: "billing"}})
		if err != nil {
			o.Error(err)
			return last
		}
		applied, err := ledger.Settle(o.ctx, o.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1, Actor: pipeline})
		if err == nil { // as who leads does
			err = o.store.Fold(o.ctx, []string{applied.After.ID}, []string{applied.After.ID}, false, func(kind string) ledger.Burst { return o.pol.Kind(kind).Burst() })
		}
		if err != nil {
			o.Error(err)
			return last
		}
		last = applied.After
	}
	return last
}

// recorded are the events that told people.
func (o *office) recorded() []ledger.Event {
	o.Helper()
	all := need.Get(o.store.History(o.ctx, ledger.HistoryQuery{Limit: 1 << 20}))(o)
	return slices.DeleteFunc(all, func(e ledger.Event) bool { return e.Verb != ledger.NoticeTold })
}

// Two engines tell an outage that opens once.
func TestAnOutageIsToldOnce(t *testing.T) {
	offices(t, ", on: [opened, over]", func(o *office) {
		o.run(o.engine(), o.engine())
		o.fail(4)
		time.Sleep(50 * time.Millisecond)
		o.fail(1)
		o.want("opened 5")
		o.fail(45)
		o.want("opened 5")
		for i, e := range o.recorded() {
			if e.ID != o.keys[i] || e.Actor.Name != "notify" || !e.Actor.Machine || e.OperationID != "" {
				o.Errorf("%+v told as %q", e, o.keys[i])
			}
		}
		h := o.heard[0]
		if h.Open != "indoubt --ledger "+h.Ledger+" outage:"+h.Outage && h.Ledger != "" || h.Where != "pay" || h.Notifier != "oncall" ||
			!strings.Contains(h.Text, "5 errors: 5 to look at") || !strings.HasSuffix(h.Text, h.Open) {
			o.Errorf("%+v", h)
		}
	})
}

func TestAnOutageThatIsOverIsTold(t *testing.T) {
	offices(t, ", on: over", func(o *office) {
		op := o.fail(6)
		o.run(o.engine())
		o.pass(11 * time.Minute)
		o.want()
		need.Get(ledger.Decide(o.ctx, o.store, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbConfirm, Receipts: []string{"r"}, Reason: "seen", Actor: maya}))(o)
		change := ledger.NewID()
		b, err := ledger.Begin(o.ctx, o.store, ledger.BeginRequest{ChangeID: change, OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "pay", Key: "later", Deadline: time.Hour, Actor: pipeline})
		if err == nil {
			_, err = ledger.Settle(o.ctx, o.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: ledger.OutcomeCommitted, Status: 200, Actor: pipeline})
		}
		need.OK(o, err)
		o.want("over 6")
	})
}

// What may not have arrived is sent again, a few times at most, under the same key.
func TestANoticeIsTriedThreeTimes(t *testing.T) {
	offices(t, ", on: opened", func(o *office) {
		o.set(func(w http.ResponseWriter, _ *http.Request) { hangUp(w) })
		o.run(o.engine(), o.engine())
		o.fail(5)
		o.want("opened 5", "opened 5", "opened 5")
		need.Equal(o, len(slices.Compact(o.keys)), 1, "keys")
	})
}

// What is accepted has arrived.
func TestANoticeThatIsAcceptedIsSentOnce(t *testing.T) {
	offices(t, ", on: opened", func(o *office) {
		o.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		o.run(o.engine())
		o.fail(5)
		o.want("opened 5")
	})
}

// No try is spent while a notifier wants no request, so that nothing was sent.
func TestANoticeWaitsForAPause(t *testing.T) {
	offices(t, ", on: opened", func(o *office) {
		var asked atomic.Bool
		o.set(func(w http.ResponseWriter, _ *http.Request) {
			if !asked.Swap(true) {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		o.run(o.engine())
		o.fail(5)
		o.want("opened 5")
		o.pass(11 * time.Minute)
		o.want("opened 5", "opened 5")
	})
}

// What an engine recorded and did not live to send is sent by no other one: it may have been.
func TestI10_ANoticeCutOffIsNotSentAgain(t *testing.T) {
	offices(t, ", on: opened", func(o *office) {
		o.fail(5)
		f, err := gather(o.ctx, o.store, o.pol, o.now())
		need.Must(o, err == nil && len(f.outages) == 1, "%v %v", f.outages, err)
		first := need.Get(o.store.Tell(o.ctx, f.notices(o.pol.Notifiers()[0])[0].event("oncall", "")))(o)
		need.That(o, first, "it was told before")
		o.run(o.engine(), o.engine())
		o.want()
	})
}

// What waits for a person is the same for every notifier, also what does not wait long enough.
func TestEachNotifierIsToldTheSame(t *testing.T) {
	pol := need.Get(policy.Parse("policy.yaml", []byte("version: 1\nnotify: { oncall: { http: { post: http://127.0.0.1/ } } }\n")))(t)
	now := time.Unix(1_800_000_000, 0)
	row := func(id string, waited time.Duration) ledger.Row {
		return ledger.Row{Operation: ledger.Operation{ID: id, Kind: "pay", UpdatedAt: now.Add(-waited)}}
	}
	f := facts{noticeWriter: noticeWriter{pol, "l", now}, loose: []ledger.Row{row("young", time.Second), row("old", policy.UntakenAfter)}}
	for range 2 {
		told := f.notices(pol.Notifiers()[0])
		need.That(t, len(told) == 1 && told[0].Input.N == 1, "%+v", told)
	}
}

// A downstream that takes no notices is checked all the same, and it waits for none.
func TestANoticeThatFailsStopsNoCheck(t *testing.T) {
	o := newOffice(t, "", officeStores["memory"])
	o.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	e, n := o.engine(), o.pol.Notifiers()[0]
	for i := range tripAfter {
		event := Notice{Key: fmt.Sprint(i)}.event(n.Name, "host")
		need.That(t, e.sendNotice(o.ctx, n, event) != nil, "notice %d was taken", i)
	}
	checks, _ := e.downs.of(n.Kind).blocked()
	notices, _ := e.downs.to(n).blocked()
	need.That(t, checks.IsZero() && !notices.IsZero(), "checks wait until %v, notices until %v", checks, notices)
}

// An endpoint that is not there keeps no other one from being told, and opens no outage.
func TestADeadEndpoint(t *testing.T) {
	offices(t, " }, dead: { http: { post: \"http://127.0.0.1:1/\" }", func(o *office) {
		o.run(o.engine())
		o.fail(5)
		o.want("opened 5")
		eventually(o, "both", func() bool { return len(o.recorded()) == 2 })
		all, err := o.store.Outages(o.ctx, o.now(), 10)
		need.That(o, err == nil && len(all) == 1, "%d outages %v", len(all), err)
	})
}

// Nothing that an endpoint answers is kept, and no secret is said.
func TestI11_AHostileEndpoint(t *testing.T) {
	t.Setenv("HOOK_TEST_SECRET", "sesame/hook-secret")
	for name, store := range officeStores {
		o := newOffice(t, `, on: opened`, store)
		o.pol = need.Get(policy.Parse("policy.yaml", []byte(strings.Replace(o.text, "{ post: /page }", `{ post: "/page/${env.HOOK_TEST_SECRET}" }`, 1))))(t)
		o.set(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"path":%q,"more":%q}`, r.URL.Path, strings.Repeat("\x1b]0;x", 1<<20))
		})
		said := make(chan string, 9)
		e := o.engine()
		e.o.Log = func(s string) { said <- s }
		o.run(e)
		o.fail(5)
		text, line := "", ""
		eventually(o, name, func() bool {
			b, _ := json.Marshal(o.recorded())
			text = string(b)
			return len(o.events()) == noticeTries
		})
		for line = <-said; !strings.Contains(line, "tell oncall"); line = <-said {
		}
		text += line
		need.That(t, !strings.Contains(text, "hook-secret") && !strings.Contains(text, "\x1b") && len(text) <= 4<<10, "%s: kept %d bytes: %.300s", name, len(text), text)
	}
}

// A notifier that hangs holds up neither the engine nor another notifier.
func TestANotifierThatHangs(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "told")
	offices(t, fmt.Sprintf(", on: opened }, quick: { on: opened, command: [touch, %q]", mark), func(o *office) {
		release := make(chan struct{})
		o.set(func(http.ResponseWriter, *http.Request) { <-release })
		e := o.engine()
		o.run(e)
		o.Cleanup(func() { close(release) })
		o.fail(5)
		eventually(o, "the other one", func() bool { _, err := os.Stat(mark); return err == nil })
		late := o.fail(1)
		eventually(o, "priced", func() bool {
			rec, err := o.store.Read(o.ctx, ledger.Locator{ID: late.ID})
			return err == nil && rec.Pricing.Digest == o.pol.Digest()
		})
	})
}

// deaf is a store that takes no more notices.
type deaf struct{ ledger.Store }

func (d deaf) Tell(context.Context, ledger.Event) (bool, error) { return false, ledger.ErrBusy }

func TestI1_WhatCannotBeRecordedIsNotTold(t *testing.T) {
	offices(t, "", func(o *office) {
		o.fail(5)
		e := o.engine()
		e.o.Store = deaf{o.store}
		o.run(e)
		o.want()
	})
}

func TestWhatNoOneHasTaken(t *testing.T) {
	offices(t, ", on: untaken", func(o *office) {
		o.run(o.engine())
		o.fail(5)
		o.pass(14 * time.Minute)
		o.want()
		in := need.Get(o.store.Outages(o.ctx, o.now(), 1))(o)
		need.Get(o.store.ChangeOutage(o.ctx, ledger.OutageChange{ChangeID: ledger.NewID(), ID: in[0].ID, Verb: ledger.OutageTaken, Actor: maya, Until: o.now().Add(time.Hour)}))(o)
		o.pass(50 * time.Minute)
		o.want()
		o.pass(20 * time.Minute) // it ran out
		o.want()
		o.pass(6 * time.Minute)
		o.want("untaken 5")
		alone := o.fail(2) // in no outage
		o.pass(15 * time.Minute)
		o.want("untaken 5", "untaken 2")
		h := o.heard[1]
		need.That(o, h.Outage == "" && len(need.Get(o.store.Read(o.ctx, ledger.Locator{ID: alone.ID}))(o).Outages) == 0, "%+v", h)
		o.pass(time.Hour)
		o.want("untaken 5", "untaken 2")
	})
}

// An outage waits for someone since something of it needs a person, and not since it
// opened: here, since its rows are parked no more.
func TestAnOutageIsUntakenSinceItNeedsAPerson(t *testing.T) {
	offices(t, ", on: untaken", func(o *office) {
		var all []ledger.Operation
		for range 5 {
			op := o.fail(1)
			all = append(all, need.Get(ledger.Decide(o.ctx, o.store, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbPark, Until: o.now().Add(30 * time.Minute), Actor: maya}))(o).After)
		}
		o.run(o.engine())
		o.pass(39 * time.Minute)
		o.want()
		op := all[0] // a row that is settled meanwhile, and one that was touched, put the others off no further
		need.Get(ledger.Decide(o.ctx, o.store, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbConfirm, Receipts: []string{"r"}, Reason: "seen", Actor: maya}))(o)
		o.want()
		o.pass(7 * time.Minute)
		o.want("untaken 5")
		need.Contains(o, o.heard[0].Text, "no one has taken it for 16m")
		o.pass(time.Hour)
		o.want("untaken 5")
	})
}

func TestWhatHappenedTwiceIsTold(t *testing.T) {
	offices(t, ", on: twice", func(o *office) {
		o.run(o.engine())
		twice := func(op ledger.Operation) {
			need.Get(ledger.Decide(o.ctx, o.store, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbConfirm, Receipts: []string{"a", "b"}, Reason: "seen", Actor: maya}))(o)
		}
		op := o.fail(1)
		twice(op)
		o.want("twice 1")
		h := o.heard[0]
		need.That(o, h.Operation == op.ID && strings.HasSuffix(h.Open, "id:"+op.ID) && h.Where == "pay", "%+v", h)
		o.pass(2 * time.Hour)
		for range 6 {
			op = o.fail(1)
		}
		twice(op)
		o.want("twice 1", "twice 1")
		h = o.heard[1]
		need.That(o, strings.Contains(h.Open, "outage:"), "%+v", h)
	})
}

// A proxy says that no engine checks, and its notifiers are told once by all of them.
func TestNoEngineChecks(t *testing.T) {
	offices(t, "", func(o *office) {
		var mu sync.Mutex
		var said []string
		for range 2 {
			o.guard(func(line string) { mu.Lock(); said = append(said, line); mu.Unlock() })
		}
		o.want() // nothing is in doubt, and no engine ever was
		engine := o.engine()
		running, stop := context.WithCancel(o.ctx)
		done := make(chan error, 1)
		go func() { done <- engine.Run(running) }()
		eventually(o, "registered", func() bool { info, err := o.store.Info(o.ctx); return err == nil && !info.EngineAt.IsZero() })
		stop()
		<-done
		o.pass(4 * time.Minute)
		o.want()
		o.pass(2 * time.Minute)
		o.want("unchecked 0")
		mu.Lock()
		defer mu.Unlock()
		need.That(o, len(said) == 2 && strings.HasPrefix(said[0], "no engine has checked for 6m"), "said %q", said)
	})
}

func TestNoEngineEverChecked(t *testing.T) {
	offices(t, "", func(o *office) {
		o.guard(func(string) {})
		o.fail(1)
		o.want()
		o.pass(6 * time.Minute)
		o.want("unchecked 1")
	})
}

// However much happens, a notifier is not flooded.
func TestNoticesHaveABound(t *testing.T) {
	offices(t, ", on: twice", func(o *office) {
		for range noticesMost + 5 {
			op := o.fail(1)
			need.Get(ledger.Decide(o.ctx, o.store, ledger.Decision{ChangeID: ledger.NewID(), ID: op.ID, Version: op.Version, Verb: ledger.VerbConfirm, Receipts: []string{"a", "b"}, Reason: "seen", Actor: maya}))(o)
			o.pass(11 * time.Minute) // each for itself, and no outage
		}
		o.run(o.engine())
		told := func(n int) {
			o.Helper()
			eventually(o, fmt.Sprint(n), func() bool { return len(o.events()) >= n })
			time.Sleep(100 * time.Millisecond)
			need.Equal(o, len(o.events()), n, "told")
		}
		told(noticesMost)
		o.pass(noticesIn)
		told(noticesMost + 5)
	})
}

// The amount of a notice says what it leaves out.
func TestTheAmountOfANoticeSaysWhatItLeavesOut(t *testing.T) {
	pol := need.Get(policy.Parse("policy.yaml", []byte("version: 1\n")))(t)
	for of, want := range map[ledger.Sum]string{
		{N: 3, Miss: 950}:              "to look at. Not known to have landed: 950 USD. ",
		{N: 3, Miss: 950, Unpriced: 1}: ". Not known to have landed: 950 USD without 1 not priced. ",
		{N: 3, MissWords: 2}:           ". Not known to have landed: 2 priced in words. ",
		{N: 3}:                         "3 to look at. indoubt",
	} {
		in := ledger.Outage{ID: "i1", Scope: "kind:pay", Fates: map[ledger.Fate]ledger.Sum{ledger.FateOpen: of}}
		n := noticeWriter{pol, "/ledger", time.Now()}.Outage(policy.NotifyOpened, in, time.Now())
		need.Contains(t, n.Input.Text, want)
	}
}
