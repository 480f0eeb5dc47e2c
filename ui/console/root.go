package console

import (
	"cmp"
	"context"
	"errors"
	"image/color"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/header"
	"indoubt/ui/console/prompt"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

type screen int

const (
	onList screen = iota
	onDetail
	onHelp
	onOutage
)

// Root is the one model: it knows the size and the theme, gives messages to its
// parts and carries out what they ask for.
type Root struct {
	draw.Frame // its moment is this update's: everything drawn counts from it
	place

	o     Options
	ctx   context.Context
	actor ledger.Actor
	keys  []binding
	byKey map[string]*binding
	// Each write holds it for reading, as one that is cut off would itself be in doubt. The
	// end of the program waits for it for good, and lets no further write begin.
	writes sync.RWMutex

	feed    *feed.Feed
	table   *table.Table
	dialogs dialog.Stack
	prompt  *prompt.Line
	known   *prompt.Known
	run     *act.Run
	form    *dialog.Dialog // that began it

	w, h    int
	colours struct {
		theme      string // asked for
		background color.Color
		few        bool // the terminal has 16
	}
	dirty bool
	view  tea.View

	toast    toast
	writing  int
	asking   asking
	tickGen  int
	lastName string // of a key
	greeted  bool   // the demonstration has said what happened in it
	leaving  struct{ asked, told, ready bool }
}

// toast is one sentence about what just happened.
type toast struct {
	text  safe.Text
	bad   bool
	key   bool // it answers a key, and is over with the next one
	until time.Time
}

// asking is what a person was asked, and what may still be typed for it.
type asking struct {
	gen  int            // number of the newest question whose answer opens a dialog
	due  bool           // it is being worked out
	menu bool           // it was chosen from the menu of what can be done
	form *dialog.Dialog // whose answer is being carried out
	hush time.Duration  // keys that follow one another quicker than this are the rest of a text that was typed: not for the list
}

type (
	tickMsg  struct{ gen int }
	heldMsg  dialog.Held // no key followed the answer, unless one did
	leaveMsg struct{}
	waitMsg  struct{}
)

func newRoot(ctx context.Context, o Options) (*Root, error) {
	o.Location = cmp.Or(o.Location, time.Local)
	if o.after == nil {
		o.after = func(d time.Duration, msg tea.Msg) tea.Cmd { return tea.Tick(d, func(time.Time) tea.Msg { return msg }) }
	}
	if o.wait == nil {
		o.wait = feed.Wait
	}
	f, err := ledger.ParseFilter(o.Filter)
	if err != nil {
		return nil, err
	}
	m := &Root{Frame: draw.Frame{Now: o.Clock(), Zone: o.Location}, o: o, ctx: ctx, actor: o.Actor, table: table.New(f), known: prompt.Learned(), dirty: true}
	m.actor.Terminal, m.actor.Machine = true, false
	if err := m.setTheme(cmp.Or(o.Theme, "auto")); err != nil {
		return nil, err
	}
	m.table.SentTo = o.sentTo
	if o.Trouble != nil {
		m.warn("%s", o.Trouble)
	}
	m.keys, m.byKey = keymap()
	fo := feed.Options{Store: o.Store, Judge: ticket.ByPolicy(o.Policy), Shown: m.table, Clock: o.Clock, Zone: o.Location, Reopen: o.Reopen, After: o.after, Wait: o.wait}
	m.feed = feed.New(ctx, fo)
	if o.Engine != nil {
		m.feed.Engine = o.Engine
	}
	m.feed.Now = m.Now
	return m, nil
}

// first reads the first page before there is a terminal to draw on.
func (m *Root) first() {
	m.table.Height = 24
	m.hear(m.feed.First())
}

// Init starts following the ledger and the clock.
func (m *Root) Init() tea.Cmd {
	cmds := []tea.Cmd{m.feed.Listen(), m.tick(), m.feed.Details()}
	if (!m.table.Read || m.feed.Search.Running) && m.feed.Lost == nil {
		cmds = append(cmds, m.feed.Reload())
	}
	if m.colours.theme == "auto" && !noColour() {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	if m.o.OpenID != "" {
		cmds = append(cmds, find(m.ctx, m.feed.Store, m.o.OpenID, nil))
	}
	return tea.Batch(cmds...)
}

// Update takes in one message. Whatever it starts runs in commands.
func (m *Root) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.Now = m.o.Clock()
	m.feed.Now = m.Now
	cmd, changed := m.take(msg)
	if id := onTheWay(m); id != m.feed.Showing {
		if m.feed.Showing = id; id != "" {
			cmd = tea.Batch(cmd, m.feed.Reload())
		}
	}
	if changed {
		m.dirty = true
		if more := m.feed.Details(); more != nil {
			cmd = tea.Batch(cmd, more)
		}
	}
	return m, cmd
}

func (m *Root) take(msg tea.Msg) (cmd tea.Cmd, changed bool) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
		m.table.Height = m.shape(m.w, m.h, len(m.table.Items)).rows
		m.table.Scroll()
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case tea.MouseWheelMsg:
		cmd = wheel(m, msg.Button)
	case tea.PasteMsg: // enters text where text is asked for, and presses no key
		switch {
		case m.dialogs.Top() != nil:
			m.dialogs.Top().Paste(msg.Content)
		case m.prompt != nil:
			m.prompt.Paste(msg.Content)
		default:
			m.say("a paste presses nothing here")
		}
	case tea.BackgroundColorMsg:
		m.colours.background = msg.Color
		return nil, m.setTheme(m.colours.theme) == nil
	case tea.ColorProfileMsg:
		m.colours.few = msg.Profile == colorprofile.ANSI
		return nil, m.setTheme(m.colours.theme) == nil
	case tea.ResumeMsg:
		cmd = tea.Batch(m.feed.Reload(), m.tick())
	case tickMsg:
		if msg.gen != m.tickGen {
			return nil, false
		}
		if !m.still() {
			m.table.Calm(m.Now)
		}
		cmd = tea.Batch(m.feed.Tick(), m.tick())
	case foundMsg:
		cmd = m.found(msg)
	case heldMsg:
		cmd = m.carry(m.dialogs.Answered(dialog.Held(msg), m.Now))
	case questionMsg:
		if msg.gen != m.asking.gen {
			break
		}
		m.asking.due = false
		switch {
		case msg.err != nil:
			m.asking.menu = false
			m.warn("%s", msg.err)
		default:
			put(m, msg.dialog, msg.opener)
		}
	case renewMsg:
		m.dialogs.Renew(msg.dialog, m.o.Clock())
	case stepMsg:
		m.writing--
		msg.run.Take(msg.result)
		cmd = m.proceed()
	case doneMsg:
		cmd = m.done(msg)
	case leaveMsg, waitMsg:
		cmd = m.quit()
	default:
		news, cmd := m.feed.Update(msg)
		return tea.Batch(cmd, m.hear(news)), news.Drawn
	}
	return cmd, true
}

// hear takes in what the feed brought.
func (m *Root) hear(news feed.News) tea.Cmd {
	if !news.Say.Empty() {
		m.say("%s", news.Say)
		m.toast.bad = news.Bad
	}
	if news.Other {
		if m.dialogs.Top() != nil {
			m.dialogs.Clear()
			m.asking.hush = time.Second
		}
		if m.o.EngineOver != nil {
			m.o.Engine = m.o.EngineOver(m.feed.Store)
			m.feed.Engine = m.o.Engine
		}
		m.table.Forget()
		return m.feed.Restart()
	}
	if news.More != nil {
		m.table.Extend(news.More.Rows, news.More.Next, m.Now)
	}
	if o := m.feed.Outage(m.outage.ID); o != nil && news.Page != nil {
		m.outage.Take(&m.feed.Snapshot, o, m.Now)
	}
	if news.Page != nil {
		m.known.Learn(news.Page.Rows)
		m.table.Take(news.Page, m.still(), m.Now)
		openMatching(m)
		greet(m)
		m.dialogs.Moved(func(id string, version int64) safe.Text {
			i := m.table.Find(id)
			if i < 0 || m.table.Items[i].Row.Version == version {
				return safe.Text{}
			}
			r := m.table.Items[i].Row
			return safe.Say("now %s, last changed %s by %s", ticket.State(r.StateAt(m.Now)), m.Moment(r.UpdatedAt), ticket.Who(r.Actor))
		})
	}
	var cmd tea.Cmd
	if news.Page != nil {
		cmd = renew(m)
	}
	if m.table.ToEnd {
		cmd = tea.Batch(cmd, m.feed.More(m.table.More()))
	}
	return cmd
}

// tick comes once a second while something on the screen counts seconds, and
// else every five: the minute of the clock may be that late, an idle night is cheap.
func (m *Root) tick() tea.Cmd {
	m.tickGen++
	step := 5 * time.Second
	if m.Ticks {
		step = time.Second
	}
	at := m.o.Clock()
	return m.o.after(at.Truncate(step).Add(step).Sub(at), tickMsg{m.tickGen})
}

// quiet is how long after the last key the order of a list stands still: a row
// must not move away under a hand that is about to act on it.
const quiet = 60 * time.Second

// still reports whether the order must not change, because a person is at the keys.
func (m *Root) still() bool {
	return !m.feed.LastKey.IsZero() && m.Now.Sub(m.feed.LastKey) < quiet || m.dialogs.Top() != nil
}

// done says what came of something a person asked for.
func (m *Root) done(msg doneMsg) tea.Cmd {
	if msg.wrote {
		m.writing--
	}
	m.feed.Outdated(msg.id)
	if msg.err != nil && msg.form != nil { // what was typed stays to be sent again, or copied
		msg.form.Again()
		m.show(msg.form)
	}
	var moved *ledger.MovedError
	var changed *reconcile.ChangedError
	switch {
	case errors.As(msg.err, &moved):
		m.show(ask.Moved(&m.Frame, msg.title, moved))
	case errors.As(msg.err, &changed):
		m.show(ask.Changed(msg.title, changed))
	case msg.err != nil:
		m.show(ask.Refused(msg.title, msg.err))
	case !msg.what.Empty():
		m.say("%s", msg.what)
	}
	return m.feed.Reload()
}

// say puts a sentence at the bottom for some seconds, and warn one that tells of
// trouble.
func (m *Root) say(format safe.Format, args ...any) {
	m.toast = toast{text: safe.Say(format, args...), until: m.Now.Add(8 * time.Second)}
}

func (m *Root) warn(format safe.Format, args ...any) {
	m.say(format, args...)
	m.toast.bad = true
}

// refuse says why a key does nothing here.
func refuse(m *Root, format safe.Format, args ...any) {
	m.warn(format, args...)
	m.toast.key = true
}

func (m *Root) show(d *dialog.Dialog) { put(m, d, keyOf(m.lastName)) }

// put puts a dialog on top. Esc in one that was chosen from the menu leads back there.
func put(m *Root, d *dialog.Dialog, opener string) {
	if m.asking.menu && d.Closed == nil {
		d.Closed = ask.Key(menuKey)
	}
	m.asking.menu = false
	m.dialogs.Open(d, opener, m.o.Clock(), m.feed.LastKey)
}

// desk is the chosen operation as it lies before the person who decides.
func (m *Root) desk() ask.Case {
	f := m.Frame // as it is now: what is opened here may outlive this frame
	return ask.Case{Frame: &f, Outage: outageAt(m), Brief: m.feed.Brief(), Row: m.table.Chosen() != nil, Me: m.actor.Name,
		Marks: m.table.Covers(m.Now), Runs: len(m.feed.Runs), Holds: m.feed.Holds, Sends: m.o.Engine != nil,
		Closed: m.feed.Closed(m.o.ReadOnly)}
}

func (m *Root) header() *header.Header {
	return &header.Header{Frame: &m.Frame, Snapshot: &m.feed.Snapshot, Policy: m.o.Policy(), Broken: m.o.PolicyProblem(), Path: m.o.LedgerPath, Banner: m.o.Banner, Actor: m.actor.Name,
		ReadOnly: m.o.ReadOnly || m.feed.Info.ReadOnly, Checks: m.o.Engine != nil, Read: m.table.Read, Pricing: m.table.Unpriced(m.o.Policy().Digest(), m.Now)}
}

func (m *Root) setTheme(name string) error {
	picked, err := draw.PickTheme(name, m.colours.background, noColour())
	if err != nil {
		return err
	}
	m.colours.theme, m.Theme = name, draw.NewTheme(picked, m.colours.few)
	return nil
}
