package console

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// memory is the smallest store that lets the rules of package ledger run. What
// a test does not need is the nil interface underneath.
type memory struct {
	ledger.Store
	mu       sync.Mutex
	now      time.Time
	recs     map[string]*ledger.Record
	events   []ledger.Event
	holds    []ledger.Hold
	runs     []ledger.DecisionRun
	progress []json.RawMessage
	info     ledger.Info
	fail     error // every call fails with it
	changed  chan struct{}
	pages    int
	reads    int
	rechecks map[string]time.Time // asked for by changes
}

func newMemory(now time.Time, recs ...ledger.Record) *memory {
	s := &memory{now: now, recs: map[string]*ledger.Record{}, rechecks: map[string]time.Time{}, changed: make(chan struct{}, 1), info: ledger.Info{ID: "L1", Path: "/var/lib/indoubt/payments.db", CreatedAt: now.Add(-3 * time.Minute)}}
	for _, r := range recs {
		s.put(r)
	}
	return s
}

func (s *memory) put(r ledger.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Found = true
	s.recs[r.Operation.ID] = &r
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *memory) record(id string) (ledger.Record, error) {
	r, ok := s.recs[id]
	if !ok {
		return ledger.Record{}, fmt.Errorf("operation %s: %w", id, ledger.ErrNotFound)
	}
	out := *r
	out.Now, out.Holds = s.now, nil
	for _, h := range s.holds {
		if h.Covers(out.Operation.Kind, s.now) {
			out.Holds = append(out.Holds, h)
		}
	}
	return out, nil
}

func (s *memory) Read(_ context.Context, at ledger.Locator) (ledger.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fail != nil {
		return ledger.Record{}, s.fail
	}
	return s.record(at.ID)
}

func (s *memory) Change(_ context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return ledger.Applied{}, s.fail
	}
	rec, err := s.record(at.ID)
	if err != nil {
		return ledger.Applied{}, err
	}
	before := rec.Operation
	c, err := rule(&rec)
	if err != nil {
		return ledger.Applied{}, err
	}
	if c.Operation != nil {
		rec.Operation = *c.Operation
		rec.Operation.UpdatedAt = s.now
	}
	if c.Event != nil {
		e := *c.Event
		e.Seq, e.At, e.OperationID, e.From, e.To, e.Version = int64(len(s.events)+1), s.now, at.ID, before.State, rec.Operation.State, rec.Operation.Version
		s.events = append(s.events, e)
	}
	if !c.RecheckAt.IsZero() {
		s.rechecks[at.ID] = c.RecheckAt
	}
	rec.Holds = nil
	s.recs[at.ID] = &rec
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return ledger.Applied{Before: before, After: rec.Operation}, nil
}

func (s *memory) rows(f ledger.Filter, tab ledger.Tab, now time.Time) []ledger.Row {
	var out []ledger.Row
	for id := range s.recs {
		rec, _ := s.record(id)
		r := rec.Row()
		if (tab == ledger.TabAll || r.TabAt(now) == tab) && f.Match(r, now) {
			out = append(out, r)
		}
	}
	return out
}

func (s *memory) Page(_ context.Context, q ledger.Query) (ledger.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages++
	if s.fail != nil {
		return ledger.Page{}, s.fail
	}
	rows := s.rows(q.Filter, q.Tab, q.Now)
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		switch q.Order {
		case ledger.OrderNewest:
			if !a.UpdatedAt.Equal(b.UpdatedAt) {
				return a.UpdatedAt.After(b.UpdatedAt)
			}
		case ledger.OrderOldest:
			return a.CreatedAt.Before(b.CreatedAt)
		default:
			if (a.Conflict != "") != (b.Conflict != "") {
				return a.Conflict != ""
			}
			if a.Pricing.Rank != b.Pricing.Rank {
				return a.Pricing.Rank > b.Pricing.Rank
			}
		}
		return a.ID < b.ID
	})
	from := 0
	if q.After != "" {
		fmt.Sscan(q.After, &from)
	}
	to := min(from+q.Limit, len(rows))
	p := ledger.Page{Rows: rows[from:to]}
	if to < len(rows) {
		p.Next = fmt.Sprint(to)
	}
	return p, nil
}

func (s *memory) Counts(_ context.Context, now time.Time) (ledger.Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c ledger.Counts
	for _, r := range s.rows(ledger.Filter{}, ledger.TabAll, now) {
		c.All++
		c.Count(r, now)
		switch r.TabAt(now) {
		case ledger.TabParked:
			c.Parked++
		case ledger.TabChecking:
			c.Checking++
		case ledger.TabInFlight:
			c.InFlight++
		case ledger.TabSettled:
			c.Settled++
		}
	}
	return c, s.fail
}

func (s *memory) Needing(_ context.Context, f ledger.Filter, now time.Time) (n ledger.Needing, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows(f, ledger.TabAll, now) {
		n.Count(r, now)
	}
	return n, s.fail
}

func (s *memory) Events(_ context.Context, id string, after int64, limit int) ([]ledger.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ledger.Event
	for _, e := range s.events {
		if e.Seq > after && (id == "" || e.OperationID == id) && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, s.fail
}

func (s *memory) Watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.changed:
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out
}

func (s *memory) Info(context.Context) (ledger.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.LastSeq = int64(len(s.events))
	return info, s.fail
}

func (s *memory) Holds(context.Context, time.Time) ([]ledger.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ledger.Hold(nil), s.holds...), s.fail
}

func (s *memory) Hold(_ context.Context, h ledger.Hold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, h)
	return s.fail
}

func (s *memory) LiftHold(_ context.Context, scope ledger.HoldScope, _ ledger.Actor, _, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = nil
	return s.fail
}

func (s *memory) Run(_ context.Context, r ledger.DecisionRun) (ledger.DecisionRun, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, r)
	return r, false, s.fail
}

func (s *memory) Progress(_ context.Context, _ string, _ int, result json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = append(s.progress, result)
	return s.fail
}

// fakeEngine plans and sends as it was told, and counts.
type fakeEngine struct {
	mu      sync.Mutex
	plans   map[string]reconcile.Plan
	retried []reconcile.RetryRequest
	result  reconcile.RetryResult
	err     error
	reads   int
	read    ledger.Read
	busy    int
	health  []reconcile.Health
	looks   bool
	store   ledger.Store
}

func (e *fakeEngine) ReadNow(context.Context, string) (reconcile.ReadResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads++
	return reconcile.ReadResult{Read: e.read}, e.err
}

func (e *fakeEngine) Plan(ctx context.Context, id string) (reconcile.Plan, error) {
	p := e.plans[id]
	if e.store != nil {
		rec, err := e.store.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return p, err
		}
		p.Record = rec
	}
	return p, nil
}

func (e *fakeEngine) Retry(_ context.Context, q reconcile.RetryRequest) (reconcile.RetryResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retried = append(e.retried, q)
	return e.result, e.err
}

func (e *fakeEngine) Health() []reconcile.Health { return e.health }

func (e *fakeEngine) OnlyLooks() bool { return e.looks }

func (e *fakeEngine) Busy() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.busy
}

func (e *fakeEngine) Drain(context.Context) {}

// lose has every call fail.
func (s *memory) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// bench drives a root model without a terminal or a clock of its own.
type bench struct {
	t     testing.TB
	m     *Root
	store *memory
	now   time.Time
	quit  bool
	copy  []string
	busy  bool      // looks at the ledger take until release
	held  []tea.Cmd // which they are
}

func newBench(t testing.TB, w, h int, o Options) *bench {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	b := &bench{t: t, now: o.Clock()}
	if s, ok := o.Store.(*memory); ok {
		b.store = s
	}
	o.Clock = func() time.Time { return b.now }
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	// Clocks and watches are the test's.
	o.wait = func(<-chan struct{}) tea.Cmd { return nil }
	o.after = func(_ time.Duration, msg tea.Msg) tea.Cmd {
		if _, ok := msg.(feed.Rested); ok {
			return func() tea.Msg { return msg }
		}
		return nil
	}
	m, err := newRoot(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	b.m = m
	m.first()
	b.send(tea.WindowSizeMsg{Width: w, Height: h})
	return b
}

// judged replaces the policy by fixed facts.
func (b *bench) judged(j ticket.Judge) *bench {
	b.m.feed.JudgeBy(j)
	b.send(tickMsg{b.m.tickGen})
	return b
}

// send gives a message to the model and carries out what it starts.
func (b *bench) send(msg tea.Msg) {
	b.t.Helper()
	_, cmd := b.m.Update(msg)
	b.m.View()
	b.do(cmd)
}

func (b *bench) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if b.busy {
		b.held = append(b.held, cmd)
		return
	}
	b.step(cmd)
}

// step carries out one command.
func (b *bench) step(cmd tea.Cmd) {
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			b.do(c)
		}
	case tea.QuitMsg:
		b.quit = true
	default:
		if s := fmt.Sprintf("%T", msg); s == "tea.setClipboardMsg" {
			b.copy = append(b.copy, fmt.Sprint(msg))
			return
		}
		b.send(msg)
	}
}

// wait lets time pass.
func (b *bench) wait(d time.Duration) *bench {
	b.now = b.now.Add(d)
	if b.store != nil {
		b.store.mu.Lock()
		b.store.now = b.now
		b.store.mu.Unlock()
	}
	return b
}

// tickOver lets time pass and the clock notice.
func (b *bench) tickOver(d time.Duration) *bench {
	b.wait(d)
	b.send(tickMsg{b.m.tickGen})
	return b
}

func keyMsg(name string) tea.KeyPressMsg {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"space": {Code: tea.KeySpace, Text: " "}, "backspace": {Code: tea.KeyBackspace}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight},
		"shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "ctrl+d": {Code: 'd', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
		"ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl}, "pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp},
		"home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "ctrl+l": {Code: 'l', Mod: tea.ModCtrl},
	}
	if k, ok := special[name]; ok {
		return k
	}
	r := []rune(name)[0]
	return tea.KeyPressMsg{Code: r, Text: name}
}

// keys presses keys one after the other, as slowly as a person does.
func (b *bench) keys(names ...string) *bench {
	b.t.Helper()
	for _, n := range names {
		b.wait(400 * time.Millisecond)
		b.send(keyMsg(n))
	}
	return b
}

// fast presses keys with no time between them.
func (b *bench) fast(names ...string) *bench {
	b.t.Helper()
	for _, n := range names {
		b.send(keyMsg(n))
	}
	return b
}

// text types letters.
func (b *bench) text(s string) *bench {
	b.t.Helper()
	for _, r := range s {
		n := string(r)
		if r == ' ' {
			n = "space"
		}
		b.keys(n)
	}
	return b
}

// screen is the frame as text.
func (b *bench) screen() string { return ansi.Strip(b.m.View().Content) }

func (b *bench) op(id string) ledger.Operation {
	b.t.Helper()
	rec, err := b.store.Read(context.Background(), ledger.Locator{ID: id})
	if err != nil {
		b.t.Fatal(err)
	}
	return rec.Operation
}

// sam decides about an operation as it stands, from elsewhere.
func (b *bench) sam(n int, verb ledger.Verb, reason string) {
	b.t.Helper()
	d := ledger.Decision{ChangeID: "s", ID: id(n), Version: b.op(id(n)).Version, Verb: verb, Reason: reason, Truth: ledger.TakenBack, Reference: "r", Actor: ledger.Actor{Name: "sam"}}
	if _, err := ledger.Decide(b.t.Context(), b.store, d); err != nil {
		b.t.Fatal(err)
	}
}
