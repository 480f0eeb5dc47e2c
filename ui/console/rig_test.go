package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/reconcile"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/feed"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// memory is a ledger in memory with a clock of its own, which can be lost and says of
// itself what a test wants.
type memory struct {
	*ledgertest.Memory
	mu    sync.Mutex
	now   time.Time
	info  ledger.Info
	fail  error // every call fails with it
	reads int
}

// loose is a ledger that takes what tests put into it.
var loose ledgertest.Image

func newMemory(now time.Time, recs ...ledger.Record) *memory {
	s := begin(&loose, now, func(s *memory) { s.put() })
	s.put(recs...)
	return s
}

// begin makes a ledger that begins with an image.
func begin(of *ledgertest.Image, now time.Time, fill func(*memory)) *memory {
	s := &memory{now: now, info: ledger.Info{ID: "L1", Path: "/var/lib/indoubt/payments.db", CreatedAt: now.Add(-3 * time.Minute)}}
	s.Memory = of.NewMemory(func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}, nil, func(m *ledgertest.Memory) {
		s.Memory = m
		fill(s)
	})
	return s
}

func (s *memory) put(recs ...ledger.Record) { s.Put(ledgertest.Contents{Records: recs}) }

// lose has every call fail.
func (s *memory) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *memory) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

func (s *memory) set(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *memory) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	if err := s.lost(); err != nil {
		return ledger.Record{}, err
	}
	return s.Memory.Read(ctx, at)
}

func (s *memory) Change(ctx context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	if err := s.lost(); err != nil {
		return ledger.Applied{}, err
	}
	return s.Memory.Change(ctx, at, changeID, rule)
}

func (s *memory) ChangeOutage(ctx context.Context, c ledger.OutageChange) (ledger.Outage, error) {
	if err := s.lost(); err != nil {
		return ledger.Outage{}, err
	}
	return s.Memory.ChangeOutage(ctx, c)
}

func (s *memory) Hold(ctx context.Context, h ledger.Hold) error {
	return errors.Join(s.lost(), s.Memory.Hold(ctx, h))
}

func (s *memory) Run(ctx context.Context, run ledger.DecisionRun, items []ledger.RunItem) (ledger.DecisionRun, bool, error) {
	if err := s.lost(); err != nil {
		return run, false, err
	}
	return s.Memory.Run(ctx, run, items)
}

func (s *memory) Info(ctx context.Context) (ledger.Info, error) {
	info, _ := s.Memory.Info(ctx)
	seq, cursor := info.LastSeq, info.Cursor
	info = s.info
	info.LastSeq, info.Cursor = seq, cursor
	return info, s.lost()
}

// record is a record as it stands.
func (s *memory) record(n int) ledger.Record {
	r, err := s.Memory.Read(context.Background(), ledger.Locator{ID: id(n)})
	if err != nil {
		panic(err)
	}
	return r
}

// row is a record's line of a list.
func (s *memory) row(id string) ledger.Row {
	r, err := s.Memory.Read(context.Background(), ledger.Locator{ID: id})
	if err != nil {
		panic(err)
	}
	return r.Row()
}

// fakeEngine plans and sends as it was told, and counts.
type fakeEngine struct {
	mu        sync.Mutex
	plans     map[string]reconcile.Plan
	retried   []reconcile.RetryRequest
	result    reconcile.RetryResult
	err       error
	reads     int
	read      ledger.Read
	busy      int
	health    []reconcile.Health
	looks     bool
	checkedBy string
	priced    []string // as they are seen
	store     ledger.Store
	during    func(n int) // called while the nth send is under way
}

func (e *fakeEngine) ReadNow(context.Context, string) (reconcile.ReadResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads++
	return reconcile.ReadResult{Read: e.read}, e.err
}

func (e *fakeEngine) Plan(ctx context.Context, id string) (reconcile.Plan, error) {
	p := e.plans[id]
	p.Showing.Digest = cmp.Or(p.Showing.Digest, "shown")
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
	if e.retried = append(e.retried, q); e.during != nil {
		e.during(len(e.retried))
	}
	res := e.result // its attempt came to what the operation did
	res.Attempt.Receipt, res.Attempt.Outcome = res.Operation.Receipt(), map[ledger.State]ledger.Outcome{ledger.Committed: ledger.OutcomeCommitted,
		ledger.Failed: ledger.OutcomeFailed, ledger.Uncertain: ledger.OutcomeUncertain}[res.Operation.State]
	return res, e.err
}

func (e *fakeEngine) Health() []reconcile.Health { return e.health }

func (e *fakeEngine) OnlyReads() bool   { return e.looks }
func (e *fakeEngine) CheckedBy() string { return cmp.Or(e.checkedBy, "this console") }

func (e *fakeEngine) PriceAsSeen(_ context.Context, ids []string) error {
	e.priced = append(e.priced, ids...)
	return nil
}

func (e *fakeEngine) Busy() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.busy
}

// bench drives a root model without a terminal or a clock of its own.
type bench struct {
	t     testing.TB
	m     *Root
	store *memory
	now   time.Time
	quit  bool
	copy  []string
	due   []due
	blind bool      // nothing is drawn
	busy  bool      // looks at the ledger take until release
	held  []tea.Cmd // which they are
}

// due is a message that a clock brings.
type due struct {
	at  time.Time
	msg tea.Msg
}

func newBench(t testing.TB, w, h int, o Options) *bench {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	b := &bench{t: t, now: o.Clock()}
	if s, ok := o.Store.(*memory); ok {
		b.store = s
		t.Cleanup(func() { need.OK(t, s.Close()) })
	}
	o.Clock = func() time.Time { return b.now }
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	// Clocks and watches are the test's.
	o.wait = func(<-chan struct{}) tea.Cmd { return nil }
	o.after = func(d time.Duration, msg tea.Msg) tea.Cmd {
		switch msg.(type) {
		case feed.Rested:
			return func() tea.Msg { return msg }
		case heldMsg:
			b.due = append(b.due, due{b.now.Add(d), msg})
		}
		return nil
	}
	m := need.Get(newRoot(ctx, o))(t)
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
	if !b.blind {
		b.m.View()
	}
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

// wait lets time pass, and brings the answers that were held until then.
func (b *bench) wait(d time.Duration) *bench {
	end := b.now.Add(d)
	for len(b.due) > 0 && !b.due[0].at.After(end) {
		now := b.due[0]
		b.due = b.due[1:]
		b.at(now.at)
		b.send(now.msg)
	}
	b.at(end)
	return b
}

func (b *bench) at(now time.Time) {
	b.now = now
	if b.store != nil {
		b.store.set(now)
	}
}

// tickOver lets time pass and the clock notice.
func (b *bench) tickOver(d time.Duration) *bench {
	b.wait(d)
	b.send(tickMsg{b.m.tickGen})
	return b
}

func keyMsg(name string) tea.KeyPressMsg {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "alt+esc": {Code: tea.KeyEscape, Mod: tea.ModAlt}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
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

// keys presses keys one after the other, as slowly as a person who reads.
func (b *bench) keys(names ...string) *bench {
	b.t.Helper()
	for _, n := range names {
		b.wait(dialog.Typing)
		b.send(keyMsg(n))
	}
	if b.m.dialogs.Top() != nil {
		b.wait(dialog.Typing) // an answer counts
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
	rec := need.Get(b.store.Read(context.Background(), ledger.Locator{ID: id}))(b.t)
	return rec.Operation
}

// newest is the newest event.
func (b *bench) newest() ledger.Event {
	b.t.Helper()
	events, err := b.store.History(b.t.Context(), ledger.HistoryQuery{Limit: 1000})
	need.Must(b.t, err == nil && len(events) != 0, "%v", err)
	return events[len(events)-1]
}

// sam decides about an operation as it stands, from elsewhere.
func (b *bench) sam(n int, verb ledger.Verb, reason string) {
	b.t.Helper()
	d := ledger.Decision{ChangeID: ledger.NewID(), ID: id(n), Version: b.op(id(n)).Version, Verb: verb, Reason: reason, Truth: ledger.TakenBack, Reference: "r", Actor: ledger.Actor{Name: "sam"}}
	need.Get(ledger.Decide(b.t.Context(), b.store, d))(b.t)
}
