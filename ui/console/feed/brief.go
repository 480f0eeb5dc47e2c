package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// Brief is everything a person needs to decide about one operation.
type Brief struct {
	ticket  ticket.Ticket
	stored  ledger.Pricing // as the ledger has it
	took    time.Time
	history bool // events were read
	old     bool // it changed since
}

func readBrief(ctx context.Context, store ledger.Store, judge ticket.Judge, id string, now time.Time, history bool) (*Brief, error) {
	rec, err := store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	b := newBrief(rec, judge, now)
	if b.history = history; history {
		if b.ticket.Events, err = store.History(ctx, ledger.HistoryQuery{Operation: id, Limit: 500}); err != nil {
			return nil, fmt.Errorf("read the history of %s: %w", id, err)
		}
	}
	return b, nil
}

func newBrief(rec ledger.Record, judge ticket.Judge, now time.Time) *Brief {
	return &Brief{ticket: ticket.From(rec, judge, now, time.UTC), stored: rec.Pricing, took: now}
}

// At is what is told of the operation at a moment.
func (b *Brief) At(now time.Time, zone *time.Location) ticket.Ticket { return b.ticket.With(now, zone) }

// What no clock changes of the operation.
func (b *Brief) ID() string       { return b.ticket.Row.ID }
func (b *Brief) Title() safe.Text { return b.ticket.Title() }
func (b *Brief) Kind() safe.Text  { return b.ticket.Kind() }

// Ticket is a row with its details, where they belong to it and not to what the
// operation has become since.
func (f *Feed) Ticket(s *Row) ticket.Ticket {
	if b := f.briefs[s.ID]; b != nil && b.ticket.Record.Operation.Version <= s.Row.Version {
		t := b.At(f.Now, f.o.Zone)
		price := t.Row.Pricing
		if t.Row = s.Row; s.Row.Pricing.Digest != price.Digest { // the policy in force gave another
			t.Row.Pricing = price
		}
		return t
	}
	return ticket.Ticket{Row: s.Row, Now: f.Now, Zone: f.o.Zone}
}

// Reader reads one operation, off the update loop.
func (f *Feed) Reader(history bool) func(ctx context.Context, id string) (*Brief, error) {
	store, judge, now := f.Store, f.o.Judge, f.Now
	return func(ctx context.Context, id string) (*Brief, error) {
		return readBrief(ctx, store, judge, id, now, history)
	}
}

// Brief is what is known of the row under the cursor, as the ledger has it now,
// or nil while it is read.
func (f *Feed) Brief() *Brief {
	if s := f.o.Shown.Chosen(); s != nil {
		return f.briefs[s.ID]
	}
	return nil
}

// Link is the page of the chosen operation at its downstream, as it is written.
func (f *Feed) Link() string { return f.o.Judge(*f.Brief().ticket.Record, f.Now).Link }

// Outdated has the details of one operation read again. They stay on the
// screen until then, so that nothing flickers.
func (f *Feed) Outdated(id string) {
	if b := f.briefs[id]; b != nil {
		b.old = true
	}
}

// stale marks details of rows that are not as they were when these were read.
func (f *Feed) stale(rows []Row) {
	for _, r := range rows {
		b, price := f.briefs[r.ID], r.Row.Pricing
		if b == nil {
			continue
		}
		is := b.ticket.Row
		b.old = b.old || is.Version != r.Row.Version || is.Overtaken != r.Row.Overtaken ||
			b.stored.Reads != price.Reads || b.stored.Digest != price.Digest
	}
	if len(f.briefs) > 2000 {
		f.briefs = map[string]*Brief{}
	}
}

// age marks details whose advice a clock has changed.
func (f *Feed) age() {
	for _, s := range f.o.Shown.Visible() {
		b := f.briefs[s.ID]
		if b == nil {
			continue
		}
		facts := b.ticket.Facts
		for _, t := range []time.Time{facts.Advice.ChangesAt, b.ticket.Row.Pricing.DecideAt, facts.ProofAt, facts.LapsesAt} {
			if t.After(b.took) && !t.After(f.Now) {
				b.old = true
			}
		}
	}
}

// briefsMsg brings details of operations that are on the screen.
type briefsMsg struct {
	gen    int
	briefs map[string]*Brief
	err    error
}

// Details reads the details of the rows on the screen that are not read yet.
func (f *Feed) Details() tea.Cmd {
	if f.briefing || f.Lost != nil || f.Now.Before(f.briefAfter) {
		return nil
	}
	chosen := ""
	var ids []string
	if s := f.o.Shown.Chosen(); s != nil && s.Operation() {
		chosen = s.ID
		if b := f.briefs[s.ID]; b == nil || b.old || !b.history {
			ids = append(ids, s.ID)
		}
	}
	for _, s := range f.o.Shown.Visible() {
		if b := f.briefs[s.ID]; (b == nil || b.old) && s.ID != chosen && s.Gone.Empty() && s.Operation() {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	// A person reads the chosen row's details: they come first and by themselves. The
	// others are read at once, however many they are.
	f.briefing = true
	f.briefGen++
	gen, ctx, store, judge, now := f.briefGen, f.ctx, f.Store, f.o.Judge, f.o.Clock()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		msg := briefsMsg{gen: gen, briefs: make(map[string]*Brief, len(ids))}
		if ids[0] == chosen {
			b, err := readBrief(ctx, store, judge, chosen, now, true)
			if msg.err = err; err == nil {
				msg.briefs[chosen] = b
			}
			return msg
		}
		recs, err := store.Records(ctx, ids)
		for _, rec := range recs {
			msg.briefs[rec.Operation.ID] = newBrief(rec, judge, now)
		}
		if msg.err = err; err == nil && len(recs) < len(ids) {
			msg.err = fmt.Errorf("read the details: %w", ledger.ErrNotFound)
		}
		return msg
	}
}

// priceAsSeen has the engine price anew the rows whose details, read just now, say other
// odds than the ledger sums: the sums over the list are to be those of the rows below.
func (f *Feed) priceAsSeen(briefs map[string]*Brief) tea.Cmd {
	if f.Engine == nil || f.Looks {
		return nil
	}
	var ids []string
	for id, b := range briefs {
		if now := b.ticket.Facts.Price; now.Digest != "" && now.Digest == b.stored.Digest && now.Rank != b.stored.Rank {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(f.ctx, Patience)
		defer cancel()
		_ = f.Engine.PriceAsSeen(ctx, ids) // the next time that they are read is the next try
		return nil
	}
}
