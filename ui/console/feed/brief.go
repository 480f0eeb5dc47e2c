package feed

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// Brief is everything a person needs to decide about one operation.
type Brief struct {
	Raw    ledger.Record // for rules and for copying
	Rec    ledger.Record // safe to show
	Events []ledger.Event
	Facts  ticket.Facts

	took    time.Time
	history bool // events were read
	old     bool // it changed since
}

// readBrief reads one operation and what the policy says about it now.
func readBrief(ctx context.Context, store ledger.Store, judge ticket.Judge, id string, now time.Time, history bool) (*Brief, error) {
	rec, err := store.Read(ctx, ledger.Locator{ID: id})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	b := &Brief{Raw: rec, Rec: safe.Value(rec), took: now, history: history, Facts: safeFacts(judge(rec, now))}
	if rec.Pricing.Digest == "" { // no engine has priced it yet
		b.Rec.Pricing = b.Facts.Price
	}
	if b.Rec.Operation.Title == "" {
		b.Rec.Operation.Title = cmp.Or(b.Rec.Pricing.Title, safe.Of(rec.Operation.Kind+" "+rec.Operation.Key).String())
	}
	if history {
		events, err := store.Events(ctx, id, 0, 500)
		if err != nil {
			return nil, fmt.Errorf("read the history of %s: %w", id, err)
		}
		b.Events = safe.Value(events)
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

// Ticket is the operation as it is told in a frame.
func (b *Brief) Ticket(now time.Time, zone *time.Location) ticket.Ticket {
	return ticket.Ticket{Row: b.Rec.Row(), Record: &b.Rec, Facts: b.Facts, Now: now, Zone: zone}
}

// Ticket is a row with its details, where they belong to it and not to what the
// operation has become since. What no engine has priced yet is shown as the
// policy in force prices it.
func (f *Feed) Ticket(s *Row) ticket.Ticket {
	t := ticket.Ticket{Row: s.Row, Now: f.Now, Zone: f.o.Zone}
	b := f.briefs[s.ID]
	if b == nil || b.Raw.Operation.Version > t.Row.Version {
		return t
	}
	t.Record, t.Facts = &b.Rec, b.Facts
	if t.Row.Pricing.Digest == "" && b.Rec.Pricing.Digest != "" {
		t.Row.Pricing, t.Row.Title = b.Rec.Pricing, b.Rec.Operation.Title
	}
	return t
}

// Reader reads one operation, off the update loop.
func (f *Feed) Reader(history bool) func(ctx context.Context, id string) (*Brief, error) {
	store, judge, now := f.Store, f.judge, f.Now
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
func (f *Feed) Link() string { return f.judge(f.Brief().Raw, f.Now).Link }

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
		if b := f.briefs[r.ID]; b != nil && (b.Raw.Operation.Version != r.Row.Version || b.Raw.Pricing.Reads != r.Row.Pricing.Reads || b.Raw.Pricing.Digest != r.Row.Pricing.Digest) {
			b.old = true
		}
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
		for _, t := range []time.Time{b.Facts.Advice.ChangesAt, b.Rec.Pricing.DecideAt, b.Facts.ProofAt, b.Facts.LapsesAt} {
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
	if s := f.o.Shown.Chosen(); s != nil {
		chosen = s.ID
		if b := f.briefs[s.ID]; b == nil || b.old || !b.history {
			ids = append(ids, s.ID)
		}
	}
	for _, s := range f.o.Shown.Visible() {
		if b := f.briefs[s.ID]; (b == nil || b.old) && s.ID != chosen && s.Gone == "" {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	// A person reads the chosen row's details: they come first and by themselves.
	if ids[0] == chosen && len(ids) > 1 {
		ids = ids[:1]
	}
	f.briefing = true
	f.briefGen++
	gen, ctx, store, judge, now := f.briefGen, f.ctx, f.Store, f.judge, f.o.Clock()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Patience)
		defer cancel()
		msg := briefsMsg{gen: gen, briefs: make(map[string]*Brief, len(ids))}
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

// became says how an operation left a list: what it is now, since when, by whom.
func became(r ledger.Row, o ledger.Operation, now time.Time, zone *time.Location) string {
	words := ticket.State(r.StateAt(now))
	switch {
	case r.Parked(now):
		words = "parked"
	case r.Conflict != ledger.NoConflict:
		words = strings.ToLower(ticket.Conflict(r.Conflict))
	case r.LaneAt(now) == ledger.LaneUnfetched:
		words = "send allowed"
	case r.LaneAt(now) == ledger.LaneReading:
		words = "checking"
	case r.LaneAt(now) == ledger.LaneDecide:
		words = "needs you"
	}
	if since := turned(r, now); since.After(o.UpdatedAt) {
		return words + " " + since.In(zone).Format("15:04") // a clock did it
	}
	return words + " " + o.UpdatedAt.In(zone).Format("15:04") + ", by " + safe.Of(ticket.Who(o.Actor)).String()
}

// turned is when a clock last put a row where it stands; zero when none did.
func turned(r ledger.Row, now time.Time) time.Time {
	switch {
	case r.State == ledger.Pending && r.StateAt(now) == ledger.Uncertain:
		return r.DeadlineAt
	case !r.ParkedUntil.IsZero() && !r.Parked(now):
		return r.ParkedUntil
	case r.LaneAt(now) == ledger.LaneDecide && !r.Pricing.DecideAt.After(now):
		return r.Pricing.DecideAt
	}
	return time.Time{}
}

// ScopeWords says what a hold is on.
func ScopeWords(s ledger.HoldScope) string {
	if s == "all" {
		return "on everything"
	}
	return strings.TrimPrefix(strings.TrimPrefix(string(s), "kind:"), "downstream:")
}
