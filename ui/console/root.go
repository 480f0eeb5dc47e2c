package console

import (
	"context"
	"errors"
	"image/color"
	"os"
	"slices"
	"time"

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
	judge  judge
	clock  ledger.Clock
	loc    *time.Location
	actor  ledger.Actor
	named  bool // who decides was asked and answered
	keys   []binding
	byKey  map[string]*binding
	writes *writes

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
	kept           map[ledger.Tab]string // where the cursor was in each list
	briefs         map[string]*brief
	values         map[string]map[string]bool // of filter fields, seen so far
	counts         ledger.Counts
	info           ledger.Info
	holds          []ledger.Hold
	health         []reconcile.Health
	seq            int64

	dialogs []*dialog
	prompt  *prompt
	run     *bulkRun
	toast   toast
	writing int
	asking  int // number of the newest question whose answer opens a dialog

	loadGen    int
	loading    bool // a look at the ledger is under way
	again      bool // and another is due after it
	extending  bool
	briefGen   int
	briefing   bool
	lastLook   time.Time
	watch      <-chan struct{}
	stopWatch  context.CancelFunc
	identity   os.FileInfo
	lost       error
	lostAt     time.Time
	retrying   bool
	retryAt    time.Time
	tickGen    int
	lastKey    time.Time
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
	tickMsg  struct{ gen int }
	leaveMsg struct{}
	lookMsg  struct{}
	waitMsg  struct{}
)

func newRoot(ctx context.Context, o Options) (*Root, error) {
	m := &Root{
		o: o, ctx: ctx, store: o.Store, clock: o.Clock, loc: o.Location, actor: o.Actor, judge: byPolicy(o.Policy),
		tab: ledger.TabNeedsYou, orders: map[ledger.Tab]ledger.Order{}, kept: map[ledger.Tab]string{},
		briefs: map[string]*brief{}, values: map[string]map[string]bool{}, writes: &writes{}, wish: firstOf(o.Theme, "auto"), dirty: true,
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
	m.identity = fileIdentity(o.LedgerPath)
	m.startWatch()
	return m, nil
}

var tabKeys = map[string]ledger.Tab{"1": ledger.TabNeedsYou, "2": ledger.TabChecking, "3": ledger.TabInFlight, "4": ledger.TabSettled, "0": ledger.TabAll}
var tabOrder = []ledger.Tab{ledger.TabNeedsYou, ledger.TabChecking, ledger.TabInFlight, ledger.TabSettled, ledger.TabAll}

func (m *Root) now() time.Time { return m.clock() }

func (m *Root) startWatch() {
	if m.stopWatch != nil {
		m.stopWatch()
	}
	ctx, cancel := context.WithCancel(m.ctx)
	m.stopWatch = cancel
	m.watch = m.store.Watch(ctx)
}

// first reads the first page before there is a terminal to draw on.
func (m *Root) first() {
	m.loadGen++
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	m.tookIn(look(ctx, m.store, m.wanted(), m.at, 0))
	if m.o.Engine != nil {
		m.health = safe.Value(m.o.Engine.Health())
	}
	m.list.height = 24
	if s := m.list.chosen(); s != nil {
		if b, err := readBrief(ctx, m.store, m.judge, s.id, m.at, true); err == nil {
			m.briefs[s.id] = b
		}
	}
}

// Init starts following the ledger and the clock.
func (m *Root) Init() tea.Cmd {
	cmds := []tea.Cmd{waitForChange(m.watch), m.tick(), m.wantBriefs()}
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
		return tea.Batch(waitForChange(m.watch), m.reload()), false
	case lookMsg:
		m.loading = false
		return m.reload(), false
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
			m.say(safe.Text(msg.err.Error()), true)
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
	return tea.Tick(at.Truncate(step).Add(step).Sub(at), func(time.Time) tea.Msg { return tickMsg{gen} })
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
		m.list.settle()
	}
	for _, s := range m.list.visible() {
		if b := m.briefs[s.id]; b != nil {
			for _, t := range []time.Time{b.facts.advice.ChangesAt, b.rec.Pricing.DecideAt, b.facts.ProofAt, b.facts.LapsesAt} {
				if t.After(b.took) && !t.After(m.at) {
					b.old = true // a clock has changed what is advised
				}
			}
		}
	}
	return tea.Batch(cmds...)
}

// still tells whether the order must not change under somebody's hand.
func (m *Root) still() bool {
	return !m.lastKey.IsZero() && m.at.Sub(m.lastKey) < quiet || len(m.dialogs) > 0
}

func (m *Root) wanted() wanted {
	return wanted{gen: m.loadGen, tab: m.tab, filter: m.filter, order: m.order(), limit: m.list.window(), known: m.list.ids(), loc: m.loc}
}

// reload looks at the ledger again, one look at a time: what changes meanwhile
// is seen by the next.
func (m *Root) reload() tea.Cmd {
	if m.loading {
		m.again = true
		return nil
	}
	m.loading, m.again = true, false
	m.loadGen++
	return m.load(m.wanted())
}

// restart empties the list because another one is shown.
func (m *Root) restart() {
	m.list = list{height: m.list.height, marks: m.list.marks}
	m.loadGen++ // a look that is under way was for the old list
	m.loading, m.extending = false, false
}

func (m *Root) loaded(msg loadedMsg) tea.Cmd {
	if msg.after != "" {
		m.extending = false
	}
	if msg.gen != m.loadGen {
		return nil
	}
	if msg.after != "" {
		if msg.err == nil {
			m.list.extend(msg.rows, msg.next)
		}
		return nil
	}
	m.tookIn(msg)
	if msg.err != nil {
		m.loading, m.again = false, false
		return nil
	}
	if m.again {
		// What came meanwhile is shown together, once a frame, not one by one.
		return tea.Tick(time.Second/framesPerSecond, func(time.Time) tea.Msg { return lookMsg{} })
	}
	m.loading = false
	return nil
}

func (m *Root) tookIn(msg loadedMsg) {
	if msg.err != nil {
		if m.lost == nil {
			m.lost, m.lostAt, m.retryAt = msg.err, m.at, m.at.Add(time.Second)
		}
		return
	}
	m.lost, m.lastLook = nil, m.at
	if !slices.EqualFunc(m.holds, msg.holds, func(a, b ledger.Hold) bool { return a.ChangeID == b.ChangeID && a.Scope == b.Scope }) {
		for id := range m.briefs {
			m.outdated(id)
		}
	}
	m.counts, m.info, m.holds, m.seq = msg.counts, msg.info, msg.holds, msg.seq
	if msg.health != nil {
		m.health = msg.health
	}
	for _, id := range msg.moved {
		m.outdated(id)
	}
	m.stale(msg)
	m.learn(msg.rows)
	first := !m.list.read
	m.list.refresh(msg, m.still())
	if first {
		if i := m.list.find(m.kept[m.tab]); i >= 0 {
			m.list.at = i
		}
	}
	m.list.scroll()
	m.tellDialogs()
}

// outdated has the details of one operation read again. They stay on the
// screen until then, so that nothing flickers.
func (m *Root) outdated(id string) {
	if b := m.briefs[id]; b != nil {
		b.old = true
	}
}

// stale drops details of rows that are not as they were when these were read.
func (m *Root) stale(msg loadedMsg) {
	for _, r := range msg.rows {
		if b := m.briefs[r.id]; b != nil && (b.raw.Operation.Version != r.row.Version || b.raw.Pricing.Reads != r.row.Pricing.Reads || b.raw.Pricing.Digest != r.row.Pricing.Digest) {
			b.old = true
		}
	}
	if len(m.briefs) > 2000 {
		m.briefs = map[string]*brief{}
	}
}

// tellDialogs marks open dialogs whose operation moved under them.
func (m *Root) tellDialogs() {
	for _, d := range m.dialogs {
		i := m.list.find(d.id)
		if d.id == "" || d.stale != "" || i < 0 {
			continue
		}
		if r := m.list.items[i].row; r.Version != d.version && d.version != 0 {
			d.stale = "now " + stateWords(r.StateAt(m.at)) + " since " + moment(r.UpdatedAt, m.at, m.loc) + ", by " + who(r.Actor)
		}
	}
}

// wantBriefs reads the details of the rows on the screen that are not read yet.
func (m *Root) wantBriefs() tea.Cmd {
	if m.briefing || m.lost != nil || m.at.Before(m.briefAfter) {
		return nil
	}
	chosen := ""
	var ids []string
	if s := m.list.chosen(); s != nil {
		chosen = s.id
		if b := m.briefs[s.id]; b == nil || b.old || !b.history {
			ids = append(ids, s.id)
		}
	}
	for _, s := range m.list.visible() {
		if b := m.briefs[s.id]; (b == nil || b.old) && s.id != chosen && s.gone == "" {
			ids = append(ids, s.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	// The chosen row's details come first and by themselves: somebody reads them.
	if ids[0] == chosen && len(ids) > 1 {
		ids = ids[:1]
	}
	m.briefing = true
	m.briefGen++
	return m.loadBriefs(m.briefGen, ids, chosen)
}

func (m *Root) tookBriefs(msg briefsMsg) bool {
	m.briefing = false
	if msg.gen != m.briefGen {
		return false
	}
	for id, b := range msg.briefs {
		m.briefs[id] = b
	}
	if msg.err != nil && !errors.Is(msg.err, context.Canceled) {
		m.briefAfter = m.at.Add(2 * time.Second) // not again at once
		m.say(safe.Text(msg.err.Error()), true)
	}
	return true
}

// chosenBrief is what is known of the row under the cursor, as the ledger has
// it now, or nil while it is read.
func (m *Root) chosenBrief() *brief {
	s := m.list.chosen()
	if s == nil {
		return nil
	}
	return m.briefs[s.id]
}

func (m *Root) reopened(msg reopenedMsg) tea.Cmd {
	m.retrying = false
	if msg.err != nil {
		m.retryAt = m.at.Add(2 * time.Second)
		return nil
	}
	var cmds []tea.Cmd
	if msg.store != m.store {
		m.store = msg.store
		m.seq = 0
		m.briefs = map[string]*brief{}
		m.startWatch()
		cmds = append(cmds, waitForChange(m.watch))
	}
	m.identity = msg.identity
	m.lost = nil
	m.say("the ledger is back", false)
	m.loading = false
	return tea.Batch(append(cmds, m.reload())...)
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
	switch {
	case errors.As(msg.err, &moved):
		d := m.movedDialog(msg.title, moved)
		d.itself = true
		m.show(d)
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
		d.facts = []fact{{"WHY", safe.Text(no.Why), true}}
		if no.Hint != "" {
			d.facts = append(d.facts, fact{"DO", safe.Text(no.Hint), false})
		}
	} else {
		d.facts = []fact{{"WHY", safe.Text(err.Error()), true}}
	}
	m.show(d)
}

func (m *Root) planned(msg planMsg) {
	if msg.gen != m.asking {
		return
	}
	if msg.err != nil {
		m.say(safe.Text(msg.err.Error()), true)
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
		d.facts = append(d.facts, fact{"FILE", safe.Text(p.Path()), false}, fact{"IN FORCE", cut(p.Digest(), 16), false})
	}
	if err := m.policyProblem(); err != nil {
		d.facts = append(d.facts, fact{"NOT TAKEN", "the file on disk is broken; the last good one stays", true})
		for _, line := range splitLines(safe.Lines(err.Error())) {
			d.facts = append(d.facts, fact{"", line, false})
		}
	}
	return d
}
