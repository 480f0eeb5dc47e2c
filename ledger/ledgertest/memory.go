package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
)

// Memory is a store that forgets everything: the plainest reading of
// ledger.Store, to compare real stores with. It does not notice a caller that
// changes what it was given.
type Memory struct {
	mu       sync.Mutex
	moment   func() ledger.Moment
	clock    ledger.Clock
	created  time.Time
	ops      []*entry // in order of arrival
	events   []ledger.Event
	seq      int64             // of the newest event
	telling  map[string]bool   // events that say how a doubt ended
	changes  map[string]string // change id → operation id
	places   map[string]int    // where its event is, from 1
	holds    []ledger.Hold
	doubts   map[ledger.DoubtCount]ledger.DoubtCount // by kind and class
	leaders  []ledger.Leader
	watchers []chan struct{}
	info     ledger.Info // of the last step of the clock
	*burstLog
	*keptRuns
	*prices
}

type entry struct {
	seq      int64
	op       ledger.Operation
	attempts []ledger.Attempt
	reads    []ledger.Read // newest first
	grants   []ledger.Grant
	pricing  ledger.Pricing
	listed   bool // among those that are open
	recheck  time.Time
	marks    []string
	related  []ledger.Relation // put beside those that are found
}

// NewMemory makes an empty store. nil is the host's steady clock.
func NewMemory(clock ledger.Clock, steady ledger.SteadyClock) *Memory {
	m := &Memory{moment: hostclock.Of(clock, steady), clock: clock, created: clock(), changes: map[string]string{}, places: map[string]int{}, doubts: map[ledger.DoubtCount]ledger.DoubtCount{}, telling: map[string]bool{}}
	m.prices = &prices{m}
	m.keptRuns = &keptRuns{m: m, drivers: map[string]ledger.RunDriver{}}
	m.burstLog = &burstLog{m: m}
	return m
}

func (m *Memory) find(at ledger.Locator) (newest *entry) {
	for _, e := range m.ops {
		switch {
		case at.ID != "":
			if e.op.ID == at.ID {
				return e
			}
		case at.AttemptID != "":
			if slices.ContainsFunc(e.attempts, func(a ledger.Attempt) bool { return a.ID == at.AttemptID }) {
				return e
			}
		case at.Awaits != "":
			if e.op.Awaits == at.Awaits && e.op.Scope == at.Scope && e.op.State == ledger.Pending {
				return e
			}
		case e.op.KeyLive && (at.Kind == "" || e.op.Kind == at.Kind) && e.op.Scope == at.Scope && (e.op.Key == at.Key || e.op.Key == ledger.Masked(at.Key)):
			newest = e
		}
	}
	return newest
}

// unused reports whether an operation has a permission that is open.
func unused(e *entry) bool {
	return slices.ContainsFunc(e.grants, func(g ledger.Grant) bool { return g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() })
}

func (m *Memory) record(e *entry, now time.Time) ledger.Record {
	if e == nil {
		return ledger.Record{Now: now, Steady: m.moment().Steady}
	}
	rec := ledger.Record{Found: true, Operation: e.op, Attempts: slices.Clone(e.attempts), Reads: slices.Clone(e.reads),
		Grants: slices.Clone(e.grants), Pricing: e.pricing, Now: now, Steady: m.moment().Steady}
	rec.Pricing.OperationID = e.op.ID
	rec.Holds = holdsAt(m.holds, now)
	rec.Related, rec.Outages = slices.Clone(e.related), m.of(e)
	for _, other := range m.ops {
		o := &other.op
		if other == e || o.Target == "" || o.Target != e.op.Target {
			continue
		}
		rec.Related = append(rec.Related, ledger.Relation{ID: o.ID, Title: o.Title, State: o.State, Source: o.Source, CreatedAt: o.CreatedAt, SettledAt: o.SettledAt,
			Receipt: o.Receipt(), MayHaveLanded: ledger.MayHaveLanded(*o, other.attempts), Overtook: overtook(e, other)})
	}
	slices.SortFunc(rec.Related, func(a, b ledger.Relation) int {
		if a.Overtook != b.Overtook {
			return map[bool]int{true: -1, false: 1}[a.Overtook]
		}
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return rec
}

// overtook reports whether another operation, on the same target, came later than e, or may
// have acted after it was done.
func overtook(e, other *entry) bool {
	o, t := &e.op, &other.op
	after := t.State.Open() || t.State == ledger.Committed && t.SettledAt.After(o.SettledAt)
	return cmp.Or(t.StartedAt.Compare(o.StartedAt), cmp.Compare(other.seq, e.seq)) > 0 || o.State == ledger.Committed && after
}

// skip leaves out what a rule or a caller has said it does not look at, so that one
// which does is found out.
func skip(rec *ledger.Record, parts ledger.Parts) {
	if parts&ledger.PartReads != 0 {
		rec.Reads = nil
	}
	if parts&ledger.PartRelated != 0 {
		rec.Related = nil
	}
	if parts&ledger.PartHolds != 0 {
		rec.Holds = nil
	}
	if parts&ledger.PartPricing != 0 {
		rec.Pricing = ledger.Pricing{}
	}
}

func (m *Memory) Change(_ context.Context, at ledger.Locator, changeID string, rule ledger.Rule) (ledger.Applied, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, known := m.changes[changeID]; known {
		e := m.find(ledger.Locator{ID: id})
		return ledger.Applied{Before: e.op, After: e.op, Noop: true}, nil
	}
	now := m.clock()
	e := m.find(at)
	rec := m.record(e, now)
	skip(&rec, at.Skip)
	if other := openUnder(m.ops, at.Gate); other != nil {
		open := m.record(other, now)
		skip(&open, ledger.AllParts)
		rec.Open = &open
	}
	c, err := rule(&rec)
	if err != nil {
		return ledger.Applied{}, err
	}
	if why := notUnder(m.events, rec, c); why != "" {
		return ledger.Applied{}, &ledger.GuardError{Message: why}
	}
	applied := ledger.Applied{Before: rec.Operation, After: rec.Operation}
	if c.Operation == nil && c.Read == nil && c.Event == nil && len(c.Attempts) == 0 && len(c.Grants) == 0 && c.RecheckAt.IsZero() &&
		c.Pricing == nil {
		applied.Noop = true
		return applied, nil
	}
	if c.Insert {
		if e != nil && c.Retire {
			e.op.KeyLive = false
		}
		o := c.Operation
		if held := m.find(ledger.Locator{Kind: o.Kind, Scope: o.Scope, Key: o.Key}) != nil; held == o.KeyLive || !o.KeyLive && c.Then == nil {
			return ledger.Applied{}, &ledger.GuardError{Message: "this key is in use, or not"}
		}
		if openUnder(m.ops, o.Gate) != nil {
			return ledger.Applied{}, &ledger.GuardError{Message: "the same request is in flight or in doubt"}
		}
		applied.Before = ledger.Operation{}
		e = &entry{seq: int64(len(m.ops)) + 1, marks: c.Marks}
		m.ops = append(m.ops, e)
	}
	if c.Erase != nil {
		if err := overtakes(m, e); err != nil {
			return applied, err
		}
	}
	m.write(e, c, changeID, applied.Before, now, &applied)
	if c.Erase != nil {
		erase(m, e, changeID, *c.Erase)
	}
	wake(m.watchers)
	return applied, m.then(e, c, now, &applied)
}

func (m *Memory) write(e *entry, c ledger.Change, changeID string, before ledger.Operation, now time.Time, applied *ledger.Applied) {
	if c.Operation != nil {
		if c.Operation.Version != e.op.Version {
			e.pricing.Digest = ""
		}
		if c.Operation.State == ledger.Uncertain && e.op.State != ledger.Uncertain {
			e.pricing.ReadAt, e.pricing.Reads = time.Time{}, 0
		}
		e.op = leaving(m.ops, e.op, *c.Operation)
		if e.op.UpdatedAt.IsZero() {
			e.op.UpdatedAt = now
		}
		applied.After = e.op
	}
	for _, a := range c.Attempts {
		if i := slices.IndexFunc(e.attempts, func(b ledger.Attempt) bool { return b.ID == a.ID }); i >= 0 {
			e.attempts[i] = a
		} else {
			e.attempts = append(e.attempts, a)
		}
		applied.Attempt = a
	}
	for _, g := range c.Grants {
		if i := slices.IndexFunc(e.grants, func(h ledger.Grant) bool { return h.ID == g.ID }); i >= 0 {
			e.grants[i] = g
		} else {
			e.grants = append([]ledger.Grant{g}, e.grants...)
		}
		applied.Grant = g
	}
	if c.Read != nil {
		e.reads = append([]ledger.Read{*c.Read}, e.reads...)
	}
	switch {
	case e.op.State == ledger.Pending || e.op.State == ledger.Uncertain:
		e.recheck = time.Time{}
	case !c.RecheckAt.IsZero():
		e.recheck, e.pricing.ReadAt = c.RecheckAt, c.RecheckAt
	case c.Read != nil:
		e.recheck = time.Time{}
	}
	e.list()
	if c.Pricing != nil {
		e.price(*c.Pricing, c.RecheckAt)
	}
	if c.Event != nil {
		ev := *c.Event
		if ev.ID == "" {
			ev.ID = changeID
		}
		ev.OperationID, ev.From, ev.To, ev.Version = e.op.ID, before.State, e.op.State, e.op.Version
		if e.op.Conflict != before.Conflict || e.op.ConflictNote != before.ConflictNote {
			ev.Conflict = e.op.Conflict
		}
		m.telling[ev.ID] = countDoubt(m, before, e.op, ev.Verb, now)
		m.append(ev, now)
	}
}

// list puts an operation among those that are open, or takes it out.
func (e *entry) list() {
	o := e.op
	open := o.State == ledger.Uncertain || o.State == ledger.Failed && o.Doubted || o.Conflict != ledger.NoConflict || !e.recheck.IsZero() || !o.ParkedUntil.IsZero() || unused(e)
	switch {
	case open && !e.listed:
		e.listed, e.pricing = true, ledger.Pricing{ReadAt: e.recheck}
	case !open && o.State != ledger.Pending && e.listed:
		e.listed, e.pricing = false, ledger.Pricing{}
	}
}

// price is what a policy says of an operation that is open or in flight. recheck is when it is to be read all the same.
func (e *entry) price(p ledger.Pricing, recheck time.Time) {
	p.Version = 0
	switch {
	case e.listed:
	case e.op.State == ledger.Pending:
		e.listed = true
	default:
		return
	}
	if e.pricing.Reads > p.Reads {
		p.Reads, p.ReadAt = e.pricing.Reads, e.pricing.ReadAt
	}
	if e.pricing = p; !recheck.IsZero() {
		e.pricing.ReadAt = recheck
	}
}

func (m *Memory) append(ev ledger.Event, now time.Time) {
	m.seq++
	ev.Seq, ev.At = m.seq, now
	m.events = append(m.events, ev)
	m.places[ev.ID] = len(m.events)
	m.changes[ev.ID] = ev.OperationID
}

func (m *Memory) Read(_ context.Context, at ledger.Locator) (ledger.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, err := m.read(at)
	skip(&rec, at.Skip)
	return rec, err
}

func (m *Memory) read(at ledger.Locator) (ledger.Record, error) {
	if e := m.find(at); e != nil {
		return m.record(e, m.clock()), nil
	}
	var candidates []string
	for _, e := range m.ops {
		if len(at.ID) >= 4 && strings.HasPrefix(e.op.ID, at.ID) {
			candidates = append(candidates, e.op.ID)
		}
	}
	switch len(candidates) {
	case 0:
		if lower := strings.ToLower(at.ID); lower != at.ID {
			return m.read(ledger.Locator{ID: lower})
		}
		return ledger.Record{}, fmt.Errorf("%w: %s", ledger.ErrNotFound, at.ID+at.AttemptID+at.Awaits+at.Key)
	case 1:
		return m.record(m.find(ledger.Locator{ID: candidates[0]}), m.clock()), nil
	}
	return ledger.Record{}, &ledger.AmbiguousError{Prefix: at.ID, IDs: candidates}
}

func (m *Memory) Records(_ context.Context, ids []string) ([]ledger.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var recs []ledger.Record
	for _, id := range ids {
		if e := m.find(ledger.Locator{ID: id}); e != nil && id != "" {
			rec := m.record(e, m.clock())
			for i := range rec.Reads {
				rec.Reads[i].Evidence = nil
			}
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

func (m *Memory) Follow(ctx context.Context, after ledger.Cursor, limit int) ([]ledger.Event, ledger.Cursor, error) {
	events, err := m.History(ctx, ledger.HistoryQuery{Since: after, Limit: limit})
	if n := len(events); n > 0 {
		after = ledger.NumberCursor(events[n-1].Seq)
	}
	return events, after, err
}

func (m *Memory) History(_ context.Context, q ledger.HistoryQuery) ([]ledger.Event, error) {
	since, err := q.Since.Number()
	until, err2 := q.Until.Number()
	if err != nil || err2 != nil {
		return nil, cmp.Or(err, err2)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []ledger.Event{}
	for _, ev := range m.events {
		if ev.Seq > since && (q.Until == "" || ev.Seq <= until) && (q.Before == 0 || ev.Seq < q.Before) && (q.Operation == "" || ev.OperationID == q.Operation) &&
			(q.Among == nil || ev.OperationID != "" && slices.Contains(q.Among, ev.OperationID)) {
			out = append(out, ev)
		}
	}
	if q.Newest {
		slices.Reverse(out)
	}
	return out[:min(q.Limit, len(out))], nil
}

func wake(watchers []chan struct{}) {
	for _, w := range watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (m *Memory) Watch(ctx context.Context) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := make(chan struct{}, 1)
	m.watchers = append(m.watchers, w)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = slices.DeleteFunc(m.watchers, func(c chan struct{}) bool { return c == w })
		close(w)
	})
	return w
}

func (m *Memory) Lead(_ context.Context, holder string, rank int, scopes []string) (ledger.Leaders, error) {
	if holder == "" {
		return ledger.Leaders{}, fmt.Errorf("a leader without a name")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range ledger.TakeLead(ledger.Leaders{Now: m.clock(), All: m.leaders}, holder, rank, scopes) {
		m.leaders = append(slices.DeleteFunc(m.leaders, func(was ledger.Leader) bool { return was.Scope == l.Scope }), l)
	}
	slices.SortFunc(m.leaders, func(a, b ledger.Leader) int { return strings.Compare(a.Scope, b.Scope) })
	return ledger.Leaders{Now: m.clock(), All: slices.Clone(m.leaders)}, nil
}

func (m *Memory) Leaders(context.Context) (ledger.Leaders, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return ledger.Leaders{Now: m.clock(), All: slices.Clone(m.leaders)}, nil
}

func (m *Memory) Info(context.Context) (ledger.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info := m.info
	info.ID, info.CreatedAt, info.LastSeq = "memory", m.created, m.seq
	info.Cursor = ledger.NumberCursor(info.LastSeq)
	if n := len(m.events); n > 0 {
		info.LastWrite = m.events[n-1].At
	}
	for _, l := range m.leaders {
		if l.Until.After(info.EngineAt) {
			info.EngineAt = l.Until
		}
	}
	for _, e := range m.ops {
		info.LastBy = e.op.Source.Pipeline
		for _, a := range e.attempts {
			if a.Outcome == ledger.OutcomeUncertain && a.EndedAt.After(info.LastError) {
				info.LastError = a.EndedAt
			}
		}
	}
	return info, nil
}

// Close does nothing.
func (m *Memory) Close() error { return nil }
