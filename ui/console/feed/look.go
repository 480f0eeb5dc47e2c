package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// Patience is how long one look at the ledger may take before it counts as lost.
const Patience = 8 * time.Second

// Row is one operation in a list: the id as the ledger has it, and the row made
// safe to show.
type Row struct {
	ID   string
	Row  ledger.Row
	Gone string // how it left this list; "" while it belongs here
}

// NewRow makes a record's row safe to show.
func NewRow(rec ledger.Record) Row { return Row{ID: rec.Operation.ID, Row: safeRow(rec.Row())} }

// Wanted says what a look at the ledger is to bring.
type Wanted struct {
	Tab    ledger.Tab
	Filter ledger.Filter
	Order  ledger.Order
	Limit  int
	Known  []string // rows loaded, the visible first: what became of those that are not in the list any more?
	Gone   []string // rows known to have left: read again only when something was written about them

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

func (f *Feed) load(w Wanted) tea.Cmd {
	store, engine, now, seq, ctx := f.Store, f.o.Engine, f.o.Clock(), f.seq, f.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Patience)
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

func look(ctx context.Context, store ledger.Store, w Wanted, now time.Time, seq int64) (msg Looked) {
	msg.Wanted, msg.took, msg.seq = w, now, seq
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
		msg.Rows = append(msg.Rows, Row{ID: r.ID, Row: safeRow(r)})
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

// follow learns from what was written since the look before which details are
// out of date. The first look needs none of it.
func (msg *Looked) follow(ctx context.Context, store ledger.Store) error {
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

// ReadLeft is how many rows that left the list one look reads: reading
// thousands at once would take longer than a ledger is waited for.
const ReadLeft = 300

// whereTo reads what became of rows that are not in the list any more.
func (msg *Looked) whereTo(ctx context.Context, store ledger.Store, in map[string]bool) error {
	if msg.after != "" {
		return nil
	}
	var ids []string
	for _, id := range msg.Known {
		if !in[id] {
			ids = append(ids, id)
		}
	}
	if len(msg.Gone) > 0 && len(msg.moved) > 0 {
		moved := make(map[string]bool, len(msg.moved))
		for _, id := range msg.moved {
			moved[id] = true
		}
		for _, id := range msg.Gone {
			if moved[id] && !in[id] {
				ids = append(ids, id)
			}
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
		s := Row{ID: id, Row: safeRow(row)}
		if tab := row.TabAt(msg.took); msg.Tab != ledger.TabAll && tab != msg.Tab {
			s.Gone, msg.rest = became(row, rec.Operation, msg.took, msg.zone), more
		} else if len(msg.Filter.Terms) > 0 && !msg.Filter.Match(row, msg.took) {
			s.Gone = "no longer matches the filter"
		}
		msg.Left[id] = s
	}
	return nil
}

func safeRow(r ledger.Row) ledger.Row {
	r.Title = safe.Of(cmp.Or(r.Title, r.Pricing.Title, r.Kind+" "+r.Key)).String()
	r.Target = safe.Of(cmp.Or(r.Target, r.Pricing.Target)).String()
	r.ID, r.Kind, r.Key, r.Token = safe.Of(r.ID).String(), safe.Of(r.Kind).String(), safe.Of(r.Key).String(), safe.Of(r.Token).String()
	r.Source.Pipeline, r.Source.Run, r.Source.Host = safe.Of(r.Source.Pipeline).String(), safe.Of(r.Source.Run).String(), safe.Of(r.Source.Host).String()
	r.ErrorClass = ledger.ErrorClass(safe.Of(string(r.ErrorClass)).String())
	r.Receipt, r.Actor = safe.Of(r.Receipt).String(), safe.Of(r.Actor).String()
	r.Pricing.Downstream = safe.Of(r.Pricing.Downstream).String()
	r.Pricing.Duplicate.Word, r.Pricing.Miss.Word = safe.Of(r.Pricing.Duplicate.Word).String(), safe.Of(r.Pricing.Miss.Word).String()
	return r
}
