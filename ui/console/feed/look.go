package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/act"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// Patience is how long one look at the ledger may take before it counts as lost.
const Patience = 8 * time.Second

// Row is one operation in a list.
type Row struct {
	ID   string
	Row  ledger.Row
	Gone safe.Text // how it left this list; empty while it belongs here

	Outage *ticket.Outage // instead of an operation
}

// Total is how many rows a list has, with these of it loaded, as far as that is known; else 0.
func (s *Snapshot) Total(tab ledger.Tab, f ledger.Filter, loaded []Row) int {
	c := s.Counts
	if tab != ledger.TabNeedsYou {
		if len(f.Terms) > 0 {
			return 0
		}
		return c.In(tab)
	}
	n := c.Without(s.Hidden).NeedsYou
	for i := range loaded {
		if r := &loaded[i]; !r.Operation() && r.Gone.Empty() { // one row for all of it
			n += 1 - r.Outage.Needs().N
		}
	}
	return n
}

func NewRow(rec ledger.Record) Row { return Row{ID: rec.Operation.ID, Row: rec.Row()} }

// Wanted says what a look at the ledger is to bring.
type Wanted struct {
	Tab     ledger.Tab
	Filter  ledger.Filter
	Order   ledger.Order
	Limit   int
	Known   []string // rows loaded, the visible first: what became of those that are not in the list any more?
	Visible int      // rows on the screen
	Gone    []string // rows known to have left: read again only when something was written about them

	gen    int
	after  string         // one further page instead of the list from its start
	within time.Duration  // how long its filter may search; 0: to the end
	steps  bool           // a search goes on, from after
	lately bool           // of a long search: what changed since the look before
	known  ledger.Needing // what the filter hides, as far as is known
	zone   *time.Location

	showing string
	shown   *ticket.Outage
	ran     *act.Account
	before  before
}

// Page is a list as it was read.
type Page struct {
	Rows []Row
	Next string         // cursor of the page after it
	Left map[string]Row // what became of rows that were known and are not in it
	Part bool           // only what changed: rows that are in neither stay as they were
}

// written is what was written since the look before.
type written struct {
	since     ledger.Cursor   // behind the events of that look
	events    int             // read
	cut       bool            // there are more
	moved     map[string]bool // was something written about it?
	others    bool            // something may have been about those that are not in moved
	concerned []string        // that events are about
	whole     bool            // those are all of them
}

// Looked is one look at the ledger.
type Looked struct {
	Wanted
	Page
	written
	in        map[string]bool // rows of the page
	more      []Row           // of the further page
	found     int             // rows in what was read of the list
	tried     int             // operations that it searched
	cursor    string          // where it goes on
	missed    bool            // more was written than could be followed
	counts    ledger.Counts
	hidden    ledger.Needing
	outages   []ticket.Outage
	listed    []ledger.Outage    // that may have a row
	accounts  map[string]account // of them and of others
	figures   map[string]figures // of them
	info      ledger.Info
	holds     []ledger.Hold
	runs      []ledger.DecisionRun
	health    []reconcile.Health
	looks     bool
	checkedBy string
	place     ledger.Cursor // behind the events it has taken in
	rest      bool          // rows have left, and there are more to look at than one look does
	took      time.Time
	cost      time.Duration // how long the look took
	err       error
}

func (f *Feed) load(w Wanted) tea.Cmd {
	store, engine, now, place, ctx := f.Store, f.Engine, f.o.Clock(), f.place, f.looks
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		began := time.Now()
		msg := look(ctx, store, w, now, place)
		msg.cost = time.Since(began)
		if engine != nil {
			msg.health, msg.looks, msg.checkedBy = engine.Health(), engine.OnlyReads(), engine.CheckedBy()
		}
		return msg
	}
}

type read struct {
	what string // that failed
	do   func(ctx context.Context, store ledger.Store) error
}

// together makes reads that need nothing of each other, at most so many at the same time,
// and returns the first error.
func together(ctx context.Context, store ledger.Store, most int, reads ...read) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(most, 1))
	for _, r := range reads {
		g.Go(func() error {
			if err := r.do(ctx, store); err != nil {
				return fmt.Errorf("%s: %w", r.what, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// look reads in steps: a step needs what the one before it has read. The history comes
// first: what it tells of is in the list that is read after it.
func look(ctx context.Context, store ledger.Store, w Wanted, now time.Time, since ledger.Cursor) (msg Looked) {
	msg.Wanted, msg.took, msg.since, msg.moved, msg.in = w, now, since, map[string]bool{}, map[string]bool{}
	msg.info.Parallel = w.before.parallel
	for _, step := range [][]read{
		{{"read what the ledger is", msg.readInfo}, {"follow the history", msg.follow}},
		{
			{"read the outages", msg.readListed}, {"follow the history", msg.single}, {"count", msg.readCounts},
			{"read the holds", msg.readHolds}, {"read the bulk runs", msg.readRuns}, {"read the outages", msg.readConcerned},
		},
		{{"read the outages", msg.readOutages}},
		{{"read the outage on the screen", msg.readShown}, {"read the list", msg.read}, {"count what the filter hides", msg.hides}},
		{{"read what became of a row", msg.whereTo}},
	} {
		if msg.err = together(ctx, store, msg.info.Parallel, step...); msg.err != nil {
			break
		}
	}
	if errors.Is(msg.err, context.DeadlineExceeded) { // ours, and no one else's word
		msg.err = fmt.Errorf("it has not answered for %s", Patience)
	}
	return msg
}

func (msg *Looked) readInfo(ctx context.Context, store ledger.Store) (err error) {
	msg.info, err = store.Info(ctx)
	return err
}

func (msg *Looked) readCounts(ctx context.Context, store ledger.Store) (err error) {
	msg.counts, err = store.Counts(ctx, msg.took)
	return err
}

func (msg *Looked) readHolds(ctx context.Context, store ledger.Store) (err error) {
	msg.holds, err = store.Holds(ctx, msg.took)
	return err
}

func (msg *Looked) readRuns(ctx context.Context, store ledger.Store) (err error) {
	msg.runs, err = store.Runs(ctx, ledger.RunQuery{Open: true, Limit: 9})
	return err
}

// read reads the list, a further page of it, or what changed in it.
func (msg *Looked) read(ctx context.Context, store ledger.Store) error {
	if msg.steps || !msg.lately {
		folded := msg.folded()
		page, err := store.Page(ctx, ledger.Query{Tab: msg.Tab, Filter: fold(msg.Filter, folded), Order: msg.Order, Now: msg.took,
			After: msg.after, Limit: msg.Limit, Within: msg.within})
		if err != nil {
			return err
		}
		msg.found, msg.tried, msg.cursor = len(page.Rows), page.Searched, page.Next
		if msg.steps || msg.after != "" {
			for _, r := range page.Rows {
				msg.more = append(msg.more, Row{ID: r.ID, Row: r})
			}
		} else {
			msg.Next = page.Next
			msg.add(page.Rows)
			msg.addOutages(folded)
		}
	}
	if msg.lately || msg.found < msg.Limit && msg.cursor != "" && len(msg.Known) > 0 {
		return msg.recent(ctx, store)
	}
	return nil
}

// hides is what needs a person and is left out by the filter. While a search goes on it
// is counted again only where something was written.
func (msg *Looked) hides(ctx context.Context, store ledger.Store) error {
	switch {
	case len(msg.Filter.Terms) == 0 || msg.after != "" && !msg.steps:
		return nil
	case msg.steps && msg.events == 0:
		msg.hidden = msg.known
		return nil
	}
	shown, err := store.Needing(ctx, msg.Filter, msg.took)
	msg.hidden = msg.counts.Without(shown)
	return err
}

func (msg *Looked) add(rows []ledger.Row) {
	for _, r := range rows {
		if !msg.in[r.ID] {
			msg.in[r.ID] = true
			msg.Rows = append(msg.Rows, Row{ID: r.ID, Row: r})
		}
	}
}

// manyEvents is how much history one look reads as a whole. Beside a busy writer
// most of it is about operations that no screen shows. A list that is not read whole
// takes its changes from there.
const (
	manyEvents    = 200
	manyOfASearch = 5000
)

func (msg *Looked) most() int {
	if msg.lately || msg.within > 0 {
		return manyOfASearch
	}
	return manyEvents
}

// follow learns from what was written since the look before which details are
// out of date. The first look needs none of it.
func (msg *Looked) follow(ctx context.Context, store ledger.Store) error {
	if msg.since == "" {
		msg.cut, msg.events = true, 1
		return nil
	}
	events, place, err := store.Follow(ctx, msg.since, msg.most())
	for _, e := range events {
		msg.moved[e.OperationID] = true
	}
	msg.place, msg.events, msg.cut = place, len(events), len(events) >= msg.most()
	return err
}

// single learns it for the rows that are shown alone, where more was written than a look
// reads as a whole. Then the next look goes on behind all that was there before this.
func (msg *Looked) single(ctx context.Context, store ledger.Store) error {
	if !msg.cut {
		return nil
	}
	msg.place = msg.info.Cursor
	if msg.since == "" {
		return nil
	}
	msg.others = true
	known := msg.Known[:min(len(msg.Known), msg.Visible)]
	if msg.lately { // a row below the screen is read for its change alone
		known = msg.Known
	}
	ids := slices.Concat([]string{}, known, msg.Gone)
	events, err := store.History(ctx, ledger.HistoryQuery{Among: ids, Since: msg.since, Limit: manyOfASearch})
	for _, id := range ids {
		msg.moved[id] = len(events) == manyOfASearch
	}
	for _, e := range events {
		msg.moved[e.OperationID] = true
	}
	return err
}

// mayHaveMoved reports whether something was, or may have been, written about an operation.
func (msg *Looked) mayHaveMoved(id string) bool {
	moved, known := msg.moved[id]
	return moved || !known && msg.others
}

// ReadLeft is how many rows that left the list one look reads: reading
// thousands at once would take longer than a ledger is waited for.
const ReadLeft = 300

// whereTo reads what became of rows that are not in the list any more.
func (msg *Looked) whereTo(ctx context.Context, store ledger.Store) error {
	var ids []string
	msg.Left = map[string]Row{}
	for _, id := range slices.Concat(msg.Known, msg.Gone) {
		if err := msg.outageLeft(ctx, store, id); err != nil {
			return err
		}
	}
	for _, id := range msg.Known {
		if _, out := msg.Left[id]; !out && !msg.in[id] && (!msg.lately || msg.moved[id]) {
			ids = append(ids, id)
		}
	}
	for _, id := range msg.Gone {
		if msg.moved[id] && !msg.in[id] {
			ids = append(ids, id)
		}
	}
	more := len(ids) > ReadLeft && !msg.lately
	if more {
		ids = ids[:ReadLeft]
	}
	recs, err := store.Records(ctx, ids)
	for _, rec := range recs { // the list will do without one that is not there when it is sorted again
		row := rec.Row()
		s := NewRow(rec)
		if tab := row.TabAt(msg.took); msg.Tab != ledger.TabAll && tab != msg.Tab {
			s.Gone, msg.rest = (ticket.Ticket{Row: row, Record: &rec, Now: msg.took, Zone: msg.zone}).Became(), more
		} else if len(msg.Filter.Terms) > 0 && !msg.Filter.Match(row, msg.took) {
			s.Gone = safe.Say("no longer matches the filter")
		}
		msg.Left[s.ID] = s
	}
	return err
}
