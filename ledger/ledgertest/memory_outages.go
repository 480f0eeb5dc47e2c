package ledgertest

import (
	"context"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// burstLog are the outages of a Memory.
type burstLog struct {
	m       *Memory
	all     []ledger.Outage
	waiting map[string][]ledger.Recent // errors of a scope that belong to none
}

// fault looks for the outage that the end of an attempt belongs to.
func (k *burstLog) fault(e *entry, f ledger.Fault, now time.Time) ledger.Joining {
	o := &e.op
	f.Burst = f.Burst.Of(o.Kind)
	j := f.Join(*o, k.concerned(*o, f), k.waiting[f.Burst.Scope], now)
	k.waiting[f.Burst.Scope] = j.Recent
	if i := j.Outage; i != nil {
		if j.Opened {
			i.OpenedAt = now
			for _, w := range j.Earlier {
				if e := k.m.find(ledger.Locator{ID: w.Operation}); e != nil && e.op.Outage == "" {
					e.op.Outage, e.op.Joined, e.joinedAt = i.ID, ledger.JoinedAsError, e.op.FaultAt
				}
			}
			k.all = append(k.all, *i)
			k.m.append(j.Told(f.Actor), now)
		}
		*k.outage(i.ID) = *i
	}
	if f.At.After(o.FaultAt) { // the clock may have been set back
		o.FaultAt = f.At
	}
	if j.Joins != "" {
		o.Outage, o.Joined, e.joinedAt = j.Outage.ID, j.Joins, o.FaultAt
	}
	return j
}

// concerned is the outage that a fault may belong to.
func (k *burstLog) concerned(o ledger.Operation, f ledger.Fault) *ledger.Outage {
	if o.Outage != "" {
		return k.outage(o.Outage)
	}
	var of []*ledger.Outage // newest first
	for i := range k.all {
		if k.all[i].Scope == f.Burst.Scope {
			of = append(of, &k.all[i])
		}
	}
	slices.SortStableFunc(of, func(a, b *ledger.Outage) int { return b.LastAt.Compare(a.LastAt) })
	if len(of) == 0 || !f.At.Before(of[0].FirstAt) {
		return append(of, nil)[0]
	}
	for _, in := range slices.Backward(of) {
		if in.LastAt.After(f.At.Add(-f.Burst.Gap)) {
			return in
		}
	}
	return nil
}

func (k *burstLog) outage(id string) *ledger.Outage {
	for i := range k.all {
		if k.all[i].ID == id {
			return &k.all[i]
		}
	}
	return nil
}

// doubt looks for the outage of a doubt that no one has looked for yet.
func (k *burstLog) doubt(e *entry, b ledger.Burst, late ledger.Latecomers) {
	last := len(e.attempts) - 1
	if e.op.State == ledger.Uncertain && e.op.EndedAt.After(e.op.FaultAt) && last >= 0 && e.attempts[last].Outcome == ledger.OutcomeUncertain {
		late.Add(k.fault(e, ledger.Fault{Burst: b, At: e.op.EndedAt, Class: e.op.ErrorClass}, k.m.clock()), e.op, e.op.EndedAt)
	}
}

// tell writes down what joined when it was priced.
func (k *burstLog) tell(late ledger.Latecomers) {
	for _, e := range late.Told() {
		k.m.append(e, k.m.clock())
		wake(k.m.watchers)
	}
}

// answered notes a check that saw clearly.
func (k *burstLog) answered(e *entry, r ledger.Read) {
	in := k.outage(e.op.Outage)
	clear := r.Verdict != "" && r.Verdict != ledger.CannotTell || r.FoundNone()
	if in != nil && clear && !in.AnsweredAt.After(in.LastAt) && r.EndedAt.After(in.LastAt) {
		in.AnsweredAt = r.EndedAt
	}
}

// told is an outage with what its operations say of it now.
func (k *burstLog) told(in ledger.Outage, now time.Time) ledger.Outage {
	in.Fates = map[ledger.Fate]ledger.Sum{}
	for _, e := range k.m.ops {
		o := e.op
		answer := o.ByAnswer && o.State == ledger.Committed && (o.TokenSent || o.Conflict == ledger.NoConflict)
		if answer && slices.Contains(in.Kinds, o.Kind) && o.SettledAt.After(in.LastAt) && o.SettledAt.After(in.AnsweredAt) && in.OverAt.IsZero() {
			in.AnsweredAt = o.SettledAt
		}
		if o.Row().Outage == in.ID {
			fate := o.Fate(granted(e, now))
			in.Fates[fate] = in.Fates[fate].Add(SumOf(o, e.pricing, e.reads))
		}
	}
	return in
}

// granted reports whether one more attempt is allowed now and has not begun.
func granted(e *entry, now time.Time) bool {
	return slices.ContainsFunc(e.grants, func(g ledger.Grant) bool { return g.Open(now) })
}

func (k *burstLog) Outages(_ context.Context, now time.Time, limit int) ([]ledger.Outage, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	var out []ledger.Outage
	for _, in := range k.all {
		in = k.told(in, now)
		in.Fates = nil
		out = append(out, in)
	}
	slices.SortFunc(out, func(a, b ledger.Outage) int {
		if c := b.LastAt.Compare(a.LastAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
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
				ids = append(ids, e.op.Outage)
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
	minutes, groups := map[int64]int{}, map[ledger.OutageGroup]ledger.Sum{}
	for _, e := range k.m.ops {
		if e.op.Row().Outage != in.ID {
			continue
		}
		minutes[e.joinedAt.UnixMilli()/60000]++
		rec, run := k.m.record(e, now), k.m.runOf(e.op)
		g := ledger.OutageGroup{Kind: e.op.Kind, Fate: e.op.Fate(granted(e, now)), Group: rec.Group(run != "")}
		if g.By = rec.By(g.Group); g.Group == ledger.GroupRunning {
			g.By = run
		}
		switch {
		case g.Group.Tab() == ledger.TabSettled || g.Group == ledger.GroupInFlight:
			g.Kind = "" // a store has most of them in no list
		case g.Group == ledger.GroupElsewhere:
			a.Elsewhere = append(a.Elsewhere, ledger.Landing{Operation: e.op.ID, Title: e.op.Title, Other: rec.Landings()[0]})
		}
		sum := SumOf(e.op, e.pricing, e.reads)
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
	for at, n := range minutes {
		a.Minutes = append(a.Minutes, ledger.Minute{At: time.UnixMilli(at * 60000).UTC(), N: n})
	}
	slices.SortFunc(a.Minutes, func(a, b ledger.Minute) int { return a.At.Compare(b.At) })
	for g, s := range groups {
		g.Sum = s
		a.Groups = append(a.Groups, g)
	}
	a.Rest()
	a.Elsewhere = a.Elsewhere[:min(len(a.Elsewhere), ledger.SomeElsewhere)]
	for _, ev := range k.m.events {
		if ev.Outage == in.ID && ev.Verb != ledger.OutageJoined {
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

// ended writes down which outages are over.
func (k *burstLog) ended(now time.Time) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	for i := range k.all {
		if in := k.told(k.all[i], now); in.OverAt.IsZero() && in.PhaseAt(now) == ledger.PhaseOver {
			k.all[i].OverAt, k.all[i].AnsweredAt = now, in.AnsweredAt
			k.m.append(in.Ended(), now)
		}
	}
}

// SumOf is the sum of one operation at its price, with its reads.
func SumOf(o ledger.Operation, p ledger.Pricing, reads []ledger.Read) ledger.Sum {
	s := ledger.Sum{N: 1}
	s.Miss, s.MissWords = addend(p.Miss)
	s.Twice, s.TwiceWords = addend(p.Duplicate)
	if p.Unpriced() {
		s.Unpriced = 1
	}
	if o.AttemptCount > 1 {
		s.Resent = 1
	}
	if o.Effects > 1 || o.Conflict == ledger.Duplicate {
		s.Doubled = 1
	}
	if s.Resent == 1 && s.Doubled == 0 && o.State != ledger.Failed && o.CheckedAt(reads).IsZero() {
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
