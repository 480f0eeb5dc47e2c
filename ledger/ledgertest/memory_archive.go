package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
)

// shelf is what was archived: the entries, which are not among the others then.
type shelf struct {
	m     *Memory
	stubs []*entry
	files []ledger.Archive
}

// here finds an operation that is not archived.
func (k *shelf) here(at ledger.Locator) *entry { return among(k.m.ops, at) }

// arrive puts an operation behind the others.
func (k *shelf) arrive(e *entry) *entry {
	m := k.m
	m.came++
	e.seq = m.came
	m.ops = append(m.ops, e)
	return e
}

// waitsFor reports whether anything may still be done because of an operation, but for
// sending it once more after it was said not to have landed.
func waitsFor(e *entry) bool {
	o := e.op
	return !o.ParkedUntil.IsZero() || unused(e) || o.Conflict != ledger.NoConflict || o.State == ledger.Pending || o.State == ledger.Uncertain ||
		!e.recheck.IsZero() && (o.State != ledger.Failed || !o.Doubted)
}

func unused(e *entry) bool {
	return slices.ContainsFunc(e.grants, func(g ledger.Grant) bool { return g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() })
}

// archivable reports whether an operation may be archived.
func (k *shelf) archivable(e *entry, before time.Time) bool {
	o, m := e.op, k.m
	in := m.incident(o.Incident)
	switch {
	case waitsFor(e) || !e.recheck.IsZero() || o.Undelivered || o.Awaits != "", !o.UpdatedAt.Before(before) || !o.SettledAt.Before(before),
		e == m.ops[len(m.ops)-1], e.lease.Holder != "" && e.lease.ExpiresAt.After(m.clock()),
		in != nil && (in.LastAt.Add(in.Gap).After(before) || o.AttemptCount > 1 || o.Row().LaneAt(m.clock()) != ledger.LaneResolved), m.inRun(o.ID):
		return false
	}
	return k.spare(e, before)
}

// spare reports whether others of its kind and on its target say all that it does.
func (k *shelf) spare(e *entry, before time.Time) bool {
	o := e.op
	control := func(o ledger.Operation) bool { return o.State == ledger.Committed && o.ByAnswer && o.TokenSent }
	newer, alone, overtaken := !control(o), true, false
	for i, other := range k.m.ops {
		p := other.op
		newer = newer || control(p) && p.Kind == o.Kind && p.SettledAt.After(o.SettledAt) && p.SettledAt.Before(before)
		if p.Target == o.Target && other != e {
			alone = false
			later := p.StartedAt.After(o.StartedAt) || p.StartedAt.Equal(o.StartedAt) && i > slices.Index(k.m.ops, e)
			overtaken = overtaken || later && p.State == ledger.Committed
		}
	}
	alone = alone && !slices.ContainsFunc(k.stubs, func(s *entry) bool { return s.op.Target == o.Target })
	return newer && (o.Target == "" || overtaken || alone)
}

// Archivable implements ledger.Store.
func (k *shelf) Archivable(_ context.Context, before time.Time, after int64, limit int) (ops []ledger.Whole, place int64, err error) {
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := map[string]bool{}
	for _, e := range m.ops {
		if waitsFor(e) {
			asked[e.op.Kind+"\n"+e.op.Fingerprint] = true
		}
	}
	older := false
	seen := 0
	for _, e := range m.ops {
		if e.seq <= after {
			continue
		}
		if seen++; seen > limit {
			break
		}
		place, older = e.seq, older || e.op.CreatedAt.Before(before)
		o := e.op
		if k.archivable(e, before) && !(o.Fingerprint != "" && asked[o.Kind+"\n"+o.Fingerprint]) {
			ops = append(ops, m.whole(e))
		}
	}
	if seen < limit || !older {
		place = 0
	}
	return ops, place, nil
}

// whole is everything of an operation.
func (k *shelf) whole(e *entry) ledger.Whole {
	w := ledger.Whole{Operation: e.op, Attempts: slices.Clone(e.attempts), Reads: slices.Clone(e.reads), Grants: slices.Clone(e.grants), Marks: slices.Clone(e.marks)}
	for _, ev := range k.m.events {
		if ev.OperationID == e.op.ID {
			w.Events = append(w.Events, ev)
		}
	}
	return w
}

// ChangeArchive implements ledger.Store.
func (k *shelf) ChangeArchive(_ context.Context, next ledger.Archive) error {
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	for _, a := range k.files {
		if a.ID != next.ID && a.ClosedAt.IsZero() && a.Until.After(now) && next.ClosedAt.IsZero() {
			return &ledger.LeasedError{Holder: a.Actor.Name, Until: a.Until}
		}
	}
	i := slices.IndexFunc(k.files, func(a ledger.Archive) bool { return a.ID == next.ID })
	if i < 0 {
		k.files = append(k.files, ledger.Archive{ID: next.ID, File: next.File, Before: next.Before, Actor: next.Actor, CreatedAt: now, Until: next.Until})
		return nil
	}
	a, e := k.files[i].Carry(next, now)
	if k.files[i] = a; e != nil {
		m.append(*e, now)
	}
	return nil
}

// Reseal implements ledger.Store.
func (k *shelf) Reseal(_ context.Context, r ledger.Resealing) error {
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(k.files, func(a ledger.Archive) bool { return a.ID == r.ID })
	if i < 0 {
		return fmt.Errorf("%w: archive %s", ledger.ErrNotFound, r.ID)
	}
	a, e, err := r.Apply(k.files[i], m.clock())
	if k.files[i] = a; e != nil {
		m.append(*e, m.clock())
	}
	return err
}

// Archive implements ledger.Store.
func (k *shelf) Archive(_ context.Context, id string, ops []ledger.Whole) (removed int, held time.Duration, err error) {
	m, began := k.m, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(k.files, func(a ledger.Archive) bool { return a.ID == id })
	if i < 0 {
		return 0, 0, fmt.Errorf("%w: archive %s", ledger.ErrNotFound, id)
	}
	a := &k.files[i]
	if a.Digest == "" || !a.ClosedAt.IsZero() {
		return 0, 0, fmt.Errorf("an operation is archived with a file that is sealed and not closed")
	}
	var gone []*entry
	for _, w := range ops {
		e := m.here(ledger.Locator{ID: w.Operation.ID})
		if e == nil || !k.archivable(e, a.Before) {
			continue
		}
		now := m.whole(e)
		if now.Operation.Version == w.Operation.Version && now.Operation.KeyLive == w.Operation.KeyLive && len(now.Events) == len(w.Events) && len(now.Reads) == len(w.Reads) {
			gone = append(gone, e)
		}
	}
	for _, e := range gone {
		e.forgetAt = m.whole(e).ForgetAt(m.moment())
		w := m.whole(e).Slim(a.File)
		m.ops = slices.DeleteFunc(m.ops, func(o *entry) bool { return o == e })
		e.op, e.attempts, e.reads, e.grants, e.lease = w.Operation, w.Attempts, nil, nil, ledger.Lease{}
		k.stubs = append(k.stubs, e)
		m.events = slices.DeleteFunc(m.events, func(ev ledger.Event) bool {
			leaves := ev.OperationID == e.op.ID && ev.Incident == "" && !m.telling[ev.ID]
			if leaves {
				delete(m.changes, ev.ID)
			}
			return leaves
		})
	}
	for _, e := range k.stubs {
		if !e.forgetAt.IsZero() && e.forgetAt.Before(m.clock()) && (ledger.Stub{Whole: ledger.Whole{Operation: e.op}}).Over(m.moment()) { // it only counts
			e.op.ID, e.op.KeyLive, e.attempts = "", false, nil
		}
	}
	return len(gone), time.Since(began), nil
}

// giveBack has an archived operation among the others again, where it came.
func (k *shelf) giveBack(e *entry, now time.Time) {
	i := slices.Index(k.stubs, e)
	if i < 0 {
		return
	}
	m := k.m
	k.stubs = slices.Delete(k.stubs, i, i+1)
	at, _ := slices.BinarySearchFunc(m.ops, e, func(a, b *entry) int { return int(a.seq - b.seq) })
	m.ops = slices.Insert(m.ops, at, e)
	m.append(ledger.Returned(e.op), now)
}

// Archives implements ledger.Store.
func (k *shelf) Archives(context.Context) ([]ledger.Archive, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	files := slices.Clone(k.files)
	for i := range files {
		for _, e := range k.stubs {
			if e.op.Archive == files[i].File {
				files[i].Removed++
			}
		}
	}
	return files, nil
}

// inRun reports whether an operation is in a run that goes on.
func (k *keptRuns) inRun(id string) bool {
	for _, r := range k.runs {
		if r.run.Open() && r.run.Size > 1 && slices.ContainsFunc(r.items, func(it ledger.RunItem) bool { return it.OperationID == id }) {
			return true
		}
	}
	return false
}
