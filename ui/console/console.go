// Package console is the Bubble Tea program: the screens a person decides on.
//
// The root model knows the size, the theme and which screen is shown; the parts
// below it have one job each: feed reads the ledger, table is the list, header,
// detail and draw write the screen, ask and dialog put a question, and prompt takes
// a filter or a command. What reads or writes the ledger, asks a downstream or
// waits runs in a command and comes back as a message, so that Update never blocks.
// A dialog only returns what it was told to do; the root does it. The packages may
// import reconcile, policy and ledger; of ui only safe, ticket and act.
package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/console/feed"
)

// Engine is what the console asks of the reconciler.
type Engine interface {
	feed.Engine
	ReadNow(ctx context.Context, id string) (reconcile.ReadResult, error)
	Plan(ctx context.Context, id string) (reconcile.Plan, error)
	Retry(ctx context.Context, q reconcile.RetryRequest) (reconcile.RetryResult, error)
	Busy() int
}

// Options says what the console works on.
type Options struct {
	Store  ledger.Store
	Engine Engine // nil: nothing is checked and nothing can be sent from here
	// EngineOver is the engine over another store that is followed from now on.
	EngineOver func(ledger.Store) Engine
	Policy     func() *policy.Policy
	// PolicyProblem is why the file on disk is not in force, or nil.
	PolicyProblem func() error
	Actor         ledger.Actor
	AskName       bool // the account is shared: ask who decides before the first decision
	ReadOnly      bool
	Filter        string // shown first
	OpenID        string // opened first
	Theme         string // auto, light, dark, none
	Mouse         bool   // it is taken from the terminal: the wheel scrolls
	Trouble       error  // said when it opens
	Clock         ledger.Clock
	Location      *time.Location // of the times shown; nil: the machine's
	LedgerPath    string
	Banner        string // said in the header, for a demonstration
	Shown         func() // called once, when the first frame is on the screen; nil: nothing waits for it
	// After is a message, later, and wait one once something was committed; tests bring
	// their own.
	after func(d time.Duration, msg tea.Msg) tea.Cmd
	wait  func(watch <-chan struct{}) tea.Cmd
	drawn func() // called when there is a new view
	// Reopen opens the ledger again after it was lost, where reads finds that it can be
	// read; nil: it is never tried.
	Reopen func(reads func(ledger.Store) error) (ledger.Store, error)
}

// sentTo is where the policy in force sends each kind, nil without one.
func (o *Options) sentTo() func(kind string) string {
	if p := o.Policy(); !p.Empty() {
		return p.DownstreamOf
	}
	return nil
}

// Run shows the console until it is left. It returns after every write that
// was in flight has ended: a terminal may be gone while a send is still under way, whose
// answer is worth waiting for. Leaving then would itself make an operation in doubt.
func Run(ctx context.Context, o Options, more ...tea.ProgramOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := newRoot(ctx, o)
	if err != nil {
		return err
	}
	// The first page is read before the terminal is touched, so that the first
	// frame is a whole one.
	m.first()

	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithFilter(holdQuit)}
	if noColour() {
		opts = append(opts, tea.WithColorProfile(colorprofile.Ascii))
	}
	p := tea.NewProgram(m, append(opts, more...)...)
	m.o.drawn = shownOnce(newFrames(p).soon, m, o.Shown)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	go func() {
		select {
		case <-hup:
			p.Send(leaveMsg{})
		case <-ctx.Done():
		}
	}()
	_, err = p.Run()
	m.writes.Lock()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run the console: %w", err)
	}
	return nil
}

// shownOnce calls shown after a first view of the terminal's size has been written: what
// waits for it would take the processor from that.
func shownOnce(drawn func(), m *Root, shown func()) func() {
	if shown == nil {
		return drawn
	}
	once := sync.OnceFunc(func() { time.AfterFunc(frameFor, shown) })
	return func() {
		if drawn(); m.w > 0 {
			once()
		}
	}
}

// noColour honours NO_COLOR as its convention has it: any value that is not empty.
func noColour() bool { return os.Getenv("NO_COLOR") != "" }

// holdQuit turns a quit that comes from outside (SIGTERM) into a request to
// leave, which waits for writes in flight.
func holdQuit(model tea.Model, msg tea.Msg) tea.Msg {
	if _, ok := msg.(tea.QuitMsg); ok {
		if m, ok := model.(*Root); ok && !m.leaving.ready {
			return leaveMsg{}
		}
	}
	return msg
}

// Bubble Tea writes what View returned at the ticks of a ticker that never rests: at 60
// a second it costs about one per cent of a core through the night, and a key waits half
// a tick for its frame. frames lets it tick fast for a moment after each new view, and
// seldom after that.
type frames struct {
	reset func(time.Duration) // of the ticker
	mu    sync.Mutex
	until time.Time // it ticks fast
	calm  *time.Timer
}

const (
	frameFast   = 2 * time.Millisecond
	frameSeldom = 500 * time.Millisecond // a view that came late is drawn after all
	frameFor    = 20 * time.Millisecond
)

// newFrames governs the ticker of a program. The library has no name for it outside of
// itself: where it cannot be found, it ticks at the rate of the program.
func newFrames(p *tea.Program) *frames {
	return &frames{reset: func(d time.Duration) {
		if t := tickerOf(p); t != nil {
			t.Reset(d)
		}
	}}
}

func tickerOf(p *tea.Program) *time.Ticker {
	field := reflect.ValueOf(p).Elem().FieldByName("ticker")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*time.Ticker]() {
		return nil
	}
	return (*time.Ticker)(field.UnsafePointer())
}

func (f *frames) soon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.After(f.until) {
		f.reset(frameFast)
	}
	if f.until = now.Add(frameFor); f.calm == nil {
		f.calm = time.AfterFunc(frameFor, f.rest)
	} else {
		f.calm.Reset(frameFor)
	}
}

func (f *frames) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.until) { // no view came meanwhile
		f.reset(frameSeldom)
	}
}
