package console

import (
	"context"
	"errors"
	"image/color"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

type screen int

const (
	onList screen = iota
	onDetail
	onHelp
)

// Root is the one model. Its parts are plain structs; it alone changes them.
type Root struct {
	o      Options
	ctx    context.Context
	store  ledger.Store
	judge  ticket.Judge
	clock  ledger.Clock
	loc    *time.Location
	actor  ledger.Actor
	named  bool // who decides was asked and answered
	keys   []binding
	byKey  map[string]*binding
	writes *writes
	after  func(d time.Duration, msg tea.Msg) tea.Cmd // a message, later
	wait   func(watch <-chan struct{}) tea.Cmd        // a message, when something was committed

	w, h       int
	th         *theme
	wish       string // theme asked for
	background color.Color
	dirty      bool
	view       tea.View
	at         time.Time // of this update; everything drawn counts from it
	ticking    bool      // something on the screen changes every second

	screen, before screen
	scrolled       int
	side           int // of a conflict
	plainDetail    bool
	zoom           bool
	tab            ledger.Tab
	orders         map[ledger.Tab]ledger.Order
	filter         ledger.Filter
	list           list
	pinned         shown                 // asked for by its id: shown in its list even where the first page does not reach
	kept           map[ledger.Tab]string // where the cursor was in each list
	briefs         map[string]*brief
	values         map[string]map[string]bool // of filter fields, seen so far
	counts         ledger.Counts
	info           ledger.Info
	holds          []ledger.Hold
	health         []reconcile.Health
	looks          bool // its engine settles nothing: another one works under another policy
	seq            int64

	dialogs []*dialog
	prompt  *prompt
	run     *bulkRun
	toast   toast
	writing int
	asking  int // number of the newest question whose answer opens a dialog

	loadGen    int
	loading    bool // a look at the ledger is under way
	resting    bool // or the pause after one
	again      bool // and another is due
	extending  bool
	briefGen   int
	briefing   bool
	lastLook   time.Time
	watch      <-chan struct{}
	waiting    bool // for the next commit
	stopWatch  context.CancelFunc
	lost       error
	lostAt     time.Time
	retrying   bool
	retryAt    time.Time
	tickGen    int
	lastKey    time.Time
	swapped    time.Time // when another operation came under the cursor by itself
	lastName   string
	briefAfter time.Time

	leaving struct{ asked, ready bool }
}

// toast is one sentence about what just happened.
type toast struct {
	text  string
	bad   bool
	until time.Time
}

type (
	tickMsg   struct{ gen int }
	leaveMsg  struct{}
	restedMsg struct{ gen int }
	waitMsg   struct{}
)

func newRoot(ctx context.Context, o Options) (*Root, error) {
	m := &Root{
		o: o, ctx: ctx, store: o.Store, clock: o.Clock, loc: o.Location, actor: o.Actor, judge: ticket.ByPolicy(o.Policy),
		tab: ledger.TabNeedsYou, orders: map[ledger.Tab]ledger.Order{}, kept: map[ledger.Tab]string{},
		briefs: map[string]*brief{}, values: map[string]map[string]bool{}, writes: &writes{}, wish: firstOf(o.Theme, "auto"), dirty: true,
	}
	m.wait = waitForChange
	m.after = func(d time.Duration, msg tea.Msg) tea.Cmd {
		return tea.Tick(d, func(time.Time) tea.Msg { return msg })
	}
	if m.clock == nil {
		m.clock = time.Now
	}
	if m.loc == nil {
		m.loc = time.Local
	}
	m.actor.Terminal, m.actor.Machine = true, false
	m.at = m.clock()
	if err := m.setTheme(m.wish); err != nil {
		return nil, err
	}
	if o.Filter != "" {
		f, err := ledger.ParseFilter(o.Filter)
		if err != nil {
			return nil, err
		}
		m.filter = f
	}
	m.keys = bindings()
	m.byKey = map[string]*binding{}
	for i := range m.keys {
		for _, k := range m.keys[i].keys {
			m.byKey[k] = &m.keys[i]
		}
	}
	for key, tab := range tabKeys {
		m.byKey[key] = &binding{keys: []string{key}, do: func(m *Root) tea.Cmd { return m.goTab(tab) }}
	}
	m.startWatch()
	return m, nil
}

var tabKeys = map[string]ledger.Tab{"1": ledger.TabNeedsYou, "2": ledger.TabChecking, "3": ledger.TabInFlight, "4": ledger.TabSettled, "0": ledger.TabAll}
var tabOrder = []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight, ledger.TabSettled, ledger.TabAll}

func (m *Root) now() time.Time { return m.clock() }

// Init starts following the ledger and the clock.
func (m *Root) Init() tea.Cmd {
	cmds := []tea.Cmd{m.listen(), m.tick(), m.wantBriefs()}
	if !m.list.read && m.lost == nil {
		cmds = append(cmds, m.reload())
	}
	if m.wish == "auto" && !noColour() {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	if m.o.OpenID != "" {
		cmds = append(cmds, m.find(m.o.OpenID))
	}
	return tea.Batch(cmds...)
}

// Update takes in one message. Whatever it starts runs in commands.
func (m *Root) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.at = m.now()
	cmd, changed := m.take(msg)
	if changed {
		m.dirty = true
		if more := m.wantBriefs(); more != nil {
			cmd = tea.Batch(cmd, more)
		}
	}
	return m, cmd
}

func (m *Root) take(msg tea.Msg) (cmd tea.Cmd, changed bool) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.layout()
		return nil, true
	case tea.KeyPressMsg:
		return m.press(msg), true
	case tea.PasteMsg:
		m.paste(msg.Content)
		return nil, true
	case tea.BackgroundColorMsg:
		m.background = msg.Color
		return nil, m.setTheme(m.wish) == nil
	case tea.ResumeMsg:
		return tea.Batch(m.reload(), m.tick()), true
	case tickMsg:
		if msg.gen != m.tickGen {
			return nil, false
		}
		return tea.Batch(m.everySecond(), m.tick()), true
	case changedMsg:
		if msg.ended {
			return nil, false
		}
		m.waiting = false // until the pause after the look
		return m.reload(), false
	case restedMsg:
		return m.rested(msg), false
	case loadedMsg:
		return m.loaded(msg), true
	case briefsMsg:
		return nil, m.tookBriefs(msg)
	case reopenedMsg:
		return m.reopened(msg), true
	case foundMsg:
		return m.foundIt(msg), true
	case planMsg:
		m.planned(msg)
		return nil, true
	case bulkMsg:
		if msg.gen != m.asking {
			return nil, false
		}
		if msg.err != nil {
			m.say(safe.Of(msg.err.Error()).String(), true)
			return nil, true
		}
		m.show(m.bulkDialog(msg))
		return nil, true
	case stepMsg:
		return m.stepped(msg), true
	case doneMsg:
		return m.done(msg), true
	case leaveMsg:
		return m.quit(), true
	case waitMsg:
		return m.leaveWhenIdle(), true
	}
	return nil, false
}

// tick comes once a second while something on the screen counts seconds, and
// else every five: the minute of the clock may be that late, an idle night is cheap.
func (m *Root) tick() tea.Cmd {
	m.tickGen++
	gen, step := m.tickGen, 5*time.Second
	if m.ticking {
		step = time.Second
	}
	at := m.now()
	return m.after(at.Truncate(step).Add(step).Sub(at), tickMsg{gen})
}

// everySecond does what only the passing of time asks for.
func (m *Root) everySecond() tea.Cmd {
	var cmds []tea.Cmd
	if m.lost != nil && !m.retrying && !m.at.Before(m.retryAt) {
		m.retrying = true
		cmds = append(cmds, m.reopen())
	}
	if m.lost == nil && m.at.Sub(m.lastLook) >= 5*time.Second {
		cmds = append(cmds, m.reload())
	}
	if !m.still() && m.list.stirred() {
		m.underHand(m.list.settle)
	}
	for _, s := range m.list.visible() {
		if b := m.briefs[s.id]; b != nil {
			for _, t := range []time.Time{b.facts.Advice.ChangesAt, b.rec.Pricing.DecideAt, b.facts.ProofAt, b.facts.LapsesAt} {
				if t.After(b.took) && !t.After(m.at) {
					b.old = true // a clock has changed what is advised
				}
			}
		}
	}
	return tea.Batch(cmds...)
}

// still reports whether the order must not change, because a person is at the keys.
func (m *Root) still() bool {
	return !m.lastKey.IsZero() && m.at.Sub(m.lastKey) < quiet || len(m.dialogs) > 0
}

// done tells what came of something a person asked for.
func (m *Root) done(msg doneMsg) tea.Cmd {
	if msg.wrote {
		m.writing--
	}
	for _, id := range msg.ids {
		m.outdated(id)
	}
	var moved *ledger.MovedError
	var changed *reconcile.ChangedError
	switch {
	case errors.As(msg.err, &moved):
		d := m.movedDialog(msg.title, moved)
		d.itself = true
		m.show(d)
	case errors.As(msg.err, &changed):
		m.show(changedDialog(msg.title, changed))
	case msg.err != nil:
		m.refused(msg.title, msg.err)
	case msg.what != "":
		m.say(msg.what, false)
	}
	return m.reload()
}

// refused shows an error in full: a sentence at the bottom may be cut.
func (m *Root) refused(title string, err error) {
	var no *ledger.RefusedError
	d := &dialog{title: "Not done", head: title, itself: true}
	if errors.As(err, &no) {
		d.facts = []fact{{"WHY", safe.Of(no.Why).String(), true}}
		if no.Hint != "" {
			d.facts = append(d.facts, fact{"DO", safe.Of(no.Hint).String(), false})
		}
	} else {
		d.facts = []fact{{"WHY", safe.Of(err.Error()).String(), true}}
	}
	m.show(d)
}

func (m *Root) planned(msg planMsg) {
	if msg.gen != m.asking {
		return
	}
	if msg.err != nil {
		m.say(safe.Of(msg.err.Error()).String(), true)
		return
	}
	if msg.plan.Refused != nil {
		m.refused(msg.at.rec.Operation.Title, msg.plan.Refused)
		return
	}
	d := m.retryDialog(msg.plan, msg.at)
	m.showAs(d, msg.opener)
}

// say puts a sentence, safe already, at the bottom for some seconds.
func (m *Root) say(text string, bad bool) {
	m.toast = toast{text: text, bad: bad, until: m.at.Add(8 * time.Second)}
}

func (m *Root) show(d *dialog) { m.showAs(d, keyOf(m.lastName)) }

func (m *Root) showAs(d *dialog, opener string) {
	d.openedAt = m.now()
	if !d.itself {
		d.opener = opener
	}
	m.dialogs = append(m.dialogs, d)
}

func (m *Root) currency() string {
	if m.o.Policy == nil {
		return ""
	}
	if p := m.o.Policy(); p != nil {
		return p.Currency()
	}
	return ""
}

func (m *Root) noPolicy() bool {
	if m.o.Policy == nil {
		return false
	}
	p := m.o.Policy()
	return p == nil || p.Empty()
}

func (m *Root) policyProblem() error {
	if m.o.PolicyProblem == nil {
		return nil
	}
	return m.o.PolicyProblem()
}

func (m *Root) kindsOf(downstream string, b *brief) []string {
	var out []string
	if m.o.Policy != nil {
		if p := m.o.Policy(); p != nil {
			for _, name := range p.Kinds() {
				if k := p.Kind(name); k.Downstream != nil && k.Downstream.Name == downstream {
					out = append(out, name)
				}
			}
		}
	}
	if b != nil {
		out = append(out, b.raw.Operation.Kind)
	}
	return unique(out)
}

func (m *Root) policyDialog() *dialog {
	d := &dialog{title: "Policy"}
	var p *policy.Policy
	if m.o.Policy != nil {
		p = m.o.Policy()
	}
	switch {
	case p == nil || p.Empty():
		d.facts = append(d.facts, fact{"FILE", "none: nothing is checked, costs are guesses. `indoubt policy init` writes one", true})
	default:
		d.facts = append(d.facts, fact{"FILE", safe.Of(p.Path()).String(), false}, fact{"IN FORCE", cut(p.Digest(), 16), false})
	}
	if err := m.policyProblem(); err != nil {
		d.facts = append(d.facts, fact{"NOT TAKEN", "the file on disk is broken; the last good one stays", true})
		for _, line := range splitLines(safe.Lines(err.Error())) {
			d.facts = append(d.facts, fact{"", line, false})
		}
	}
	return d
}
