package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
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
}

// NewRow is the row of a record.
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

	gen   int
	after string // one further page instead of the list from its start
	zone  *time.Location
}

// Page is a list as it was read.
type Page struct {
	Rows []Row
	Next string         // cursor of the page after it
	Left map[string]Row // what became of rows that were known and are not in it
}

// Looked is one look at the ledger.
type Looked struct {
	Wanted
	Page
	counts ledger.Counts
	hidden ledger.Needing
	info   ledger.Info
	holds  []ledger.Hold
	health []reconcile.Health
	looks  bool
	seq    int64
	moved  map[string]bool // was something written about it since the look before?
	others bool            // something may have been about those that are not in moved
	rest   bool            // rows have left, and there are more to look at than one look does
	took   time.Time
	cost   time.Duration // how long the look took
	err    error
}

func (f *Feed) load(w Wanted) tea.Cmd {
	store, engine, now, seq, ctx := f.Store, f.o.Engine, f.o.Clock(), f.seq, f.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		began := time.Now()
		msg := look(ctx, store, w, now, seq)
		msg.cost = time.Since(began)
		if engine != nil {
			msg.health, msg.looks = engine.Health(), engine.OnlyLooks()
		}
		return msg
	}
}

func look(ctx context.Context, store ledger.Store, w Wanted, now time.Time, seq int64) (msg Looked) {
	msg.Wanted, msg.took, msg.seq, msg.moved = w, now, seq, map[string]bool{}
	fail := func(what string, err error) Looked {
		msg.err = fmt.Errorf("%s: %w", what, err)
		return msg
	}
	page, err := store.Page(ctx, ledger.Query{Tab: w.Tab, Filter: w.Filter, Order: w.Order, Now: now, After: w.after, Limit: w.Limit})
	if err != nil {
		return fail("read the list", err)
	}
	msg.Next = page.Next
	in := make(map[string]bool, len(page.Rows))
	for _, r := range page.Rows {
		in[r.ID] = true
		msg.Rows = append(msg.Rows, Row{ID: r.ID, Row: r})
	}
	if msg.counts, err = store.Counts(ctx, now); err != nil {
		return fail("count", err)
	}
	if len(w.Filter.Terms) > 0 && w.after == "" {
		shown, err := store.Needing(ctx, w.Filter, now)
		if err != nil {
			return fail("count what the filter hides", err)
		}
		msg.hidden = msg.counts.Without(shown)
	}
	if msg.info, err = store.Info(ctx); err != nil {
		return fail("read what the ledger is", err)
	}
	if msg.holds, err = store.Holds(ctx, now); err != nil {
		return fail("read the holds", err)
	}
	if err := msg.follow(ctx, store); err != nil {
		return fail("follow the history", err)
	}
	if err := msg.whereTo(ctx, store, in); err != nil {
		return fail("read what became of a row", err)
	}
	return msg
}

// manyEvents is how much history one look reads as a whole. Beside a busy writer
// most of it is about operations that no screen shows.
const manyEvents = 200

// follow learns from what was written since the look before which details are
// out of date. The first look needs none of it.
func (msg *Looked) follow(ctx context.Context, store ledger.Feed) error {
	since := msg.seq
	msg.seq = msg.info.LastSeq
	switch n := msg.info.LastSeq - since; {
	case since == 0 || n <= 0:
		return nil
	case n <= manyEvents:
		events, err := store.Events(ctx, "", since, manyEvents)
		for _, e := range events {
			msg.moved[e.OperationID], msg.seq = true, max(msg.seq, e.Seq)
		}
		return err
	}
	msg.others = true
	for _, id := range slices.Concat(msg.Known[:min(len(msg.Known), msg.Visible)], msg.Gone) {
		events, err := store.Events(ctx, id, since, 1)
		if err != nil {
			return err
		}
		msg.moved[id] = len(events) > 0
	}
	return nil
}

// ReadLeft is how many rows that left the list one look reads: reading
// thousands at once would take longer than a ledger is waited for.
const ReadLeft = 300

// whereTo reads what became of rows that are not in the list any more.
func (msg *Looked) whereTo(ctx context.Context, store ledger.Reader, in map[string]bool) error {
	if msg.after != "" {
		return nil
	}
	var ids []string
	for _, id := range msg.Known {
		if !in[id] {
			ids = append(ids, id)
		}
	}
	for _, id := range msg.Gone {
		if msg.moved[id] && !in[id] {
			ids = append(ids, id)
		}
	}
	more := len(ids) > ReadLeft
	if more {
		ids = ids[:ReadLeft]
	}
	msg.Left = make(map[string]Row, len(ids))
	for _, id := range ids {
		rec, err := store.Read(ctx, ledger.Locator{ID: id})
		if errors.Is(err, ledger.ErrNotFound) {
			continue // the list will do without it when it is sorted again
		}
		if err != nil {
			return err
		}
		row := rec.Row()
		s := NewRow(rec)
		if tab := row.TabAt(msg.took); msg.Tab != ledger.TabAll && tab != msg.Tab {
			s.Gone, msg.rest = (ticket.Ticket{Row: row, Record: &rec, Now: msg.took, Zone: msg.zone}).Became(), more
		} else if len(msg.Filter.Terms) > 0 && !msg.Filter.Match(row, msg.took) {
			s.Gone = safe.Say("no longer matches the filter")
		}
		msg.Left[id] = s
	}
	return nil
}
