// Package feed follows a ledger for a screen: it reads the list that is shown,
// the counts and the details, reads them again after each commit, and opens the
// ledger again after it was lost.
//
// Every read runs in a command, off the update loop. The feed knows no key and draws
// nothing; its texts are as the ledger has them, and become safe where they are shown.
package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// Shown is the list that is on the screen.
type Shown interface {
	Wanted() Wanted
	Chosen() *Row
	Visible() []Row
}

// Engine is what a feed asks of the reconciler.
type Engine interface {
	Health() []reconcile.Health
	OnlyReads() bool
	CheckedBy() string
	PriceAsSeen(ctx context.Context, ids []string) error
}

// Options says what is followed.
type Options struct {
	Store ledger.Store
	Judge ticket.Judge
	Shown Shown
	Clock ledger.Clock
	Zone  *time.Location
	// Reopen opens the ledger again after it was lost, where reads finds that it
	// can be read; nil: it is never tried.
	Reopen func(reads func(ledger.Store) error) (ledger.Store, error)
	// After is a message, later, and Wait a message once something was committed.
	After func(d time.Duration, msg tea.Msg) tea.Cmd
	Wait  func(watch <-chan struct{}) tea.Cmd
}

// Snapshot is the ledger as it was last read, apart from its rows.
type Snapshot struct {
	Counts    ledger.Counts
	Hidden    ledger.Needing // what needs a person, and the filter leaves out
	Info      ledger.Info
	Holds     []ledger.Hold
	Runs      []ledger.DecisionRun // bulk runs that are not finished, newest first
	Health    []reconcile.Health
	Search    Search
	Outages   []ticket.Outage // what something is still to be done about
	Shown     *ticket.Outage  // the one on the screen, whatever is left of it
	Ran       *act.Account    // the newest run over it, or nil
	Looks     bool            // its engine settles nothing: another one works under another policy
	CheckedBy string          // who makes the checks
	Lost      error           // why the ledger cannot be read now
	LostAt    time.Time
}

// Closed says why nothing can be decided on this ledger, or "".
func (s *Snapshot) Closed(readOnly bool) string {
	switch {
	case s.Lost != nil:
		return "the ledger is lost: what you see is old"
	case s.Info.MovedTo != "":
		return "this ledger has moved to " + s.Info.MovedTo + ": decide there"
	case s.Info.Copied != "":
		return "this ledger is a copy, look only; `indoubt adopt` makes it your own"
	case readOnly || s.Info.ReadOnly:
		return "read-only: this console only looks"
	}
	return ""
}

// Feed follows one ledger.
type Feed struct {
	Snapshot
	Store   ledger.Store
	Engine  Engine    // nil: nothing is checked from here
	Now     time.Time // of this update
	LastKey time.Time
	Showing string // id of the outage on the screen

	o        Options
	ctx      context.Context
	briefs   map[string]*Brief
	place    ledger.Cursor // behind the events that were taken in
	accounts map[string]account
	figures  map[string]figures

	looks     context.Context // ends when another list is read
	dropLooks context.CancelFunc
	gen       int
	loading   bool // a look at the ledger is under way
	resting   bool // or the pause after one
	again     bool // and another is due
	extending bool
	lastLook  time.Time
	restedAt  time.Time
	busy      int // looks in a row that began as soon as they could

	briefGen   int
	briefing   bool
	briefAfter time.Time

	watch     <-chan struct{}
	waiting   bool // for the next commit
	stopWatch context.CancelFunc
	retrying  bool
	retryAt   time.Time
}

// News is what a message brought.
type News struct {
	Page  *Page     // the list as it is now
	More  *Page     // a further page of it
	Say   safe.Text // to tell the person at the keys
	Bad   bool
	Other bool // another store is followed, what was asked about the old one is void, and Restart reads it
	Drawn bool // the screen may look different now
}

type (
	// Changed says that something was committed, here or elsewhere.
	Changed struct{ ended bool }
	// Rested ends the pause after a look.
	Rested struct{ gen int }
)

// New follows a ledger until ctx ends.
func New(ctx context.Context, o Options) *Feed {
	f := &Feed{Store: o.Store, o: o, ctx: ctx, briefs: map[string]*Brief{}}
	f.looks, f.dropLooks = context.WithCancel(ctx)
	f.startWatch()
	return f
}

// Wait is a message once something was committed, or once the watch has ended.
func Wait(watch <-chan struct{}) tea.Cmd {
	return func() tea.Msg {
		_, ok := <-watch
		return Changed{ended: !ok}
	}
}

// JudgeBy replaces what the policy makes of an operation; details are read anew.
func (f *Feed) JudgeBy(j ticket.Judge) { f.o.Judge, f.briefs = j, map[string]*Brief{} }

// The ledger is followed by looking again whenever something was committed: one
// look at a time, a pause after each, and no transaction held between.

func (f *Feed) startWatch() {
	if f.stopWatch != nil {
		f.stopWatch()
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.stopWatch = cancel
	f.watch, f.waiting = f.Store.Watch(ctx), false
}

// Listen waits for the next commit, unless that is being waited for.
func (f *Feed) Listen() tea.Cmd {
	if f.waiting {
		return nil
	}
	f.waiting = true
	return f.o.Wait(f.watch)
}

const (
	atTheKeys = 10 * time.Second // after the last key

	// So many times as long as a look took, the writers and the keys have the machine for
	// themselves: looks take a tenth of a core. Where no key is pressed and commit follows
	// upon commit that shrinks to a fortieth for each console, however many are open and
	// however busy the machine is.
	restAfterLook = 9
	restBusy      = 40
	restAtKeys    = 100 * time.Millisecond // at least
	restAtLeast   = 200 * time.Millisecond // while no key is pressed
	restAtMost    = 2 * time.Second
)

// rest is how long the console leaves the ledger alone after a look. What was
// committed meanwhile is shown together.
func (f *Feed) rest(took time.Duration) time.Duration {
	rest := max(restAtKeys, restAfterLook*took)
	if f.Now.Sub(f.LastKey) > atTheKeys {
		rest = max(restAtLeast, time.Duration(min(restAfterLook<<min(f.busy, 8), restBusy))*took)
	}
	return min(rest, restAtMost)
}

// firstLook is how long the first frame waits for the first page. A ledger that
// is slower is shown as being read.
const firstLook = 250 * time.Millisecond

// First reads the first page, and the details of its first row, before there is
// a terminal to draw on.
func (f *Feed) First() News {
	f.gen++
	type first struct {
		msg Looked
		b   *Brief
	}
	done := make(chan first, 1)
	ctx, store, judge, w, now := f.ctx, f.Store, f.o.Judge, f.wanted(), f.Now
	go func() {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		p := first{msg: look(ctx, store, w, now, "")}
		if p.msg.err == nil && len(p.msg.Rows) > 0 && p.msg.Rows[0].Operation() {
			p.b, _ = readBrief(ctx, store, judge, p.msg.Rows[0].ID, now, true) // else it is read with the others
		}
		done <- p
	}()
	if f.Engine != nil {
		f.Health, f.CheckedBy = f.Engine.Health(), f.Engine.CheckedBy()
	}
	select {
	case p := <-done:
		if p.b != nil {
			f.briefs[p.b.ID()] = p.b
		}
		return f.took(p.msg)
	case <-time.After(firstLook):
		return News{}
	}
}

func (f *Feed) wanted() Wanted {
	w := f.o.Shown.Wanted()
	w.before = before{f.Info.ID, f.Info.Parallel, f.accounts, f.figures, f.Counts, f.Holds, f.Runs}
	w.showing, w.shown, w.ran = f.Showing, f.Shown, f.Ran
	w.gen, w.zone, w.known, w.lately = f.gen, f.o.Zone, f.Hidden, f.Search.long
	if w.Tab == ledger.TabSettled || w.Tab == ledger.TabAll { // what is open is read whole in a moment
		w.within = moment
	}
	if w.steps = f.Search.Running; w.steps {
		w.after, w.Limit, w.within = f.Search.next, f.Search.want, stride
	}
	return w
}

// Reload looks at the ledger again, one look at a time: what changes meanwhile,
// or in the pause after it, is seen by the next.
func (f *Feed) Reload() tea.Cmd {
	if f.loading || f.resting {
		f.again = true
		return nil
	}
	f.loading, f.again = true, false
	if f.busy++; f.Now.Sub(f.restedAt) > restAtLeast {
		f.busy = 0
	}
	f.gen++
	return f.load(f.wanted())
}

// Restart reads another list.
func (f *Feed) Restart() tea.Cmd {
	f.forsake()
	f.Search = Search{}
	return f.Reload()
}

// More reads the page after the last row read, if there is one.
func (f *Feed) More(after string) tea.Cmd {
	if after == "" || f.extending || f.loading || f.Search.Unfinished() {
		return nil
	}
	if f.Search.long {
		f.Search.Running, f.Search.next, f.Search.want = true, after, 500
		f.forsake()
		return f.Reload()
	}
	f.extending = true
	w := f.wanted()
	w.after, w.Known, w.Gone, w.Limit = after, nil, nil, 500
	return f.load(w)
}

// Tick does what only the passing of time asks for.
func (f *Feed) Tick() tea.Cmd {
	f.age()
	var cmds []tea.Cmd
	if f.Lost != nil && !f.retrying && !f.Now.Before(f.retryAt) {
		f.retrying = true
		cmds = append(cmds, f.reopen(f.Store))
	}
	if f.Lost == nil && f.Info.Promoted && !f.retrying && !f.Now.Before(f.retryAt) {
		f.retrying = true
		cmds = append(cmds, f.reopen(nil))
	}
	if f.Lost == nil && f.Now.Sub(f.lastLook) >= 5*time.Second {
		cmds = append(cmds, f.Reload())
	}
	return tea.Batch(cmds...)
}

// Update takes in a message that the feed has sent for; others bring no news.
func (f *Feed) Update(msg tea.Msg) (News, tea.Cmd) {
	switch msg := msg.(type) {
	case Changed:
		if msg.ended {
			return News{}, nil
		}
		f.waiting = false // until the pause after the look
		return News{}, f.Reload()
	case Rested:
		if msg.gen != f.gen {
			return News{}, nil
		}
		f.resting, f.restedAt = false, f.Now
		cmd := f.Listen()
		if f.again {
			cmd = tea.Batch(cmd, f.Reload())
		}
		return News{}, cmd
	case Looked:
		return f.looked(msg)
	case briefsMsg:
		return f.tookBriefs(msg)
	case reopenedMsg:
		return f.reopened(msg)
	}
	return News{}, nil
}

func (f *Feed) looked(msg Looked) (News, tea.Cmd) {
	further := msg.after != "" && !msg.steps
	if further {
		f.extending = false
	}
	switch {
	case msg.gen != f.gen || further && msg.err != nil:
		return News{}, nil
	case further:
		news := News{More: msg.extends(), Drawn: true}
		if f.searched(&msg); f.Search.Running {
			return news, f.Reload()
		}
		return news, nil
	}
	news := f.took(msg)
	f.loading = false
	if msg.err != nil {
		f.again = false
		return news, f.Listen()
	}
	if f.Search.Running {
		return news, f.Reload()
	}
	f.again, f.resting = f.again || msg.rest, true
	return news, f.o.After(f.rest(msg.cost), Rested{f.gen})
}

func (f *Feed) took(msg Looked) News {
	news := News{Drawn: true}
	if msg.err != nil {
		if f.Lost == nil {
			f.LostAt, f.retryAt = f.Now, f.Now.Add(time.Second)
			news.Say, news.Bad = safe.Say("the ledger is lost: %s", msg.err), true
		}
		f.Lost = msg.err
		return news
	}
	if f.Lost != nil {
		news.Say = safe.Say("the ledger is back")
	}
	f.Lost, f.lastLook = nil, f.Now
	if !sameHolds(f.Holds, msg.holds) {
		for id := range f.briefs {
			f.Outdated(id)
		}
	}
	if f.Info.ID != "" && msg.info.ID != f.Info.ID {
		news.Say, news.Bad = safe.Say("another ledger stands here now: what was shown before is not in it"), true
	}
	f.Outages, f.accounts, f.figures, f.Shown, f.Ran = msg.outages, msg.accounts, msg.figures, msg.shown, msg.ran
	f.Counts, f.Hidden, f.Info, f.Holds, f.Runs, f.place = msg.counts, msg.hidden, msg.info, msg.holds, msg.runs, msg.place
	if msg.health != nil {
		f.Health, f.Looks, f.CheckedBy = msg.health, msg.looks, msg.checkedBy
	}
	for id, b := range f.briefs {
		related := func(r ledger.Relation) bool { return msg.mayHaveMoved(r.ID) }
		b.old = b.old || msg.mayHaveMoved(id) || slices.ContainsFunc(b.ticket.Record.Related, related)
	}
	f.stale(msg.Rows)
	f.searched(&msg)
	if news.Page = &msg.Page; msg.steps {
		news.More = msg.extends()
	}
	return news
}

func (f *Feed) tookBriefs(msg briefsMsg) (News, tea.Cmd) {
	f.briefing = false
	if msg.gen != f.briefGen {
		return News{}, nil
	}
	maps.Copy(f.briefs, msg.briefs)
	news := News{Drawn: true}
	if msg.err != nil && !errors.Is(msg.err, context.Canceled) {
		f.briefAfter = f.Now.Add(2 * time.Second) // not again at once
		news.Say, news.Bad = safe.Of(msg.err.Error()), true
	}
	return news, f.priceAsSeen(msg.briefs)
}

// reopenedMsg is the end of one try to get a lost ledger back.
type reopenedMsg struct {
	store ledger.Store
	err   error
}

// reopen tries the look that the screen needs, on the ledger in use and then on
// one opened anew: a ledger that opens may still not be readable. Without one in use it
// is the new one, or none.
func (f *Feed) reopen(store ledger.Store) tea.Cmd {
	open, ctx, w, now := f.o.Reopen, f.ctx, f.wanted(), f.o.Clock()
	reads := func(s ledger.Store) error {
		quick, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		return look(quick, s, w, now, "").err
	}
	return func() tea.Msg {
		err := errors.New("it is to be opened anew")
		if store != nil {
			err = reads(store) // it may have been only busy, or away for a moment
		}
		if err != nil && open != nil {
			store, err = open(reads)
		}
		return reopenedMsg{store, err}
	}
}

func (f *Feed) reopened(msg reopenedMsg) (News, tea.Cmd) {
	news := News{Drawn: true}
	f.retrying, f.retryAt = false, f.Now.Add(2*time.Second)
	if msg.err != nil {
		if f.Lost != nil {
			f.Lost = msg.err
		}
		return news, nil
	}
	if msg.store != f.Store {
		if f.Info.Promoted {
			news.Say = safe.Say("this server was promoted: it is opened for writing")
		}
		f.Store, f.place, f.briefs, news.Other = msg.store, "", map[string]*Brief{}, true
		f.startWatch()
		return news, f.Listen()
	}
	f.loading, f.resting = false, false // it is back when this look has worked
	return news, f.Reload()
}
