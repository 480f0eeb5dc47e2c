package ledgertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// burstLog are the outages of a Memory.
type burstLog struct {
	m   *Memory
	all []ledger.Outage
}

func (k *burstLog) outage(id string) *ledger.Outage {
	for i := range k.all {
		if k.all[i].ID == id {
			return &k.all[i]
		}
	}
	return nil
}

// lost are the attempts of an operation that count in the outages of their times.
func lost(e *entry) (out []ledger.Lost) {
	for _, a := range e.attempts {
		if l, is := a.Lost(e.op); is {
			out = append(out, l)
		}
	}
	return out
}

// joined is the first attempt by which an operation counts in an outage.
func joined(e *entry, in ledger.Outage) (at time.Time, is bool) {
	for _, l := range lost(e) {
		if in.Takes(l.At) && slices.Contains(in.Kinds, l.Kind) {
			return l.At, true
		}
	}
	return at, false
}

// of names the outages that an operation is in, the newest first.
func (k *burstLog) of(e *entry) (ids []string) {
	if len(lost(e)) == 0 {
		return nil
	}
	var ins []ledger.Outage
	for i := range k.all {
		if _, is := joined(e, k.all[i]); is {
			ins = append(ins, k.all[i])
		}
	}
	for _, in := range newestFirst(ins) {
		ids = append(ids, in.ID)
	}
	return ids
}

func newestFirst(ins []ledger.Outage) []ledger.Outage {
	slices.SortFunc(ins, func(a, b ledger.Outage) int { return cmp.Or(b.LastAt.Compare(a.LastAt), strings.Compare(a.ID, b.ID)) })
	return ins
}

// Fold looks at everything, each time.
func (k *burstLog) Fold(_ context.Context, ids []string, _ bool, burst func(string) ledger.Burst) error {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	of, answers, bursts, now := map[string][]ledger.Lost{}, map[string]time.Time{}, map[string]ledger.Burst{}, k.m.clock()
	for _, e := range k.m.ops {
		b := burst(e.op.Kind).Of(e.op.Kind)
		bursts[b.Scope] = b
		of[b.Scope] = append(of[b.Scope], lost(e)...)
		if !slices.Contains(ids, e.op.ID) {
			continue
		}
		if at := answeredAt(e); at.After(answers[e.op.Kind]) {
			answers[e.op.Kind] = at
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(of)) {
		slices.SortFunc(of[scope], func(a, b ledger.Lost) int {
			return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Operation, b.Operation))
		})
		known := slices.DeleteFunc(slices.Clone(k.all), func(i ledger.Outage) bool { return i.Scope != scope })
		slices.SortFunc(known, func(a, b ledger.Outage) int { return a.FirstAt.Compare(b.FirstAt) })
		changed, _ := bursts[scope].Fold(known, of[scope])
		for _, in := range changed {
			if was := k.outage(in.ID); was != nil {
				*was = in
				continue
			}
			k.all = append(k.all, in)
			k.m.append(in.Opened(bursts[scope]), now)
		}
	}
	for i, in := range k.all {
		if k.all[i] = in.Answered(answers, now); in.OverAt.IsZero() && !k.all[i].OverAt.IsZero() {
			k.m.append(k.all[i].Ended(), now)
		}
	}
	wake(k.m.watchers)
	return nil
}

// answeredAt is when the other side last answered for an operation.
func answeredAt(e *entry) (at time.Time) {
	if e.op.State == ledger.Committed && e.op.ByAnswer {
		at = e.op.SettledAt
	}
	for _, a := range e.attempts {
		if a.Proof == ledger.Refused && a.EndedAt.After(at) {
			at = a.EndedAt
		}
	}
	for _, r := range e.reads {
		if clear := r.Verdict != "" && r.Verdict != ledger.CannotTell || r.FoundNone(); clear && r.EndedAt.After(at) {
			at = r.EndedAt
		}
	}
	return at
}

// told is an outage with what its operations say of it now.
func (k *burstLog) told(in ledger.Outage, now time.Time) ledger.Outage {
	in.Fates = map[ledger.Fate]ledger.Sum{}
	for _, e := range k.m.ops {
		if _, is := joined(e, in); is {
			rec := k.m.record(e, now)
			in.Fates[fateOf(rec)] = in.Fates[fateOf(rec)].Add(sumOf(e))
		}
	}
	return in
}

func (k *burstLog) Outages(_ context.Context, _ time.Time, limit int) ([]ledger.Outage, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	out := newestFirst(slices.Clone(k.all))
	return out[:min(limit, len(out))], nil
}

func (k *burstLog) Sums(_ context.Context, ins []ledger.Outage, now time.Time) error {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	for i := range ins {
		ins[i].Fates = k.told(ins[i], now).Fates
	}
	return nil
}

func (k *burstLog) OutagesSince(ctx context.Context, after ledger.Cursor, limit int) ([]string, bool, error) {
	events, _, err := k.m.Follow(ctx, after, limit+1)
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	var ids []string
	for _, ev := range events[:min(limit, len(events))] {
		ids = append(ids, ev.Outage)
		for _, e := range k.m.ops {
			if e.op.ID == ev.OperationID {
				ids = append(ids, k.of(e)...)
			}
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" }), len(events) <= limit, err
}

func (k *burstLog) Outage(_ context.Context, id string, now time.Time) (ledger.OutageAccount, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	in, err := k.named(id)
	if err != nil {
		return ledger.OutageAccount{}, err
	}
	a := ledger.OutageAccount{Outage: k.told(*in, now)}
	minutes, groups, inRun := map[int64]int{}, map[ledger.OutageGroup]ledger.Sum{}, k.m.inRuns()
	for _, e := range k.m.ops {
		at, is := joined(e, *in)
		if !is {
			continue
		}
		minutes[at.UnixMilli()/60000]++
		rec, run := k.m.record(e, now), inRun(e.op)
		g := ledger.OutageGroup{Kind: e.op.Kind, Fate: fateOf(rec), Group: rec.Group(run != "")}
		if g.By = rec.By(g.Group); g.Group == ledger.GroupRunning {
			g.By = run
		}
		switch {
		case g.Group.Tab() == ledger.TabSettled || g.Group == ledger.GroupInFlight:
			g.Kind = ""
		case g.Group == ledger.GroupElsewhere:
			a.Elsewhere = append(a.Elsewhere, ledger.Landing{Operation: e.op.ID, Title: e.op.Title, Other: rec.Landings()[0]})
		}
		sum := sumOf(e)
		groups[g] = groups[g].Add(sum)
		if sum.Resent == 0 {
			continue
		}
		if slices.ContainsFunc(e.attempts, func(at ledger.Attempt) bool { return at.Already }) {
			a.Already++
		}
		if at := e.op.CheckedAt(e.reads); at.After(a.CheckedAt) {
			a.CheckedAt = at
		}
	}
	a.Fill(minutes, groups)
	a.Elsewhere = a.Elsewhere[:min(len(a.Elsewhere), ledger.SomeElsewhere)]
	for _, ev := range k.m.events {
		if ev.Outage == in.ID {
			a.Events = append(a.Events, ev)
		}
	}
	return a, nil
}

// named finds an outage by the beginning of its id.
func (k *burstLog) named(id string) (*ledger.Outage, error) {
	for i := range k.all {
		if len(id) >= 4 && strings.HasPrefix(k.all[i].ID, id) {
			return &k.all[i], nil
		}
	}
	return nil, &ledger.NoOutageError{ID: id}
}

func (k *burstLog) ChangeOutage(_ context.Context, c ledger.OutageChange) (ledger.Outage, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	in, err := k.named(c.ID)
	if err != nil {
		return ledger.Outage{}, err
	}
	if _, known := k.m.changes[c.ChangeID]; known {
		return k.told(*in, k.m.clock()), nil
	}
	after, ev, err := c.Apply(k.told(*in, k.m.clock()), k.m.clock())
	if err != nil {
		return after, err
	}
	in.TakenBy, in.TakenUntil = after.TakenBy, after.TakenUntil
	k.m.append(ev, k.m.clock())
	wake(k.m.watchers)
	return k.told(*in, k.m.clock()), nil
}

// fateOf is what became of an operation, for its outage.
func fateOf(r ledger.Record) ledger.Fate {
	switch o := r.Operation; {
	case r.Row().LaneAt(r.Now) == ledger.LaneReading:
		return ledger.FateChecking
	case o.Conflict != ledger.NoConflict || o.State == ledger.Pending || o.State == ledger.Uncertain:
		return ledger.FateOpen
	case o.State == ledger.Committed:
		return ledger.FateLanded
	case o.State == ledger.Abandoned:
		return ledger.FateLeft
	case slices.ContainsFunc(r.Grants, func(g ledger.Grant) bool { return g.Open(r.Now) }):
		return ledger.FateOpen
	case !o.Doubted && slices.ContainsFunc(r.Attempts, func(a ledger.Attempt) bool { return a.Proof == ledger.Refused }):
		return ledger.FateRefused
	}
	return ledger.FateNotLanded
}

// sumOf is the sum of one operation, at its price where it is open.
func sumOf(e *entry) ledger.Sum {
	s, o, p := ledger.Sum{N: 1}, e.op, e.pricing
	if e.listed {
		s.Miss, s.MissWords = addend(p.Miss)
		s.Twice, s.TwiceWords = addend(p.Duplicate)
		if p.Unpriced() {
			s.Unpriced = 1
		}
	}
	if o.AttemptCount > 1 {
		s.Resent = 1
	}
	if o.Effects > 1 || o.Conflict == ledger.Duplicate {
		s.Doubled = 1
	}
	if s.Resent == 1 && s.Doubled == 0 && o.State != ledger.Failed && o.CheckedAt(e.reads).IsZero() {
		s.Unchecked = 1
	}
	return s
}

// addend is what a cost adds to a sum: its amount, or one word.
func addend(c ledger.Cost) (amount float64, words int) {
	if c.Word != "" {
		return 0, 1
	}
	return c.Value, 0
}
