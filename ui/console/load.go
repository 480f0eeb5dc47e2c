package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// Every function here runs in a command, off the update loop, and is where
// ledger text is made visible-safe.

// patience is how long one look at the ledger may take before it counts as lost.
const patience = 8 * time.Second

// shown is one operation in a list: the id as the ledger has it, and the row
// made safe to show.
type shown struct {
	id   string
	row  ledger.Row
	gone string // how it left this list; "" while it belongs here
}

// wanted says what a look at the ledger is to bring.
type wanted struct {
	gen    int
	tab    ledger.Tab
	filter ledger.Filter
	order  ledger.Order
	limit  int
	after  string // one further page instead of the list from its start
	loc    *time.Location
	known  []string // rows loaded, the visible first: what became of those that are not in the list any more?
	gone   []string // rows known to have left: read again only when something was written about them
}

// loadedMsg is one look at the ledger.
type loadedMsg struct {
	wanted
	rows   []shown
	next   string
	left   map[string]shown // of wanted.known
	counts ledger.Counts
	info   ledger.Info
	holds  []ledger.Hold
	health []reconcile.Health
	looks  bool
	seq    int64
	moved  []string // operations something was written about since the look before
	rest   bool     // rows have left, and there are more to look at than one look does
	took   time.Time
	cost   time.Duration // how long the look took
	err    error
}

func (m *Root) load(w wanted) tea.Cmd {
	store, engine, now, seq, ctx := m.store, m.o.Engine, m.now(), m.seq, m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		began := time.Now()
		msg := look(ctx, store, w, now, seq)
		msg.cost = time.Since(began)
		if engine != nil {
			msg.health, msg.looks = safe.Value(engine.Health()), engine.OnlyLooks()
		}
		return msg
	}
}

func look(ctx context.Context, store ledger.Store, w wanted, now time.Time, seq int64) (msg loadedMsg) {
	msg.wanted, msg.took, msg.seq = w, now, seq
	fail := func(what string, err error) loadedMsg {
		msg.err = fmt.Errorf("%s: %w", what, err)
		return msg
	}
	page, err := store.Page(ctx, ledger.Query{Tab: w.tab, Filter: w.filter, Order: w.order, Now: now, After: w.after, Limit: w.limit})
	if err != nil {
		return fail("read the list", err)
	}
	msg.next = page.Next
	in := make(map[string]bool, len(page.Rows))
	for _, r := range page.Rows {
		in[r.ID] = true
		msg.rows = append(msg.rows, shown{id: r.ID, row: safeRow(r)})
	}
	if msg.counts, err = store.Counts(ctx, now); err != nil {
		return fail("count", err)
	}
	if msg.info, err = store.Info(ctx); err != nil {
		return fail("read what the ledger is", err)
	}
	msg.info = safe.Value(msg.info)
	holds, err := store.Holds(ctx, now)
	if err != nil {
		return fail("read the holds", err)
	}
	msg.holds = safe.Value(holds)
	if err := msg.follow(ctx, store); err != nil {
		return fail("follow the history", err)
	}
	if err := msg.whereTo(ctx, store, in); err != nil {
		return fail("read what became of a row", err)
	}
	return msg
}

// follow tells from what was written since the look before which details are
// out of date. The first look needs none of it.
func (msg *loadedMsg) follow(ctx context.Context, store ledger.Store) error {
	if msg.seq == 0 {
		msg.seq = msg.info.LastSeq
		return nil
	}
	for range 20 {
		events, err := store.Events(ctx, "", msg.seq, 500)
		if err != nil {
			return err
		}
		for _, e := range events {
			msg.seq = e.Seq
			msg.moved = append(msg.moved, e.OperationID)
		}
		if len(events) < 500 {
			return nil
		}
	}
	msg.seq = msg.info.LastSeq
	return nil
}

// readLeft is how many rows that left the list one look reads: reading
// thousands at once would take longer than a ledger is waited for.
const readLeft = 300

// whereTo reads what became of rows that are not in the list any more.
func (msg *loadedMsg) whereTo(ctx context.Context, store ledger.Store, in map[string]bool) error {
	if msg.after != "" {
		return nil
	}
	var ids []string
	for _, id := range msg.known {
		if !in[id] {
			ids = append(ids, id)
		}
	}
	if len(msg.gone) > 0 && len(msg.moved) > 0 {
		moved := make(map[string]bool, len(msg.moved))
		for _, id := range msg.moved {
			moved[id] = true
		}
		for _, id := range msg.gone {
			if moved[id] && !in[id] {
				ids = append(ids, id)
			}
		}
	}
	more := len(ids) > readLeft
	if more {
		ids = ids[:readLeft]
	}
	msg.left = make(map[string]shown, len(ids))
	for _, id := range ids {
		rec, err := store.Read(ctx, ledger.Locator{ID: id})
		if errors.Is(err, ledger.ErrNotFound) {
			continue // the list will do without it when it is sorted again
		}
		if err != nil {
			return err
		}
		row := rec.Row()
		s := shown{id: id, row: safeRow(row)}
		if tab := row.TabAt(msg.took); msg.tab != ledger.TabAll && tab != msg.tab {
			s.gone, msg.rest = became(row, rec.Operation, msg.took, msg.loc), more
		} else if len(msg.filter.Terms) > 0 && !msg.filter.Match(row, msg.took) {
			s.gone = "no longer matches the filter"
		}
		msg.left[id] = s
	}
	return nil
}

func safeRow(r ledger.Row) ledger.Row {
	r.Title = safe.Of(firstOf(r.Title, r.Pricing.Title, r.Kind+" "+r.Key)).String()
	r.Target = safe.Of(firstOf(r.Target, r.Pricing.Target)).String()
	r.ID, r.Kind, r.Key, r.Token = safe.Of(r.ID).String(), safe.Of(r.Kind).String(), safe.Of(r.Key).String(), safe.Of(r.Token).String()
	r.Source.Pipeline, r.Source.Run, r.Source.Host = safe.Of(r.Source.Pipeline).String(), safe.Of(r.Source.Run).String(), safe.Of(r.Source.Host).String()
	r.ErrorClass = ledger.ErrorClass(safe.Of(string(r.ErrorClass)).String())
	r.Receipt, r.Actor = safe.Of(r.Receipt).String(), safe.Of(r.Actor).String()
	r.Pricing.Downstream = safe.Of(r.Pricing.Downstream).String()
	r.Pricing.Duplicate.Word, r.Pricing.Miss.Word = safe.Of(r.Pricing.Duplicate.Word).String(), safe.Of(r.Pricing.Miss.Word).String()
	return r
}

// brief is everything a person needs to decide about one operation.
type brief struct {
	raw     ledger.Record // for rules and for copying
	rec     ledger.Record // safe to show
	events  []ledger.Event
	facts   ticket.Facts
	took    time.Time
	history bool // events were read
	old     bool // it changed since
}

// briefsMsg brings details of operations that are on the screen.
type briefsMsg struct {
	gen    int
	briefs map[string]*brief
	err    error
}

func (m *Root) loadBriefs(gen int, ids []string, chosen string) tea.Cmd {
	ctx, store, judge, now := m.ctx, m.store, m.judge, m.now()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		msg := briefsMsg{gen: gen, briefs: make(map[string]*brief, len(ids))}
		for _, id := range ids {
			b, err := readBrief(ctx, store, judge, id, now, id == chosen)
			if err != nil {
				msg.err = err
				return msg
			}
			msg.briefs[id] = b
		}
		return msg
	}
}

func readBrief(ctx context.Context, store ledger.Store, judge ticket.Judge, id string, now time.Time, history bool) (*brief, error) {
	rec, err := store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	b := &brief{raw: rec, rec: safe.Value(rec), took: now, history: history, facts: judge(rec, now)}
	b.facts = safeFacts(b.facts)
	if rec.Pricing.Digest == "" { // no engine has priced it yet
		b.rec.Pricing = b.facts.Price
	}
	if b.rec.Operation.Title == "" {
		b.rec.Operation.Title = firstOf(b.rec.Pricing.Title, safe.Of(rec.Operation.Kind+" "+rec.Operation.Key).String())
	}
	if history {
		events, err := store.Events(ctx, id, 0, 500)
		if err != nil {
			return nil, fmt.Errorf("read the history of %s: %w", id, err)
		}
		b.events = safe.Value(events)
	}
	return b, nil
}

func safeFacts(f ticket.Facts) ticket.Facts {
	advice := safe.Value(f.Advice)
	f.Advice = ticket.Facts{}.Advice
	f = safe.Value(f)
	f.Advice = advice
	return f
}

// changedMsg says that something was committed, here or elsewhere.
type changedMsg struct{ ended bool }

func waitForChange(watch <-chan struct{}) tea.Cmd {
	return func() tea.Msg {
		_, ok := <-watch
		return changedMsg{ended: !ok}
	}
}

// reopenedMsg is the end of one try to get a lost ledger back.
type reopenedMsg struct {
	store ledger.Store
	err   error
}

// reopen tries the look that the screen needs, on the ledger in use and then on
// one opened anew: a ledger that opens may still not be readable.
func (m *Root) reopen() tea.Cmd {
	open, store, ctx, w, now := m.o.Reopen, m.store, m.ctx, m.wanted(), m.now()
	reads := func(s ledger.Store) error {
		quick, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return look(quick, s, w, now, 0).err
	}
	return func() tea.Msg {
		err := reads(store) // it may have been only busy, or away for a moment
		if err != nil && open != nil {
			store, err = open(reads)
		}
		return reopenedMsg{store, err}
	}
}
