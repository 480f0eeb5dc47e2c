package ledgertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
)

// rows are all rows in the order asked for.
func (m *Memory) rows(order ledger.Order, now time.Time) []ledger.Row {
	var rows []ledger.Row
	inRun := m.inRuns()
	for _, e := range m.ops {
		rec := m.record(e, now)
		row := rec.Row()
		row.Group = rec.Group(inRun(e.op) != "")
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b ledger.Row) int { return compareRows(order, a, b) })
	return rows
}

// compareRows is the order of a list; rows that are equal in it stay as they came.
func compareRows(order ledger.Order, a, b ledger.Row) int {
	switch order {
	case ledger.OrderNewest:
		return b.UpdatedAt.Compare(a.UpdatedAt)
	case ledger.OrderOldest:
		return a.CreatedAt.Compare(b.CreatedAt)
	}
	calm := func(r ledger.Row) int {
		if r.Conflict == ledger.NoConflict {
			return 1
		}
		return 0
	}
	return cmp.Or(calm(a)-calm(b), cmp.Compare(b.Pricing.Rank, a.Pricing.Rank), a.CreatedAt.Compare(b.CreatedAt))
}

// orderOf is the order a query asks for, said or not. What is settled has
// nothing to lose, so lists that hold it are never in the order of loss.
func orderOf(q ledger.Query) ledger.Order {
	settled := q.Tab == ledger.TabSettled || q.Tab == ledger.TabAll || q.Tab == ""
	switch {
	case settled && (q.Order == "" || q.Order == ledger.OrderLoss):
		return ledger.OrderNewest
	case q.Order == "":
		return ledger.OrderLoss
	}
	return q.Order
}

func (m *Memory) Page(_ context.Context, q ledger.Query) (ledger.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []ledger.Row
	for _, r := range m.rows(orderOf(q), q.Now) {
		if (q.Tab == "" || q.Tab == ledger.TabAll || r.TabAt(q.Now) == q.Tab) && q.Filter.Match(r, q.Now) {
			rows = append(rows, r)
		}
	}
	from, _ := strconv.Atoi(q.After)
	limit := q.Limit
	if limit == 0 {
		limit = 50
	}
	from = min(from, len(rows))
	to := min(from+limit, len(rows))
	page := ledger.Page{Rows: rows[from:to]}
	if to < len(rows) {
		page.Next = strconv.Itoa(to)
	}
	return page, nil
}

func (m *Memory) Needing(_ context.Context, f ledger.Filter, now time.Time) (ledger.Needing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return needing(m.rows(ledger.OrderNewest, now), f, now), nil
}

// needing is what Needing must say of these rows.
func needing(rows []ledger.Row, f ledger.Filter, now time.Time) (n ledger.Needing) {
	for _, r := range rows {
		if f.Match(r, now) {
			n.Count(r, now)
		}
	}
	return n
}

func (m *Memory) Counts(_ context.Context, now time.Time) (ledger.Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return count(m.rows(ledger.OrderNewest, now), now), nil
}

// count is what Counts must say of these rows.
func count(rows []ledger.Row, now time.Time) ledger.Counts {
	c := ledger.Counts{Needing: needing(rows, ledger.Filter{}, now), All: len(rows), ByState: map[ledger.State]int{}}
	for _, r := range rows {
		c.ByState[r.StateAt(now)]++
		switch r.TabAt(now) {
		case ledger.TabParked:
			c.Parked++
		case ledger.TabChecking:
			c.Checking++
		case ledger.TabInFlight:
			c.InFlight++
		case ledger.TabSettled:
			c.Settled++
		}
	}
	return c
}

func (m *Memory) Expire(ctx context.Context, limit int) (int, error) {
	m.mu.Lock()
	var late []string
	for _, e := range m.ops {
		if e.op.State == ledger.Pending && e.op.StateAt(m.clock()) == ledger.Uncertain && len(late) < limit {
			late = append(late, e.op.ID)
		}
	}
	m.mu.Unlock()
	n := 0
	for _, id := range late {
		applied, err := m.Change(ctx, ledger.Locator{ID: id}, ledger.NewID(), ledger.ExpireRule())
		if err != nil {
			return 0, err
		}
		if !applied.Noop {
			n++
		}
	}
	return n, nil
}

func (m *Memory) Due(_ context.Context, downstream string, now time.Time, limit int) (rows []ledger.Row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*entry
	for _, e := range m.ops {
		wanted := e.op.State == ledger.Uncertain || !e.recheck.IsZero()
		if wanted && e.pricing.Downstream == downstream && !e.pricing.ReadAt.After(now) {
			due = append(due, e)
		}
	}
	slices.SortStableFunc(due, func(a, b *entry) int { return a.pricing.ReadAt.Compare(b.pricing.ReadAt) })
	for _, e := range due[:min(limit, len(due))] {
		rec := m.record(e, now)
		rows = append(rows, rec.Row())
	}
	return rows, nil
}

// Siblings looks at all operations.
func (m *Memory) Siblings(_ context.Context, q ledger.SiblingQuery) (out []ledger.Sibling, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*entry
	for _, e := range m.ops {
		o := e.op
		answered := o.State == ledger.Committed && o.ByAnswer && o.TokenSent && o.SettledAt.Before(q.Before) && o.RedactedAt.IsZero()
		named := o.Token != "" && slices.Contains(q.Tokens, o.Token)
		if o.Kind == q.Kind && (q.Tokens == nil && answered || named) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b *entry) int {
		if q.Tokens == nil {
			return b.op.SettledAt.Compare(a.op.SettledAt)
		}
		return cmp.Compare(slices.Index(m.ops, b), slices.Index(m.ops, a))
	})
	for _, e := range found[:min(q.Limit, len(found))] {
		b := ledger.Sibling{ID: e.op.ID, Token: e.op.Token, Failed: e.op.State == ledger.Failed || e.op.Fact == ledger.Failed}
		for _, ev := range m.events {
			if ev.OperationID != e.op.ID {
				continue
			}
			if b.Began == 0 {
				b.Began = ev.Seq
			}
			if !slices.Contains(ledger.BesideAttempts, ev.Verb) {
				b.Ended = ev.Seq
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// Keyed looks at the keys of all operations.
func (m *Memory) Keyed(_ context.Context, key string, limit int) ([]string, error) {
	return m.newest(limit, func(e *entry) bool { return e.op.KeyLive && (e.op.Key == key || e.op.Key == ledger.Masked(key)) }), nil
}

// FieldNames looks at the keys of all operations.
func (m *Memory) FieldNames(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lists := map[string]string{}
	for _, e := range m.ops {
		if _, fields := ledger.FieldsOf(e.op.Key); e.op.KeyLive && fields != nil {
			lists[ledger.FieldsList(e.op.Key)] = e.op.Key
		}
	}
	return slices.Sorted(maps.Values(lists)), nil
}

// Marked looks at the marks of all operations.
func (m *Memory) Marked(_ context.Context, value string, limit int) ([]string, error) {
	return m.newest(limit, func(e *entry) bool {
		return value != "" && (slices.Contains(e.marks, value) || slices.Contains(e.marks, ledger.Masked(value)))
	}), nil
}

// newest are the ids of some operations, newest first.
func (m *Memory) newest(limit int, some func(*entry) bool) (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []ledger.Operation
	for _, e := range m.ops {
		if some(e) {
			found = append(found, e.op)
		}
	}
	slices.SortFunc(found, func(a, b ledger.Operation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	for _, o := range found[:min(limit, len(found))] {
		ids = append(ids, o.ID)
	}
	return ids
}

func (m *Memory) Mark(_ context.Context, rules func(string) string, marks func(ledger.Operation) ledger.Marks, limit int) (more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.ops {
		want := rules(e.op.Kind)
		if want == "" || want == e.op.MarkRules || !e.op.RedactedAt.IsZero() {
			continue
		}
		if limit--; limit < 0 {
			return true, nil
		}
		made := marks(e.op)
		e.op.MarkRules, e.marks = want, append(e.marks, made.Values...)
	}
	return limit <= 0, nil
}

func (m *Memory) Hold(_ context.Context, h ledger.Hold) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[h.ChangeID]; known {
		return nil
	}
	if err := h.Actor.MaySign("hold"); err != nil {
		return err
	}
	h.CreatedAt = m.clock()
	m.holds = append(slices.DeleteFunc(m.holds, func(o ledger.Hold) bool { return o.Scope == h.Scope }), h)
	m.append(ledger.Event{ID: h.ChangeID, Verb: "hold", Actor: h.Actor, Reason: h.Reason}, m.clock())
	return nil
}

func (m *Memory) LiftHold(_ context.Context, scope ledger.HoldScope, actor ledger.Actor, reason, changeID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[changeID]; known {
		return nil
	}
	before := len(m.holds)
	m.holds = slices.DeleteFunc(m.holds, func(h ledger.Hold) bool { return h.Scope == scope })
	if len(m.holds) == before {
		return nil
	}
	m.append(ledger.Event{ID: changeID, Verb: "release", Actor: actor, Reason: reason}, m.clock())
	return nil
}

func (m *Memory) ApplyPolicy(_ context.Context, p ledger.PolicyText) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[p.ChangeID]; known {
		return nil
	}
	if err := p.Actor.MaySign("apply"); err != nil {
		return err
	}
	last, err := policyIn(m.events)
	if err == nil {
		err = p.Follows(last)
	}
	if err != nil {
		return err
	}
	e, err := p.Event()
	m.append(e, m.clock())
	return err
}

func (m *Memory) Tell(_ context.Context, notice ledger.Event) (first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[notice.ID]; known {
		return false, nil
	}
	m.append(notice, m.clock())
	return true, nil
}

func (m *Memory) Policy(_ context.Context, have ledger.PolicyText) (ledger.PolicyText, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := policyIn(m.events)
	if p.ChangeID == have.ChangeID {
		return have, nil
	}
	return p, err
}

// policyIn is the one that was put in force last.
func policyIn(events []ledger.Event) (ledger.PolicyText, error) {
	for _, e := range slices.Backward(events) {
		if e.Verb == ledger.PolicyApplied {
			return ledger.PolicyOf(e)
		}
	}
	return ledger.PolicyText{}, nil
}

// notUnder says why a change is not under the policy in force; "" when it is, or says of none.
func notUnder(events []ledger.Event, rec ledger.Record, c ledger.Change) string {
	p, err := policyIn(events)
	if err != nil {
		return err.Error()
	}
	if c.Read != nil && c.Read.Verdict == ledger.NotThere && p.Number > 0 && p.Digest != c.Read.Digest {
		return "what this policy says proves nothing: another one is in force"
	}
	for _, a := range c.Attempts {
		begins := !slices.ContainsFunc(rec.Attempts, func(had ledger.Attempt) bool { return had.ID == a.ID })
		if begins && a.Policy > 0 && a.Policy < p.Number {
			return ledger.Older
		}
	}
	return ""
}

func (m *Memory) Holds(_ context.Context, now time.Time) ([]ledger.Hold, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return holdsAt(m.holds, now), nil
}

// holdsAt are the holds in force.
func holdsAt(all []ledger.Hold, now time.Time) (out []ledger.Hold) {
	for _, h := range all {
		if h.Until.IsZero() || !now.After(h.Until) {
			out = append(out, h)
		}
	}
	return out
}

// openUnder is what is open and holds a gate back, or nil.
func openUnder(ops []*entry, gate string) *entry {
	for _, e := range ops {
		if e.op.State.Open() && ledger.GateHolds(e.op.Gate, gate) {
			return e
		}
	}
	return nil
}

// leaving is an operation as it is written: where it is open again, it leaves a gate under
// which another one is.
func leaving(ops []*entry, was, o ledger.Operation) ledger.Operation {
	if !was.State.Open() && o.State.Open() && openUnder(ops, o.Gate) != nil {
		o.Gate = ""
	}
	return o
}

// DigestKey is the same for every ledger in memory.
func (m *Memory) DigestKey(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}
