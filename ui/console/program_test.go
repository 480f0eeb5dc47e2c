package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	ledgers "indoubt/ledger/open"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/console/dialog"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// terminal runs the whole program against a terminal emulator.
type terminal struct {
	t    *testing.T
	em   *vt.SafeEmulator
	done chan error
	rest time.Duration // between two keys of a person
	mu   sync.Mutex
	raw  bytes.Buffer
}

// crlf turns line feeds into what a terminal in raw mode needs, and keeps what
// was written.
type crlf struct{ term *terminal }

func (c crlf) Write(p []byte) (int, error) {
	c.term.mu.Lock()
	c.term.raw.Write(p)
	c.term.mu.Unlock()
	if _, err := c.term.em.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func start(t *testing.T, w, h int, o Options, more ...tea.ProgramOption) *terminal {
	t.Helper()
	term := &terminal{t: t, em: vt.NewSafeEmulator(w, h), done: make(chan error, 1), rest: dialog.Guard + 30*time.Millisecond}
	if o.Clock != nil {
		term.rest /= haste
	} else {
		o.Clock = time.Now
	}
	in, keys := io.Pipe()
	// What the terminal sends, keys and answers, waits here for a program that draws: the
	// emulator holds its lock until what it sends is taken.
	sent := make(chan []byte, 1<<14)
	go func() {
		defer close(sent)
		for b := make([]byte, 4096); ; {
			n, err := term.em.Read(b)
			sent <- bytes.Clone(b[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer keys.Close()
		for b := range sent {
			_, _ = keys.Write(b) // the program may have ended
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		term.done <- Run(ctx, o, append(more, tea.WithInput(in), tea.WithOutput(crlf{term}), tea.WithWindowSize(w, h), tea.WithoutSignals(),
			tea.WithColorProfile(colorprofile.TrueColor), tea.WithEnvironment([]string{"TERM=xterm-256color"}))...)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-term.done:
		case <-time.After(patience):
			t.Error("the program does not end")
		}
		if c, ok := term.em.InputPipe().(io.Closer); ok {
			c.Close()
		}
	})
	return term
}

// left waits for the program to end by itself.
func (term *terminal) left() {
	term.t.Helper()
	select {
	case err := <-term.done:
		term.done <- err
		need.OK(term.t, err)
	case <-time.After(patience):
		term.t.Fatal("q does not leave")
	}
}

// patience ends a wait that would otherwise never end: a busy machine takes long.
const patience = 3 * time.Minute

func (term *terminal) screen() string { return ansi.Strip(term.em.Render()) }

// wait until the screen shows a text.
func (term *terminal) wait(want string) {
	term.t.Helper()
	term.until(want, func(s string) bool { return strings.Contains(s, want) })
}

func (term *terminal) until(what string, ok func(string) bool) {
	term.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if ok(term.screen()) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	term.t.Fatalf("never showed %q:\n%s", what, term.screen())
}

// dialog waits for a dialog and until it takes keys.
func (term *terminal) dialog(title string) {
	term.t.Helper()
	term.wait(title)
	time.Sleep(term.rest)
}

// keys types like a person: slower than the dialog.Guard of a dialog.
func (term *terminal) keys(text ...string) {
	for _, s := range text {
		switch s {
		case "enter":
			s = "\r"
		case "tab":
			s = "\t"
		case "esc":
			s = "\x1b"
		}
		term.em.SendText(s)
		time.Sleep(term.rest)
	}
}

const testPolicy = `version: 1
currency: USD
kinds:
  legacy.charge:
    cost: { duplicate: 24000, miss: 12000 }
    link: https://pay.legacy.example/search?q=${token}
  mail.send:
    cost: { duplicate: medium, miss: medium }
`

// world is a ledger that consoles are opened on.
type world struct {
	t     *testing.T
	path  string
	store ledger.Store
	open  func() (ledger.Store, error)
}

// fileWorld is a ledger in a file, which each console opens for itself.
func fileWorld(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "payments.db")
	s := need.Get(ledgers.Create(t.Context(), path, ledgers.Options{}))(t)
	t.Cleanup(func() { s.Close() })
	return &world{t: t, path: path, store: s, open: func() (ledger.Store, error) { return ledgers.Open(context.Background(), path, ledgers.Options{}) }}
}

// inBubble runs a test with the program in a bubble, where time passes at once. Its
// ledger is in memory: time stands still while a file is waited for.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // os/signal's own goroutines begin outside
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // until the last tick of a program that has ended
		s := ledgertest.NewMemory(time.Now, nil)
		test(t, &world{t: t, store: s, open: func() (ledger.Store, error) { return s, nil }})
	})
}

// doubt records an operation whose answer never came.
func (w *world) doubt(kind, title string, never float64) string {
	w.t.Helper()
	return w.doubtUnder(ledger.NewID(), kind, title, never)
}

func (w *world) doubtUnder(key, kind, title string, never float64) string {
	w.t.Helper()
	ctx := context.Background()
	r := need.Get(ledger.Begin(ctx, w.store, ledger.BeginRequest{
		ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: kind, Key: key, Token: ledger.NewToken(),
		Fingerprint: strings.Repeat("ab", 32), Title: title, Input: []byte(`{"n":1}`), Source: ledger.Source{Pipeline: "billing"}, Sender: "pipeline",
		TokenSent: true, Deadline: time.Minute, Actor: ledger.Actor{Name: "billing", Machine: true},
	}))(w.t)
	need.Get(ledger.Settle(ctx, w.store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: r.Attempt.ID, Outcome: ledger.OutcomeUncertain,
		ErrorClass: ledger.ClassTimeout, Error: "no answer", Status: -1, Actor: ledger.Actor{Name: "billing", Machine: true}}))(w.t)
	id := r.Operation.ID
	need.OK(w.t, w.store.Price(ctx, []ledger.Pricing{{OperationID: id, Digest: "d", Title: title, Duplicate: ledger.Cost{Value: 2 * never}, Miss: ledger.Cost{Value: never}, Odds: 0.5, Rank: never / 2, ReadAt: ledger.Never}}))
	return id
}

func (w *world) op(id string) ledger.Operation {
	w.t.Helper()
	rec := need.Get(w.store.Read(context.Background(), ledger.Locator{ID: id}))(w.t)
	return rec.Operation
}

// options opens a console of its own on the ledger, as another process would.
func (w *world) options(actor string, e Engine) Options {
	w.t.Helper()
	s := need.Get(w.open())(w.t)
	w.t.Cleanup(func() { s.Close() })
	p := need.Get(policy.Parse("policy.yaml", []byte(testPolicy)))(w.t)
	o := Options{Store: s, Engine: e, Policy: func() *policy.Policy { return p }, Actor: ledger.Actor{Name: actor}, Theme: "dark", LedgerPath: w.path,
		PolicyProblem: func() error { return nil }, Reopen: func(func(ledger.Store) error) (ledger.Store, error) { return w.open() }}
	if began := time.Now(); w.path != "" {
		o.Clock = func() time.Time { return began.Add(haste * time.Since(began)) }
	}
	return o
}

// haste is how much faster the console's clock runs outside of a bubble.
const haste = 5

// planner plans by the record alone and carries a retry out through the rules.
type planner struct {
	fakeEngine
	store ledger.Store
}

func (e *planner) Plan(ctx context.Context, id string) (reconcile.Plan, error) {
	rec, err := e.store.Read(ctx, ledger.Locator{ID: id})
	return reconcile.Plan{Record: rec, Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Attempt: 2, Loss: ledger.Cost{Value: 24000}}, err
}

func (e *planner) Retry(ctx context.Context, q reconcile.RetryRequest) (reconcile.RetryResult, error) {
	a, err := ledger.Allow(ctx, e.store, ledger.AllowRequest{ChangeID: q.ChangeID, AllowID: ledger.NewID(), OperationID: q.ID, Version: q.Version, Basis: q.Basis,
		Sender: "pipeline", Actor: q.Actor, Reason: q.Reason, ExpiresAt: time.Now().Add(time.Hour)})
	return reconcile.RetryResult{Did: reconcile.DidAllow, Operation: a.After}, err
}

func TestProgramConfirms(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	id := w.doubt("legacy.charge", "charge cus_1QX 12,000.00", 12000)
	term := start(t, 100, 30, w.options("maya", &fakeEngine{}))
	term.wait("charge cus_1QX")
	term.wait("1 NEED YOU")
	term.wait("KNOWN") // the row's details are read
	term.keys("C")
	term.dialog("It landed?")
	term.keys("ch_1", "tab", "tab", "enter")
	term.wait("recorded as landed")
	if o := w.op(id); o.State != ledger.Committed || o.Receipt() != "ch_1" || o.Actor != "maya" {
		t.Fatalf("%+v", o)
	}
	term.wait("nothing needs you")
	term.keys("q")
	term.left()
}

func TestProgramAllowsARetryAtOwnRisk(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.doubt("legacy.charge", "charge cus_1QX 12,000.00", 12000)
		term := start(t, 80, 24, w.options("maya", &planner{store: w.store}))
		term.wait("charge cus_1QX")
		term.wait("KNOWN")
		term.keys("R")
		term.dialog("RETRY WITHOUT PROOF")
		term.keys("they asked", "tab", "24000", "tab", "enter")
		term.wait("one send allowed, waiting for its pipeline")
		rec := need.Get(w.store.Read(t.Context(), ledger.Locator{ID: id}))(t)
		if g := rec.OpenAllowed(); g == nil || g.Actor != "maya" || g.Reason != "they asked" {
			t.Fatalf("%+v", rec.Allowed)
		}
	})
}

func TestI7_TwoConsolesDecideOneOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		id := w.doubt("legacy.charge", "charge cus_1QX 12,000.00", 12000)
		maya, sam := start(t, 80, 24, w.options("maya", &fakeEngine{})), start(t, 80, 24, w.options("sam", &fakeEngine{}))
		maya.wait("charge cus_1QX")
		maya.wait("KNOWN")
		sam.wait("KNOWN")
		maya.keys("X")
		maya.dialog("It did not land?")
		maya.keys("none there", "tab")
		sam.keys("C")
		sam.dialog("It landed?")
		sam.keys("ch_1", "tab", "tab", "enter")
		sam.wait("recorded as landed")
		maya.wait("IT MOVED: now landed")
		maya.wait("by sam")
		maya.keys("enter")
		maya.wait("it moved")
		if o := w.op(id); o.State != ledger.Committed || o.Actor != "sam" {
			t.Fatalf("%+v", o)
		}
	})
}

func TestProgramShowsAForeignCommitWithoutAKey(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.doubt("legacy.charge", "first one", 10)
	term := start(t, 80, 24, w.options("maya", &fakeEngine{}))
	term.wait("first one")
	w.doubt("legacy.charge", "second one", 20)
	term.wait("second one")
}

func TestI11_ProgramWritesNoHostileByte(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	const key = "k\x1b]52;c;eA==\x07\nrm\u202e"
	w.doubtUnder(key, "mail.send", "keyed", 1000)
	payloads := []string{"\x1b]52;c;ZXZpbA==\x07", "\x1b[2Jcleared", "\x1b]0;unterminated", "over\rwritten", "pay \u202e0001$", "c1 \u009b31m"}
	for i, p := range payloads {
		w.doubt("legacy.charge", fmt.Sprintf("op%d %s", i, p), float64(100-i))
	}
	o := w.options("maya", &fakeEngine{})
	o.Filter = "-error:none" // each by itself: they are one outage
	term := start(t, 100, 30, o)
	term.wait(`op0 \x1b]52;c;ZXZpbA==\x07`)
	term.wait(`op1 \x1b[2Jcleared`)
	term.wait(`op2 \x1b]0;unterminated`)
	term.wait(`op3 over\rwritten`)
	term.wait(`op4 pay \u202e0001$`)
	term.wait(`op5 c1 \u009b31m`)
	term.keys("enter")
	term.wait("MEANT")
	term.keys("esc", "g", "y")
	term.dialog("Copy")
	term.keys("k")
	term.wait("copied the key")
	raw, own := "", "\x1b]52;c;"+base64.StdEncoding.EncodeToString([]byte(`k\x1b]52;c;eA==\x07\nrm\u202e`))+"\x07"
	term.until("the clipboard is given safe text", func(string) bool { // that it was copied may be drawn before
		term.mu.Lock()
		defer term.mu.Unlock()
		raw = term.raw.String()
		return strings.Contains(raw, own)
	})
	need.Equal(t, strings.Count(raw, own), 1, "times that it is copied")
	raw = strings.ReplaceAll(raw, own, "")
	for _, title := range regexp.MustCompile(`\x1b\][02];[^\x07\x1b]*(\x07|\x1b\\)`).FindAllString(raw, -1) {
		raw = strings.ReplaceAll(raw, title, "")
	}
	for _, bad := range []string{"\x1b]", "\u202e", "\u009b", "\x1b[2Jcleared"} {
		need.Lacks(t, raw, bad)
	}
}

func TestProgramSurvivesEverySize(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for i := range 40 {
			w.doubt("legacy.charge", fmt.Sprintf("charge %d", i), float64(i))
		}
		for _, size := range [][2]int{{1, 1}, {5, 2}, {20, 6}, {200, 60}} {
			term := start(t, size[0], size[1], w.options("maya", &fakeEngine{}))
			time.Sleep(50 * time.Millisecond)
			term.keys("j", "enter", "esc", "C", "esc", "?", "esc", "q")
		}
	})
}

func TestProgramOutlivesItsLedger(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.doubt("legacy.charge", "charge cus_1QX", 12000)
	o := w.options("maya", &fakeEngine{})
	broken := &breaking{Store: o.Store}
	o.Store = broken
	term := start(t, 80, 24, o)
	term.wait("charge cus_1QX")
	broken.fail(errors.New("disk I/O error"))
	w.doubt("legacy.charge", "charge later", 1)
	term.wait("STALE")
	term.wait("charge cus_1QX")
	broken.fail(nil)
	term.until("no STALE", func(s string) bool { return !strings.Contains(s, "STALE") })
	term.wait("charge later")
}

// breaking is a store whose lists can be made to fail.
type breaking struct {
	ledger.Store
	mu  sync.Mutex
	err error
}

func (b *breaking) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *breaking) failing() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *breaking) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	if err := b.failing(); err != nil {
		return ledger.Page{}, err
	}
	return b.Store.Page(ctx, q)
}
